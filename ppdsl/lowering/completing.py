"""Rows to a program: receive buffers from a pool, gradient-reduction points, and the limits that a program states."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING

from ppdsl.lowering.program import REDUCE, SENDS, Instruction, Program, make_instruction

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ppdsl.lowering.writing import Row


def complete(name: str, owners: tuple[int, ...], microbatches: int, depth: int, rows: Iterable[Iterable[Row]]) -> Program:
    """Make a program of each rank's rows; the other arguments are the program's own.

    A stage's gradients are reduced behind its last backward and the sends that follow it, since other ranks wait for those; rows that
    have reductions already keep them.
    """
    ranks = [_Rank(owners, microbatches, rank, rank_rows) for rank, rank_rows in enumerate(rows)]
    return Program(
        schedule=name,
        owners=owners,
        microbatches=microbatches,
        depth=depth,
        ranks=tuple(tuple(rank.instructions) for rank in ranks),
        forward_slots=tuple(rank.activations.size for rank in ranks),
        backward_slots=tuple(rank.gradients.size for rank in ranks),
        in_flight=tuple(rank.in_flight for rank in ranks),
        send_slots=tuple(rank.send_slots for rank in ranks),
    )


class _Pool:
    """Receive buffers of one kind.

    Attributes:
        size: How many there are.
    """

    __slots__ = ("_free", "_held", "size")

    def __init__(self) -> None:
        self.size = 0
        self._free: list[int] = []
        self._held: dict[int, int] = {}

    def take(self, cell: int) -> int:
        """Give a buffer to what a cell (stage and microbatch) receives: the lowest that is free."""
        if self._free:
            slot = heappop(self._free)
        else:
            slot = self.size
            self.size += 1
        self._held[cell] = slot
        return slot

    def release(self, cell: int) -> None:
        """Free a cell's buffer, if it has one."""
        slot = self._held.pop(cell, None)
        if slot is not None:
            heappush(self._free, slot)


class _Rank:
    """One rank's instructions, with all that its program says about them.

    Attributes:
        instructions: What is written.
        activations: Buffers for received activations; one is held until the backward that needs it (B, or W) is done.
        gradients: Buffers for received gradients; one is held until its B or I is done.
        in_flight: The most forwards done whose backward (B, or I) is not.
        send_slots: The most outputs made that are still to be sent.
    """

    def __init__(self, owners: Sequence[int], batches: int, rank: int, rows: Iterable[Row]) -> None:
        self.instructions: list[Instruction] = []
        self.activations = _Pool()
        self.gradients = _Pool()
        self.in_flight = self.send_slots = self._flying = self._unsent = 0
        self._batches = batches
        self._leaves = [one == rank != other for one, other in zip(owners, [*owners[1:], rank], strict=True)]
        self._returns = [one == rank != other for one, other in zip(owners, [rank, *owners[:-1]], strict=True)]
        self._backwards_left = [batches] * len(owners)
        self._complete: list[int] = []
        self._write(rows)

    def _write(self, rows: Iterable[Row]) -> None:
        handlers = {
            "F": self._forward,
            "B": self._backward,
            "I": self._input_gradient,
            "W": self._weight_gradient,
            "RECV_F": self.activations.take,
            "RECV_B": self.gradients.take,
            "SEND_F": self._send,
            "SEND_B": self._send,
        }
        batches, write = self._batches, self.instructions.append
        for stage, kind, batch in rows:
            if self._complete and kind not in SENDS:
                self._reduce()
            handle = handlers.get(kind)
            slot = -1 if handle is None else handle(stage * batches + batch)
            write(make_instruction((stage, kind, batch, slot)))
        self._reduce()

    def _forward(self, cell: int) -> int:
        self._flying += 1
        self.in_flight = max(self.in_flight, self._flying)
        self._make(leaves=self._leaves[cell // self._batches])
        return -1

    def _input_gradient(self, cell: int) -> int:
        self._flying -= 1
        self.gradients.release(cell)
        self._make(leaves=self._returns[cell // self._batches])
        return -1

    def _weight_gradient(self, cell: int) -> int:
        self.activations.release(cell)
        stage = cell // self._batches
        self._backwards_left[stage] -= 1
        if not self._backwards_left[stage]:
            self._complete.append(stage)
        return -1

    def _backward(self, cell: int) -> int:
        self._input_gradient(cell)
        return self._weight_gradient(cell)

    def _make(self, *, leaves: bool) -> None:
        if leaves:
            self._unsent += 1
            self.send_slots = max(self.send_slots, self._unsent)

    def _send(self, _cell: int) -> int:
        self._unsent -= 1
        return -1

    def _reduce(self) -> None:
        self.instructions += [Instruction(stage, REDUCE, -1) for stage in self._complete]
        self._complete.clear()
