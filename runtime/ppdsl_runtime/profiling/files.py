"""Measured costs as the costs file that ``ppdsl schema costs`` describes."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ppdsl_runtime.profiling.kinds import KindCosts

SCHEMA_VERSION = "1.0"


def write_costs(ranks: Sequence[Mapping[str, KindCosts]], p2p_ms: float, bytes_per_param: int) -> dict[str, object]:
    """Write the costs file: of each kind the medians over the ranks.

    Args:
        ranks: What each rank measured.
        p2p_ms: Time of a message between two ranks.
        bytes_per_param: What a parameter holds with its gradient and the optimizer's state.

    Returns:
        Data that ``json.dumps`` takes and ``ppdsl.costs.read_costs`` reads.
    """
    kinds: dict[str, dict[str, float]] = {}
    for kind in ranks[0]:
        found = [costs[kind] for costs in ranks]
        kinds[kind] = {field: median(getattr(each, field) for each in found) for field in found[0]._fields if field != "backward"}
    return {"schema_version": SCHEMA_VERSION, "kinds": kinds, "p2p_ms": p2p_ms, "bytes_per_param": bytes_per_param}
