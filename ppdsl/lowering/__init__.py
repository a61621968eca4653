"""A schedule to a program: sends, receives, waits, receive buffers and gradient-reduction points."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ppdsl.lowering.buffers import assign_slots
from ppdsl.lowering.program import REDUCE, Instruction, Program, peak_in_flight, read_instruction
from ppdsl.lowering.transfers import Transfer, order_transfers

if TYPE_CHECKING:
    from ppdsl.schedules.actions import Schedule

__all__ = ["Instruction", "Program", "lower", "read_instruction"]


def lower(schedule: Schedule, depth: int = 1) -> Program:
    """Write out every send, receive and wait of a schedule.

    Args:
        schedule: The actions of each rank.
        depth: How many actions ahead of its use a receive is posted; 1 overlaps each transfer with one action.

    Returns:
        A program in which each rank issues its transfers in one common order, so that it cannot deadlock; ``verify`` proves it.

    Raises:
        StuckError: The schedule deadlocks by itself.
    """
    issued: list[list[tuple[int, Instruction]]] = [[] for _ in schedule.ranks]
    for transfer in order_transfers(schedule, depth):
        _issue(issued, schedule, transfer)
    written = [_write_rank(schedule, rank, issued[rank]) for rank in range(schedule.pp)]
    slotted = [assign_slots(instructions) for instructions in written]
    return Program(
        schedule.name,
        schedule.owners,
        schedule.microbatches,
        depth,
        tuple(instructions for instructions, _, _ in slotted),
        tuple(forward for _, forward, _ in slotted),
        tuple(backward for _, _, backward in slotted),
        peak_in_flight(schedule),
    )


def _issue(issued: list[list[tuple[int, Instruction]]], schedule: Schedule, transfer: Transfer) -> None:
    """Add a transfer to its two ranks, not before the step at which it can be issued, nor before the transfers that precede it."""
    receiving = transfer.stage + (1 if transfer.kind == "F" else -1)
    ends = (
        (schedule.owners[transfer.stage], transfer.sent_at, Instruction(transfer.stage, f"SEND_{transfer.kind}", transfer.microbatch)),
        (schedule.owners[receiving], transfer.posted_at, Instruction(receiving, f"RECV_{transfer.kind}", transfer.microbatch)),
    )
    for rank, step, instruction in ends:
        rows = issued[rank]
        rows.append((max(step, rows[-1][0]) if rows else step, instruction))


def _write_rank(schedule: Schedule, rank: int, issued: list[tuple[int, Instruction]]) -> list[Instruction]:
    owners, last = schedule.owners, schedule.stages - 1
    actions = schedule.ranks[rank]
    final = {stage: at for at, (stage, kind, _) in enumerate(actions) if kind in ("B", "W")}
    program: list[Instruction] = []
    done = 0
    for at, (stage, kind, batch) in enumerate(actions):
        while done < len(issued) and issued[done][0] <= 2 * at:
            program.append(issued[done][1])
            done += 1
        if kind == "F":
            if stage and owners[stage - 1] != rank:
                program.append(Instruction(stage, "WAIT_F", batch))
        elif kind != "W" and stage != last and owners[stage + 1] != rank:
            program.append(Instruction(stage, "WAIT_B", batch))
        while done < len(issued) and issued[done][0] <= 2 * at + 1:
            program.append(issued[done][1])
            done += 1
        program.append(Instruction(stage, kind, batch))
        if final.get(stage) == at:
            program.append(Instruction(stage, REDUCE, -1))
    program += [instruction for _, instruction in issued[done:]]
    return program
