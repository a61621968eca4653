"""The laws of ``auto``: complete, free of deadlock and never slower than what has a name, for any placement and any costs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from ppdsl.lowering import lower
from ppdsl.proving import verify
from ppdsl.schedules import find_obstacle, time_schedule
from ppdsl.schedules.automatic import automatic, bound_makespan
from ppdsl.schedules.draining import Preference, Task, drain
from ppdsl.schedules.naming import SPLIT, WHOLE, make_named
from tests.random_schedules import all_durations, owner_lists, schedules, usual_owners

if TYPE_CHECKING:
    from hypothesis.strategies import DrawFn

    from ppdsl.schedules import Schedule

# Stages without layers take no time, and often many take the same.
TIMES = st.one_of(st.sampled_from([0.0, 1.0, 2.0]), st.floats(0, 10))
ROUNDING = 1 + 1e-9


@st.composite
def tasks(draw: DrawFn) -> Task:
    owners = draw(st.one_of(owner_lists(), usual_owners()))
    return Task(owners, max(owners) + 1, draw(st.integers(1, 20)), draw(all_durations(len(owners), TIMES)))


PREFERENCES = st.builds(Preference, st.integers(1, 24), st.booleans(), st.one_of(st.none(), st.integers(0, 20)))


@given(tasks(), st.booleans())
def test_is_never_slower_than_a_named_order_that_is_legal(task: Task, split: bool) -> None:  # noqa: FBT001 -- drawn
    owners, pp, microbatches, durations = task
    found = time_schedule(automatic(task, split=split), durations).makespan
    for name in (*WHOLE, *(SPLIT if split else ())):
        if find_obstacle(name, owners, pp, microbatches) is None:
            assert found <= time_schedule(make_named(name, owners, pp, microbatches), durations).makespan * ROUNDING


@given(tasks(), st.booleans())
def test_is_proved(task: Task, split: bool) -> None:  # noqa: FBT001 -- drawn
    assert str(verify(lower(automatic(task, split=split)), queues=1)) == "proved"


@given(tasks(), PREFERENCES)
def test_a_list_schedule_is_proved_whatever_its_limit(task: Task, preference: Preference) -> None:
    schedule, makespan = drain(task, preference)
    assert str(verify(lower(schedule), queues=1)) == "proved"
    timed = time_schedule(schedule, task.durations).makespan
    assert makespan <= timed * ROUNDING
    assert timed <= makespan * ROUNDING


@given(tasks(), PREFERENCES)
def test_no_more_microbatches_are_in_the_pipeline_than_are_admitted(task: Task, preference: Preference) -> None:
    schedule, _ = drain(task, preference)
    inside = 0
    for stage, kind, _ in schedule.ranks[task.owners[0]]:
        if stage == 0:
            inside += {"F": 1, "W": 0}.get(kind, -1)
            assert inside <= preference.admitted


@given(tasks(), PREFERENCES)
def test_no_more_weight_gradients_are_put_off_than_allowed(task: Task, preference: Preference) -> None:
    schedule, _ = drain(task, preference)
    for actions in schedule.ranks:
        put_off = 0
        for _, kind, _ in actions:
            put_off += {"I": 1, "W": -1}.get(kind, 0)
            assert put_off <= (preference.weights or 0) + 1


@given(schedules(), st.data())
def test_no_schedule_beats_the_bound(schedule: Schedule, data: st.DataObject) -> None:
    durations = data.draw(all_durations(schedule.stages, TIMES))
    task = Task(schedule.owners, schedule.pp, schedule.microbatches, durations)
    split = any(action.kind == "W" for actions in schedule.ranks for action in actions)
    assert bound_makespan(task, split=split) <= time_schedule(schedule, durations).makespan * ROUNDING


@given(tasks(), st.integers(1, 24), st.booleans())
def test_no_list_schedule_beats_the_bound(task: Task, admitted: int, deepest: bool) -> None:  # noqa: FBT001 -- drawn
    assert bound_makespan(task, split=False) <= drain(task, Preference(admitted, deepest=deepest))[1] * ROUNDING
