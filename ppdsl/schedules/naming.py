"""Schedules by name: which there are, where each is legal, and how each is made."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ppdsl.schedules.orders import gpipe, interleaved, one_forward_one_backward
from ppdsl.schedules.zero_bubble import zb_h1, zb_h2, zb_v

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ppdsl.schedules.actions import Schedule

WHOLE = ("gpipe", "1f1b", "interleaved_1f1b")
"""Orders that do each backward in one."""
SPLIT = ("zb_h1", "zb_h2", "zb_v")
"""Orders with input and weight gradients apart."""
NAMES = (*WHOLE, *SPLIT, "auto")
"""Every schedule that can be asked for."""

_MAKERS: dict[str, Callable[[Sequence[int], int, int], Schedule]] = {
    "1f1b": one_forward_one_backward,
    "gpipe": gpipe,
    "zb_h1": zb_h1,
    "zb_h2": zb_h2,
    "zb_v": zb_v,
}


def find_obstacle(name: str, owners: Sequence[int], pp: int, microbatches: int, group: int | None = None) -> str | None:
    """Say why a named order is not legal; None where it is.

    Args:
        name: One of ``NAMES``.
        owners: The rank of each stage.
        pp: Number of ranks.
        microbatches: Number of microbatches in a step, from 1.
        group: Microbatches that a chunk works through before the next takes its turn; ``pp`` by default. Only interleaved_1f1b has it.
    """
    if name in ("1f1b", "zb_h1", "zb_h2"):
        return None if sorted(owners) == [*range(pp)] else f"{name} needs one stage on each rank"
    if name == "zb_v":
        two_ways = (*range(pp), *reversed(range(pp)))
        return None if tuple(owners) == two_ways else "zb_v needs the placement v with two chunks on each rank"
    if name == "interleaved_1f1b":
        chunks, rest = divmod(len(owners), pp)
        if rest or tuple(owners) != tuple(range(pp)) * chunks:
            return "interleaved_1f1b needs the loop placement"
        return _find_misfit(microbatches, group or pp, pp)
    return None


def _find_misfit(microbatches: int, group: int, pp: int) -> str | None:
    """Say why the microbatches do not fit their groups, outside of which the order deadlocks."""
    rest = microbatches % group
    if group < pp:
        reason = f"the microbatch group of {group} is smaller than pp = {pp}"
    elif group > microbatches:
        reason = f"{microbatches} is less than the microbatch group of {group}"
    elif rest and rest < pp:
        reason = f"{microbatches} mod {group} = {rest}, which is neither 0 nor at least pp = {pp}"
    else:
        return None
    return f"{microbatches} microbatch{'es' if microbatches > 1 else ''} cannot be scheduled by interleaved_1f1b: {reason}"


def make_named(name: str, owners: Sequence[int], pp: int, microbatches: int, group: int | None = None) -> Schedule:
    """Make a named order, all but ``auto``.

    Args:
        name: One of ``WHOLE`` or ``SPLIT``.
        owners: The rank of each stage.
        pp: Number of ranks.
        microbatches: Number of microbatches in a step, from 1.
        group: As for ``find_obstacle``.

    Raises:
        ValueError: The order is not legal here; the text says why.
    """
    obstacle = find_obstacle(name, owners, pp, microbatches, group)
    if obstacle is not None:
        raise ValueError(obstacle)
    if name == "interleaved_1f1b":
        return interleaved(owners, pp, microbatches, group or pp)
    return _MAKERS[name](owners, pp, microbatches)
