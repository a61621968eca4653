"""What holds of the program of any schedule that can be carried out."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ppdsl.lowering import Instruction, Program, lower, read_program_csv, write_program_csv
from ppdsl.lowering.program import COMPUTE, RECEIVES, SENDS
from ppdsl.proving import verify
from ppdsl.schedules.memory import count_in_flight
from tests.program_oracle import find_break
from tests.random_schedules import random_schedules
from tests.schedule_cases import named_schedules

if TYPE_CHECKING:
    from ppdsl.schedules.actions import Schedule

depths = st.integers(0, 3)
SHARINGS = [(queues, pairs) for queues in (None, 1, 2) for pairs in (False, True)]


@given(random_schedules(), depths)
def test_a_program_is_proved_however_its_channels_share_queues(schedule: Schedule, depth: int) -> None:
    program = lower(schedule, depth)
    for queues, pairs in SHARINGS:
        assert str(verify(program, queues=queues, pairs=pairs)) == "proved"


@pytest.mark.parametrize("depth", [0, 1, 2, 3])
def test_the_program_of_every_named_order_is_proved(depth: int) -> None:
    count = 0
    for schedule in named_schedules((1, 2, 3, 4), (1, 2, 3, 5, 8)):
        program = lower(schedule, depth)
        for queues in (None, 1, 2):
            assert str(verify(program, queues=queues)) == "proved"
        count += 1
    assert count > 200


@given(random_schedules(ranks=3, stages=5, microbatches=3), depths)
def test_a_program_runs_in_any_interleaving(schedule: Schedule, depth: int) -> None:
    program = lower(schedule, depth)
    assert find_break(program, "channels") is None
    assert find_break(program, "pairs", runs=3) is None
    assert find_break(program, "ranks", runs=3) is None


@given(random_schedules(), depths)
def test_a_program_has_the_actions_of_its_schedule_in_their_order(schedule: Schedule, depth: int) -> None:
    program = lower(schedule, depth)
    actions = [tuple(row[:3] for row in instructions if row.kind in COMPUTE) for instructions in program.ranks]
    assert actions == [tuple(map(tuple, rank)) for rank in schedule.ranks]
    assert program.in_flight == count_in_flight(schedule)


def most_held(schedule: Schedule, rank: int) -> int:
    """The most forwards that a rank has done while the backward that uses their inputs last (B, or W) is not."""
    return max(accumulate((kind == "F") - (kind in ("B", "W")) for _, kind, _ in schedule.ranks[rank]), default=0)


@given(random_schedules(), depths)
def test_receive_buffers_stay_within_the_activations_held_and_the_depth(schedule: Schedule, depth: int) -> None:
    program = lower(schedule, depth)
    for rank in range(schedule.pp):
        assert program.forward_slots[rank] <= most_held(schedule, rank) + depth
        assert program.backward_slots[rank] <= 1 + depth


def messages(program: Program, act: str) -> dict[tuple[int, int], list[tuple[int, str, int]]]:
    """The messages of each (sender, receiver), by the receiving stage, in the order in which they are sent, received or waited for."""
    found: dict[tuple[int, int], list[tuple[int, str, int]]] = {}
    for rank, instructions in enumerate(program.ranks):
        for stage, kind, batch, _ in instructions:
            if kind.startswith(act):
                side = kind[-1]
                step = 1 if side == "F" else -1
                receiver = stage + step if act == "SEND" else stage
                assert program.owners[stage] == rank
                ends = (program.owners[receiver - step], program.owners[receiver])
                found.setdefault(ends, []).append((receiver, side, batch))
    return found


@given(random_schedules(), depths)
def test_each_channel_carries_its_messages_in_the_order_of_their_uses(schedule: Schedule, depth: int) -> None:
    program = lower(schedule, depth)
    assert messages(program, "SEND") == messages(program, "RECV") == messages(program, "WAIT")


@given(random_schedules(), depths)
def test_no_receive_is_posted_further_ahead_than_the_depth(schedule: Schedule, depth: int) -> None:
    for instructions in lower(schedule, depth).ranks:
        posted: dict[tuple[int, str, int], int] = {}
        done = 0
        for stage, kind, batch, _ in instructions:
            if kind in RECEIVES:
                posted[stage, kind[-1], batch] = done
            elif kind.startswith("WAIT"):
                assert done - posted[stage, kind[-1], batch] <= depth
            done += kind in COMPUTE


@given(random_schedules(), depths)
def test_the_outputs_stated_to_wait_are_the_most_that_do(schedule: Schedule, depth: int) -> None:
    program = lower(schedule, depth)
    for rank, instructions in enumerate(program.ranks):
        waiting = most = 0
        sent = {(row.stage, row.kind[-1], row.microbatch) for row in instructions if row.kind in SENDS}
        for row in instructions:
            waiting += row.kind in COMPUTE and (row.stage, "F" if row.kind == "F" else "B", row.microbatch) in sent and row.kind != "W"
            waiting -= row.kind in SENDS
            most = max(most, waiting)
        assert program.send_slots[rank] == most


def without_waits(program: Program) -> list[list[Instruction]]:
    return [[row for row in instructions if not row.kind.startswith("WAIT")] for instructions in program.ranks]


@given(random_schedules(), depths)
def test_a_program_reads_back_from_the_csv_of_torch_but_for_its_waits(schedule: Schedule, depth: int) -> None:
    program = lower(schedule, depth)
    text = write_program_csv(program)
    read = read_program_csv(text, schedule.owners)
    assert write_program_csv(read) == text
    assert without_waits(read) == without_waits(program)
    assert (read.owners, read.microbatches, read.in_flight) == (program.owners, program.microbatches, program.in_flight)
    assert (read.forward_slots, read.backward_slots, read.send_slots) == (
        program.forward_slots,
        program.backward_slots,
        program.send_slots,
    )
    assert read.depth <= depth
    for queues, pairs in SHARINGS:
        assert str(verify(read, queues=queues, pairs=pairs)) == "proved"


@given(random_schedules())
def test_a_program_is_the_same_each_time(schedule: Schedule) -> None:
    assert lower(schedule) == lower(schedule)
