"""The laws of the simulation, on random schedules, placements, costs, delays and links."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ppdsl.schedules.timing import Durations, StuckError, time_schedule
from ppdsl.simulation.critical_path import find_critical_path
from ppdsl.simulation.idling import split_idle_time
from ppdsl.simulation.producers import Producers
from tests.naive_simulator import run_naively
from tests.random_schedules import all_durations, schedules, swap_two

if TYPE_CHECKING:
    from random import Random

    from ppdsl.schedules.actions import Action, Schedule
    from ppdsl.schedules.timing import Timing

WHOLE_NUMBERS = st.sampled_from([0.0, 1.0, 2.0, 3.0, 7.0])


def times_of(schedule: Schedule, timing: Timing) -> dict[Action, tuple[float, float]]:
    return {
        action: (timing.starts[rank][at], timing.ends[rank][at])
        for rank, actions in enumerate(schedule.ranks)
        for at, action in enumerate(actions)
    }


@given(schedules(), st.data())
def test_agrees_with_the_naive_simulator(schedule: Schedule, data: st.DataObject) -> None:
    durations = data.draw(all_durations(schedule.stages, WHOLE_NUMBERS))
    assert times_of(schedule, time_schedule(schedule, durations)) == run_naively(schedule, durations)


@given(schedules(), st.randoms(use_true_random=False), st.data())
def test_is_stuck_where_the_naive_simulator_is(schedule: Schedule, random: Random, data: st.DataObject) -> None:
    durations = data.draw(all_durations(schedule.stages, WHOLE_NUMBERS))
    mutant = swap_two(schedule, random)
    expected = run_naively(mutant, durations)
    if expected is None:
        with pytest.raises(StuckError, match="deadlock: rank"):
            time_schedule(mutant, durations)
    else:
        assert times_of(mutant, time_schedule(mutant, durations)) == expected


@given(schedules(), st.data())
def test_no_two_actions_of_a_rank_overlap_and_none_starts_before_its_input(schedule: Schedule, data: st.DataObject) -> None:
    timing = time_schedule(schedule, data.draw(all_durations(schedule.stages, st.floats(0, 9))))
    for starts, ends, ready in zip(timing.starts, timing.ends, timing.ready, strict=True):
        clock = 0.0
        for start, end, at_hand in zip(starts, ends, ready, strict=True):
            assert start == max(clock, at_hand)
            clock = end


@given(schedules(), st.data())
def test_idle_and_busy_time_make_up_the_makespan(schedule: Schedule, data: st.DataObject) -> None:
    durations = data.draw(all_durations(schedule.stages, WHOLE_NUMBERS))
    timing = time_schedule(schedule, durations)
    for rank, idle in enumerate(split_idle_time(schedule, timing, durations, Producers(schedule, timing))):
        busy = sum(end - start for start, end in zip(timing.starts[rank], timing.ends[rank], strict=True))
        parts = (idle.fill, idle.drain, idle.imbalance, idle.p2p)
        assert min(parts) >= 0
        assert busy + sum(parts) == timing.makespan


@given(schedules(), st.data())
def test_each_unit_of_idle_time_has_the_cause_that_the_definitions_give_it(schedule: Schedule, data: st.DataObject) -> None:
    durations = data.draw(all_durations(schedule.stages, WHOLE_NUMBERS))
    timing = time_schedule(schedule, durations)
    times = times_of(schedule, timing)
    found = split_idle_time(schedule, timing, durations, Producers(schedule, timing))
    for rank, actions in enumerate(schedule.ranks):
        working = {unit for action in actions for unit in range(*map(int, times[action]))}
        idle = {*range(int(timing.makespan))} - working
        first_backward = min(times[action][0] for action in actions if action.kind in "BI")
        last_forward = max(times[action][1] for action in actions if action.kind == "F")
        fill = {unit for unit in idle if unit < first_backward}
        drain = {unit for unit in idle if unit >= last_forward} - fill
        assert (len(fill), len(drain)) == (found[rank].fill, found[rank].drain)
        assert len(idle - fill - drain) == found[rank].imbalance + found[rank].p2p


@given(schedules(), st.data())
def test_the_critical_path_leads_from_zero_to_the_makespan_without_a_gap(schedule: Schedule, data: st.DataObject) -> None:
    durations = data.draw(all_durations(schedule.stages, WHOLE_NUMBERS))
    timing = time_schedule(schedule, durations)
    times = times_of(schedule, timing)
    path = find_critical_path(schedule, timing, durations, Producers(schedule, timing))
    assert path[0].start == 0
    assert path[-1].end == timing.makespan
    assert path[-1].receiver is None
    for before, after in pairwise(path):
        assert before.end == after.start
        assert after.rank == (before.rank if before.receiver is None or after.receiver is not None else before.receiver)
    for step in path:
        assert step.rank == schedule.owners[step.action.stage]
        if step.receiver is None:
            assert (step.start, step.end) == times[step.action]
        else:
            assert step.start >= times[step.action][1]
            assert step.receiver == schedule.owners[step.action.stage + (1 if step.action.kind == "F" else -1)] != step.rank


@given(schedules(), st.data())
def test_a_stage_on_the_critical_path_delays_the_end_when_it_gets_slower(schedule: Schedule, data: st.DataObject) -> None:
    durations = data.draw(all_durations(schedule.stages, st.sampled_from([1.0, 2.0, 3.0])))
    timing = time_schedule(schedule, durations)
    path = find_critical_path(schedule, timing, durations, Producers(schedule, timing))
    stage = data.draw(st.sampled_from([step.action.stage for step in path if step.receiver is None and step.action.kind == "F"]))
    slower = Durations(
        tuple(time + (number == stage) for number, time in enumerate(durations.forward)),
        durations.backward,
        durations.input_grad,
        durations.weight_grad,
        durations.delay,
        durations.link_busy,
    )
    assert time_schedule(schedule, slower).makespan > timing.makespan
