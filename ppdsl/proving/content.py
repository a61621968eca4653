"""Whether a program does all the work, once, where it belongs, with its inputs at hand and its buffers to itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ppdsl.lowering.program import COMPUTE, REDUCE, Instruction
from ppdsl.proving.execution import message_of
from ppdsl.proving.faults import ProgramFault, Step

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ppdsl.lowering.program import Program

MOST_FAULTS = 20
"""How many faults of a kind are given at most."""


def check_completeness(program: Program) -> Iterator[ProgramFault]:
    """Every F, and B or I and W, of every stage and microbatch is there once, on the stage's owner."""
    stages, batches = len(program.owners), program.microbatches
    seen = {kind: bytearray(stages * batches) for kind in COMPUTE}
    for rank, instructions in enumerate(program.ranks):
        for index, instruction in enumerate(instructions):
            stage, kind, batch, _ = instruction
            if kind not in seen:
                continue
            step = (Step(rank, index, instruction),)
            if not (0 <= stage < stages and 0 <= batch < batches):
                yield ProgramFault("misplaced", f"{instruction} on rank {rank}: there is no such stage or microbatch", step)
            elif program.owners[stage] != rank:
                yield ProgramFault("misplaced", f"{instruction} is on rank {rank}, its stage on rank {program.owners[stage]}", step)
            elif seen[kind][stage * batches + batch]:
                yield ProgramFault("repeated", f"{instruction} is done twice", step)
            else:
                seen[kind][stage * batches + batch] = 1
    for cell in range(stages * batches):
        stage, batch = divmod(cell, batches)
        forward, whole, inputs, weights = (seen[kind][cell] for kind in COMPUTE)
        if not forward:
            yield ProgramFault("missing", f"{stage}F{batch} is never done")
        if whole and (inputs or weights):
            yield ProgramFault("repeated", f"{stage}B{batch} is done, and I or W of it too")
        elif not whole and not (inputs and weights):
            done = f"{stage}I{batch} without {stage}W{batch}" if inputs else f"{stage}W{batch} without {stage}I{batch}" if weights else ""
            yield ProgramFault("missing", done or f"{stage}B{batch} is never done")


def check_inputs(program: Program) -> Iterator[ProgramFault]:
    """Every input is at hand before its use: waited for after its receive, or made on the rank before."""
    owners, last = program.owners, len(program.owners) - 1
    for rank, instructions in enumerate(program.ranks):
        made: set[tuple[int, str, int]] = set()
        for index, instruction in enumerate(instructions):
            stage, kind, batch, _ = instruction
            needs: list[tuple[int, str, int]] = []
            if kind == "F":
                needs = [(stage, "in F", batch)] if stage and owners[stage - 1] != rank else [(stage - 1, "F", batch)] if stage else []
            elif kind in ("B", "I"):
                needs = [(stage, "F", batch)]
                if stage < last:
                    needs.append((stage, "in B", batch) if owners[stage + 1] != rank else (stage + 1, "I", batch))
            elif kind == "W":
                needs = [(stage, "I", batch)]
            elif kind in ("SEND_F", "SEND_B"):
                needs = [(stage, "F" if kind == "SEND_F" else "I", batch)]
            elif kind in ("WAIT_F", "WAIT_B"):
                needs = [(stage, f"RECV_{kind[-1]}", batch)]
            for need in needs:
                if need not in made:
                    step = (Step(rank, index, instruction),)
                    yield ProgramFault("unready", f"{instruction} on rank {rank} comes before its input {_say(need)}", step)
            made.add(_makes(instruction))


def _makes(instruction: Instruction) -> tuple[int, str, int]:
    stage, kind, batch, _ = instruction
    if kind in ("WAIT_F", "WAIT_B"):
        return stage, f"in {kind[-1]}", batch
    return stage, "I" if kind == "B" else kind, batch


def _say(need: tuple[int, str, int]) -> str:
    stage, kind, batch = need
    return f"of microbatch {batch} for stage {stage}" if kind.startswith("in") else f"{stage}{kind}{batch}"


