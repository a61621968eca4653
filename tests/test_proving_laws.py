"""Every edit that breaks a program is found, where an executor that knows nothing of proofs says what is broken."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from ppdsl.lowering import Instruction, Program, lower, read_program_csv
from ppdsl.proving import verify
from ppdsl.schedules.orders import interleaved, one_forward_one_backward
from ppdsl.schedules.zero_bubble import zb_v
from tests.program_oracle import find_break
from tests.random_schedules import random_schedules
from tests.schedule_cases import loop, vee, write_naively

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ppdsl.schedules.actions import Schedule

EVERY_KIND = ("F", "B", "I", "W", "SEND_F", "SEND_B", "RECV_F", "RECV_B", "WAIT_F", "WAIT_B", "REDUCE_GRAD")
HARMLESS = {"limit", "repeated", "buffer", "unready"}
"""What need not break a run.

A stated limit that is passed, a wait that is done twice, a buffer that happens to be free in time, an input that happens to be at hand
because a message behind it on its channel is waited for.
"""


def edits_of(program: Program, rank: int, at: int) -> Iterator[tuple[Instruction, ...]]:
    """Everything that a single edit can put in the place of an instruction and the one behind it."""
    row = program.ranks[rank][at]
    behind = program.ranks[rank][at + 1 : at + 2]
    yield behind
    yield (row, row, *behind)
    if behind:
        yield (*behind, row)
    slots = max(program.forward_slots[rank], program.backward_slots[rank])
    changed = [row._replace(stage=stage) for stage in range(-1, len(program.owners) + 1)]
    changed += [row._replace(microbatch=batch) for batch in range(-1, program.microbatches + 1)]
    changed += [row._replace(slot=slot) for slot in range(-1, slots + 1)]
    changed += [row._replace(kind=kind) for kind in EVERY_KIND]
    for other in changed:
        if other != row:
            yield (other, *behind)


def mutate(program: Program, rank: int, at: int, rows: tuple[Instruction, ...]) -> Program:
    """Put rows in the place of two."""
    instructions = program.ranks[rank]
    mutant = (*instructions[:at], *rows, *instructions[at + 2 :])
    return replace(program, ranks=(*program.ranks[:rank], mutant, *program.ranks[rank + 1 :]))


def judge(mutant: Program) -> bool:
    """Tell whether a mutant is broken, when executor and proof agree."""
    broken = find_break(mutant)
    verdict = verify(mutant)
    if broken is not None:
        assert not verdict.proved, broken
    serious = {fault.kind for fault in verdict.faults} - HARMLESS
    if serious:
        assert broken is not None, str(verdict)
    return broken is not None


@given(random_schedules(ranks=3, stages=4, microbatches=3), st.integers(0, 2), st.integers(0, 2**32))
def test_a_single_edit_that_breaks_a_program_is_found(schedule: Schedule, depth: int, seed: int) -> None:
    program, random = lower(schedule, depth), Random(seed)  # noqa: S311 -- which edit, no secret
    rank = random.choice([rank for rank, instructions in enumerate(program.ranks) if instructions])
    at = random.randrange(len(program.ranks[rank]))
    broken = judge(mutate(program, rank, at, random.choice([*edits_of(program, rank, at)])))
    event("broken" if broken else "as good as before")


@pytest.mark.slow
@pytest.mark.parametrize(
    "schedule",
    [one_forward_one_backward(loop(3), 3, 3), interleaved(loop(2, 2), 2, 3, 3), zb_v(vee(2), 2, 2)],
    ids=lambda schedule: schedule.name,
)
@pytest.mark.parametrize("depth", [0, 1])
def test_every_single_edit_that_breaks_a_program_is_found(schedule: Schedule, depth: int) -> None:
    program = lower(schedule, depth)
    places = [(rank, at) for rank, instructions in enumerate(program.ranks) for at in range(len(instructions))]
    verdicts = [judge(mutate(program, rank, at, rows)) for rank, at in places for rows in edits_of(program, rank, at)]
    assert sum(verdicts) > 500


@given(random_schedules(ranks=3, stages=5, microbatches=3), st.integers(0, 3), st.sampled_from(["channels", "pairs", "ranks"]))
def test_a_deadlock_is_found_exactly_where_an_executor_gets_stuck(schedule: Schedule, ahead: int, sharing: str) -> None:
    program = read_program_csv(write_naively(schedule, ahead), schedule.owners)
    verdict = verify(program, queues=1 if sharing == "ranks" else None, pairs=sharing == "pairs")
    stuck = find_break(program, sharing, runs=3)  # type: ignore[arg-type]  # one of the three
    event("stuck" if stuck else "runs")
    assert {fault.kind for fault in verdict.faults} - {"unpaired"} == ({"deadlock"} if stuck else set())


@given(random_schedules(), st.sampled_from([{}, {"queues": 1}, {"queues": 2}, {"pairs": True}]), st.integers(0, 3))
def test_a_deadlock_names_a_cycle_of_steps_that_are_there(schedule: Schedule, channels: dict[str, int], ahead: int) -> None:
    program = read_program_csv(write_naively(schedule, ahead), schedule.owners)
    for fault in verify(program, **channels).faults:  # type: ignore[arg-type]  # keywords
        for step in fault.steps:
            assert program.ranks[step.rank][step.index] == step.instruction
        if fault.kind == "deadlock":
            names = [f"{step.instruction} on rank {step.rank}" for step in (*fault.steps, fault.steps[0])]
            assert fault.message == f"{names[0]} waits for " + ", which waits for ".join(names[1:])


@given(random_schedules(), st.integers(0, 2))
def test_fewer_queues_never_help(schedule: Schedule, ahead: int) -> None:
    program = read_program_csv(write_naively(schedule, ahead), schedule.owners)
    proved = [verify(program, queues=queues).proved for queues in (1, None)]
    assert proved[0] <= proved[1]
    pairs = verify(program, pairs=True).proved
    assert proved[0] <= pairs <= proved[1]
