"""Rows to a program: receive buffers from a pool, gradient-reduction points, and the limits that a program states."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING

from ppdsl.lowering.program import COMPUTE, RECEIVES, REDUCE, SENDS, Instruction, Program, make_instruction

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ppdsl.lowering.writing import Row
    from ppdsl.schedules.actions import Schedule


def complete(schedule: Schedule, depth: int, rows: Iterable[Iterable[Row]], *, reduces: bool = True) -> Program:
    """Make a program of each rank's rows.

    Args:
        schedule: Whose program it is.
        depth: How many actions ahead of its use a receive is posted.
        rows: The rows.
        reduces: Whether to add where each stage's gradients are reduced: behind its last backward and the sends that follow it, since
            other ranks wait for those.
    """
    ranks = []
    for number, rank_rows in enumerate(rows):
        ranks.append(_Rank(schedule.owners, schedule.microbatches, number))
        ranks[-1].write(rank_rows, reduces=reduces)
    return Program(
        schedule=schedule.name,
        owners=schedule.owners,
        microbatches=schedule.microbatches,
        depth=depth,
        ranks=tuple(tuple(rank.instructions) for rank in ranks),
        forward_slots=tuple(rank.activations.size for rank in ranks),
        backward_slots=tuple(rank.gradients.size for rank in ranks),
        in_flight=tuple(rank.in_flight for rank in ranks),
        send_slots=tuple(rank.send_slots for rank in ranks),
    )


class _Pool:
    """Receive buffers of one kind; each receive is given the lowest that is free when it is posted.

    Attributes:
        size: How many there are.
        free: A heap of those that hold nothing.
        held: The buffer of each cell (stage and microbatch) that has one.
    """

    __slots__ = ("free", "held", "size")

    def __init__(self) -> None:
        self.size = 0
        self.free: list[int] = []
        self.held: dict[int, int] = {}

    def grow(self) -> int:
        """Give a buffer that was not there before."""
        self.size += 1
        return self.size - 1


class _Rank:
    """One rank's instructions, with all that its program says about them.

    Attributes:
        instructions: What is written.
        activations: Buffers for received activations; one is held until the backward that needs it (B, or W) is done.
        gradients: Buffers for received gradients; one is held until its B or I is done.
        in_flight: The most forwards done whose backward (B, or I) is not.
        send_slots: The most outputs made that are still to be sent.
    """

    def __init__(self, owners: Sequence[int], batches: int, rank: int) -> None:
        self.instructions: list[Instruction] = []
        self.activations = _Pool()
        self.gradients = _Pool()
        self.in_flight = self.send_slots = self._flying = self._unsent = 0
        self._batches = batches
        self._leaves = [one == rank != other for one, other in zip(owners, [*owners[1:], rank], strict=False)]
        self._returns = [one == rank != other for one, other in zip(owners, [rank, *owners[:-1]], strict=False)]
        self._backwards_left = [batches] * len(owners)
        self._complete: list[int] = []

    def write(self, rows: Iterable[Row], *, reduces: bool) -> None:
        """Write all rows; see ``complete``."""
        batches, write = self._batches, self.instructions.append
        pools = {"RECV_F": self.activations, "RECV_B": self.gradients}
        for stage, kind, batch in rows:
            slot = -1
            if kind in SENDS:
                self._unsent -= 1
            else:
                if self._complete:
                    self._reduce(reduces=reduces)
                if kind in COMPUTE:
                    self._compute(stage, kind, stage * batches + batch)
                elif kind in RECEIVES:
                    pool = pools[kind]
                    slot = heappop(pool.free) if pool.free else pool.grow()
                    pool.held[stage * batches + batch] = slot
            write(make_instruction((stage, kind, batch, slot)))
        self._reduce(reduces=reduces)

    def _compute(self, stage: int, kind: str, cell: int) -> None:
        """Count what an action makes and frees."""
        if kind == "F":
            self._flying += 1
            self.in_flight = max(self.in_flight, self._flying)
            if self._leaves[stage]:
                self._make()
            return
        if kind != "W":
            self._flying -= 1
            if self._returns[stage]:
                self._make()
            if cell in self.gradients.held:
                heappush(self.gradients.free, self.gradients.held.pop(cell))
        if kind != "I":
            if cell in self.activations.held:
                heappush(self.activations.free, self.activations.held.pop(cell))
            self._backwards_left[stage] -= 1
            if not self._backwards_left[stage]:
                self._complete.append(stage)

    def _make(self) -> None:
        """Count an output that is to be sent."""
        self._unsent += 1
        self.send_slots = max(self.send_slots, self._unsent)

    def _reduce(self, *, reduces: bool) -> None:
        if reduces:
            self.instructions += [Instruction(stage, REDUCE, -1) for stage in self._complete]
        self._complete.clear()
