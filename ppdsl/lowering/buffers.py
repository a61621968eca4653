"""Receive buffers from a pool: each receive is given the lowest slot that is free when it is posted."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING

from ppdsl.lowering.program import Instruction

if TYPE_CHECKING:
    from collections.abc import Iterable


class _Pool:
    """Slots of one kind of buffer."""

    def __init__(self) -> None:
        self.size = 0
        self._free: list[int] = []
        self._held: dict[tuple[int, int], int] = {}

    def take(self, stage: int, batch: int) -> int:
        """Give a slot to a message."""
        if self._free:
            slot = heappop(self._free)
        else:
            slot, self.size = self.size, self.size + 1
        self._held[stage, batch] = slot
        return slot

    def release(self, stage: int, batch: int) -> None:
        """Free the slot of a message, if it has one."""
        slot = self._held.pop((stage, batch), None)
        if slot is not None:
            heappush(self._free, slot)


def assign_slots(instructions: Iterable[Instruction]) -> tuple[tuple[Instruction, ...], int, int]:
    """Give each receive a slot.

    A received activation is held until the backward that needs it (B, or W) is done; a received gradient until its B or I is.

    Returns:
        The instructions with their slots, and how many forward and backward slots the rank needs.
    """
    instructions = [*instructions]
    forward, backward = _Pool(), _Pool()
    split = {(stage, batch) for stage, kind, batch, _ in instructions if kind == "W"}
    out = []
    for instruction in instructions:
        stage, kind, batch, _ = instruction
        if kind == "RECV_F":
            out.append(Instruction(stage, kind, batch, forward.take(stage, batch)))
            continue
        if kind == "RECV_B":
            out.append(Instruction(stage, kind, batch, backward.take(stage, batch)))
            continue
        out.append(instruction)
        if kind in ("B", "I"):
            backward.release(stage, batch)
        if kind == "W" or (kind == "B" and (stage, batch) not in split):
            forward.release(stage, batch)
    return tuple(out), forward.size, backward.size
