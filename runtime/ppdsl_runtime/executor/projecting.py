"""The forward half of a rank's program, for evaluation."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ppdsl.lowering import Instruction

_FORWARD = frozenset({"F", "SEND_F", "RECV_F", "WAIT_F"})


def forward_only(instructions: Iterable[Instruction]) -> list[Instruction]:
    """Leave out all that belongs to backwards, and free each receive buffer once its forward is done.

    The transfers that remain keep the one order that was proved for all of them, so they cannot deadlock either.

    Args:
        instructions: One rank's.
    """
    free: list[int] = []
    held: dict[tuple[int, int], int] = {}
    size, kept = 0, []
    for instruction in instructions:
        stage, kind, batch, _ = instruction
        if kind not in _FORWARD:
            continue
        if kind == "RECV_F":
            if free:
                slot = heappop(free)
            else:
                slot, size = size, size + 1
            held[stage, batch] = slot
            kept.append(instruction._replace(slot=slot))
            continue
        if kind == "F" and (stage, batch) in held:
            heappush(free, held.pop((stage, batch)))
        kept.append(instruction)
    return kept