def check_channels(program: Program) -> Iterator[ProgramFault]:
    """Sends and receives pair up, in equal order on each directed channel."""
    sends: dict[tuple[int, int], list[Step]] = {}
    receives: dict[tuple[int, int], list[Step]] = {}
    for rank, instructions in enumerate(program.ranks):
        for index, instruction in enumerate(instructions):
            if instruction.kind in ("SEND_F", "SEND_B", "RECV_F", "RECV_B"):
                step = 1 if instruction.kind in ("SEND_F", "RECV_B") else -1
                if not 0 <= instruction.stage + step < len(program.owners) or program.owners[instruction.stage] != rank:
                    yield ProgramFault("misplaced", f"{instruction} on rank {rank} has no peer", (Step(rank, index, instruction),))
                    continue
                peer = program.peer(instruction)
                table, channel = (sends, (rank, peer)) if instruction.kind.startswith("SEND") else (receives, (peer, rank))
                table.setdefault(channel, []).append(Step(rank, index, instruction))
    for channel in sorted({*sends, *receives}):
        yield from _check_channel(channel, sends.get(channel, []), receives.get(channel, []))


def _check_channel(channel: tuple[int, int], sends: list[Step], receives: list[Step]) -> Iterator[ProgramFault]:
    where = f"from rank {channel[0]} to rank {channel[1]}"
    for number, (send, receive) in enumerate(zip(sends, receives, strict=False)):
        if send.instruction is not None and receive.instruction is not None and message_of(send.instruction) != message_of(receive.instruction):
            message = f"message {number} {where} is sent as {send.instruction} and received as {receive.instruction}"
            yield ProgramFault("unpaired", message, (send, receive))
            return
    if len(sends) != len(receives):
        more = (sends if len(sends) > len(receives) else receives)[min(len(sends), len(receives))]
        yield ProgramFault("unpaired", f"{more.instruction} {where} has no other half", (more,))


def check_buffers(program: Program) -> Iterator[ProgramFault]:
    """No receive overwrites a buffer that is in use, and the stated numbers of buffers and of microbatches in flight hold."""
    for rank, instructions in enumerate(program.ranks):
        held: dict[tuple[str, int], tuple[int, int]] = {}
        where: dict[tuple[int, str, int], int] = {}
        limits = {"F": program.forward_slots[rank], "B": program.backward_slots[rank]}
        split = {(stage, batch) for stage, kind, batch, _ in instructions if kind == "W"}
        flying = 0
        for index, instruction in enumerate(instructions):
            stage, kind, batch, slot = instruction
            step = (Step(rank, index, instruction),)
            if kind in ("RECV_F", "RECV_B"):
                side = kind[-1]
                if not 0 <= slot < limits[side]:
                    yield ProgramFault("buffer", f"{instruction} on rank {rank} has no buffer among {limits[side]}", step)
                elif (side, slot) in held:
                    other = "{}RECV_{}{}".format(held[side, slot][0], side, held[side, slot][1])
                    yield ProgramFault("buffer", f"{instruction} on rank {rank} overwrites the buffer of {other}", step)
                held[side, slot] = (stage, batch)
                where[stage, side, batch] = slot
            elif kind == "F":
                flying += 1
                if flying > program.in_flight[rank]:
                    yield ProgramFault("limit", f"{instruction} is number {flying} in flight on rank {rank}, the limit is {program.in_flight[rank]}", step)
            elif kind in ("B", "I"):
                flying -= 1
                held.pop(("B", where.get((stage, "B", batch), -1)), None)
            if kind == "W" or (kind == "B" and (stage, batch) not in split):
                held.pop(("F", where.get((stage, "F", batch), -1)), None)


def check_reductions(program: Program) -> Iterator[ProgramFault]:
    """Each stage's gradients are reduced once, behind its last backward."""
    for rank, instructions in enumerate(program.ranks):
        backward = {stage: index for index, (stage, kind, _, _) in enumerate(instructions) if kind in ("B", "W")}
        reduced: dict[int, int] = {}
        for index, instruction in enumerate(instructions):
            if instruction.kind == REDUCE:
                step = (Step(rank, index, instruction),)
                if instruction.stage in reduced:
                    yield ProgramFault("repeated", f"{instruction} is done twice", step)
                elif backward.get(instruction.stage, index) > index:
                    yield ProgramFault("unready", f"{instruction} on rank {rank} comes before the last backward of its stage", step)
                reduced[instruction.stage] = index
        for stage in sorted({*backward} - {*reduced}):
            yield ProgramFault("missing", f"{stage}{REDUCE} is never done")
