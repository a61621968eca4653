"""Normal form to plan: every stage gets its rank, its chunk number and its layers."""

from __future__ import annotations

from itertools import chain, cycle, islice, repeat
from typing import TYPE_CHECKING

from ppdsl.placing import rank_cycle
from ppdsl.planning.plan import Chunk, Plan

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ppdsl.normal_form import NormalForm
    from ppdsl.options import Placement


def build_plan(form: NormalForm, layout: str, pp: int, placement: Placement | None) -> Plan:
    """Make the chunk-ownership table of a valid layout.

    Args:
        form: The layout, listed, without faults.
        layout: Its canonical text.
        pp: Number of pipeline ranks.
        placement: None where the stages have owners of their own.
    """
    ranks = _ranks(form, pp, placement)
    norm = form.norm_stage()
    chunks: list[Chunk] = []
    used = [0] * pp
    layer = mtp = number = 0
    for index, count in form.order or ():
        stage = form.stages[index]
        layers, mtps = stage.count("t"), stage.count("m")
        embedding, loss = stage.count("E") > 0, stage.count("L") > 0
        for rank in islice(ranks, count):
            after, mtp_after = layer + layers, mtp + mtps
            chunks.append(Chunk(number, rank, used[rank], (layer, after), (mtp, mtp_after), embedding, number == norm, loss))
            used[rank] += 1
            layer, mtp, number = after, mtp_after, number + 1
    return Plan(layout, pp, max(used), placement or "owners", layer, mtp, tuple(chunks))


def _ranks(form: NormalForm, pp: int, placement: Placement | None) -> Iterator[int]:
    """Give the rank of each stage, in forward order."""
    if placement is not None:
        return cycle(rank_cycle(pp, placement))
    return chain.from_iterable(repeat(form.stages[index].owner or 0, count) for index, count in form.order or ())
