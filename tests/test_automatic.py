from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from ppdsl import compile_layout
from ppdsl.costs import Costs, LayerCosts, read_costs
from ppdsl.lowering import lower
from ppdsl.proving import verify
from ppdsl.schedules import Durations, make_schedule, time_schedule
from ppdsl.schedules.automatic import automatic, bound_makespan, choose_limits
from ppdsl.schedules.draining import Preference, Task, drain
from ppdsl.schedules.memory import count_in_flight, measure_memory
from ppdsl.schedules.naming import make_named
from ppdsl.simulation import simulate

if TYPE_CHECKING:
    from ppdsl.schedules import Schedule


def task(owners: tuple[int, ...], microbatches: int, forward: tuple[float, ...] | None = None, delay: float = 0.0) -> Task:
    """Make a task with a backward of twice the forward."""
    forward = forward or (1.0,) * len(owners)
    durations = Durations(forward, tuple(2 * time for time in forward), forward, forward, delay)
    return Task(owners, max(owners) + 1, microbatches, durations)


def makespan(schedule: Schedule, given: Task) -> float:
    return time_schedule(schedule, given.durations).makespan


@pytest.mark.parametrize("admitted", range(1, 13))
@pytest.mark.parametrize("weights", [None, 0, 3])
def test_no_limit_on_what_is_admitted_deadlocks_where_a_greedy_limit_does(admitted: int, weights: int | None) -> None:
    given = task((0, 1, 2, 3) * 2, 12)
    schedule, end = drain(given, Preference(admitted, weights=weights))
    assert makespan(schedule, given) == end
    assert verify(lower(schedule), queues=1).proved


def test_a_list_schedule_in_full() -> None:
    schedule, end = drain(task((0, 1), 3), Preference(2))
    assert [" ".join(map(str, actions)) for actions in schedule.ranks] == ["0F0 0F1 0B0 0F2 0B1 0B2", "1F0 1B0 1F1 1B1 1F2 1B2"]
    assert (schedule.name, end) == ("auto", 12.0)


def test_a_list_schedule_with_weight_gradients_in_full() -> None:
    schedule, _ = drain(task((0, 1), 3), Preference(3, weights=3))
    assert [" ".join(map(str, actions)) for actions in schedule.ranks] == [
        "0F0 0F1 0F2 0I0 0W0 0I1 0W1 0I2 0W2",
        "1F0 1I0 1F1 1I1 1F2 1I2 1W0 1W1 1W2",
    ]
    schedule, _ = drain(task((0, 1), 3), Preference(3, weights=0))
    assert " ".join(map(str, schedule.ranks[1])) == "1F0 1I0 1W0 1F1 1I1 1W1 1F2 1I2 1W2"


def test_of_backwards_that_are_ready_the_preferred_stage_goes_first() -> None:
    given = task((0, 0, 1), 2, (1.0, 2.0, 0.5))
    orders = [drain(given, Preference(2, deepest=deepest))[0].ranks[0] for deepest in (False, True)]
    assert " ".join(map(str, orders[0])) == "0F0 1F0 0F1 1F1 1B0 0B0 1B1 0B1"
    assert " ".join(map(str, orders[1])) == "0F0 1F0 0F1 1F1 1B0 1B1 0B0 0B1"


def test_equal_costs_give_1f1b_and_no_more_in_flight() -> None:
    given = task((0, 1, 2, 3), 8)
    schedule = automatic(given)
    assert schedule == replace(make_named("1f1b", given.owners, 4, 8), name="auto")


def test_beats_every_named_order_on_uneven_stages() -> None:
    given = task((0, 1, 2, 3, 3, 2, 1, 0), 8)
    assert makespan(automatic(given), given) < makespan(make_named("gpipe", given.owners, 4, 8), given)


def test_takes_gpipe_where_nothing_else_is_as_fast() -> None:
    given = task((0, 1, 2, 3) * 2, 5)
    assert automatic(given) == replace(make_named("gpipe", given.owners, 4, 5), name="auto")


def test_splits_backwards_only_where_it_may() -> None:
    given = task((0, 1, 2), 6)
    assert {action.kind for actions in automatic(given).ranks for action in actions} == {"F", "B"}
    split = automatic(given, split=True)
    assert {action.kind for actions in split.ranks for action in actions} == {"F", "I", "W"}
    assert makespan(split, given) <= min(makespan(make_named(name, given.owners, 3, 6), given) for name in ("zb_h1", "zb_h2"))


def test_costs_say_whether_backwards_may_be_split() -> None:
    plan = compile_layout("Et|t|tL", pp=3)
    kinds = {"forward": 1.0, "backward": 2.0}
    for fields, expected in ((kinds, {"F", "B"}), ({**kinds, "input_grad": 1.0}, {"F", "I", "W"})):
        schedule = make_schedule(plan, "auto", 6, costs=read_costs({"kinds": {"t": fields}}))
        assert {action.kind for actions in schedule.ranks for action in actions} == expected
    assert {action.kind for actions in make_schedule(plan, "auto", 6).ranks for action in actions} == {"F", "B"}


def test_tries_the_group_that_is_given() -> None:
    given = task((0, 1) * 2, 6, delay=0.4)
    grouped = make_named("interleaved_1f1b", given.owners, 2, 6, 3)
    assert makespan(automatic(given, group=3), given) <= makespan(grouped, given)


COSTLY = Costs({"t": LayerCosts(1.0, 2.0, 1.0, 1.0, 0, 100, 40)})


@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("limit", [200, 300, 500, 800, 1600])
def test_keeps_to_the_memory_limit(limit: int, *, split: bool) -> None:
    plan = compile_layout("Et|t|t|t|t|t|t|tL", pp=4)
    costs = replace(COSTLY, memory_limit_bytes=limit, split=split)
    schedule = make_schedule(plan, "auto", 8, costs=costs)
    assert max(measure_memory(plan, schedule, costs)) <= limit
    without = make_schedule(plan, "auto", 8, costs=replace(costs, memory_limit_bytes=None))
    assert simulate(plan, without, costs).makespan <= simulate(plan, schedule, costs).makespan


@pytest.mark.parametrize(("depth", "in_flight"), [(1, (2, 1)), (5, (1, 1))])
def test_the_buffers_of_the_depth_count_to_the_memory(depth: int, in_flight: tuple[int, int]) -> None:
    plan = compile_layout("Et|tL", pp=2)
    costs = replace(COSTLY, memory_limit_bytes=950, message_bytes=100)
    schedule = make_schedule(plan, "auto", 4, costs=costs, depth=depth)
    assert count_in_flight(schedule) == in_flight
    assert max(measure_memory(plan, schedule, costs, depth=depth)) <= 950
    with pytest.raises(ValueError, match=r"^no schedule fits the memory limit: the leanest that was found takes 150 bytes more$"):
        make_schedule(plan, "auto", 4, costs=costs, depth=7)


def test_less_memory_takes_more_time() -> None:
    plan = compile_layout("Et|t|t|t|t|t|t|tL", pp=4)
    times = []
    for limit in (200, 500, 1600):
        costs = replace(COSTLY, memory_limit_bytes=limit)
        times.append(simulate(plan, make_schedule(plan, "auto", 8, costs=costs), costs).makespan)
    assert times == sorted(times, reverse=True)
    assert times[0] > times[-1]


def test_says_by_how_much_nothing_fits() -> None:
    plan = compile_layout("Et|t|t|tL", pp=2)
    costs = replace(COSTLY, memory_limit_bytes=150)
    with pytest.raises(ValueError, match=r"^no schedule fits the memory limit: the leanest that was found takes 50 bytes more$"):
        make_schedule(plan, "auto", 4, costs=costs)


def test_prefers_what_holds_less_among_equally_fast() -> None:
    given = task((0, 1), 4, (3.0, 1.0))
    schedule = automatic(given)
    assert makespan(schedule, given) == bound_makespan(given, split=False) == 4 * 9.0
    assert max(count_in_flight(schedule)) == 2


@pytest.mark.parametrize(
    ("split", "expected"),
    [
        # Rank 1 waits for 1 and a delay of 0.5, then works for 4 x (3 + 6), then its gradient goes back.
        (False, 1 + 0.5 + 4 * 9 + 0.5 + 2),
        (True, 1 + 0.5 + 4 * 9),
    ],
)
def test_the_bound(*, split: bool, expected: float) -> None:
    assert bound_makespan(task((0, 1), 4, (1.0, 3.0), 0.5), split=split) == expected


@pytest.mark.parametrize(
    ("pp", "microbatches", "count", "lean", "expected"),
    [
        (4, 3, 10, False, [1, 2, 3]),
        (4, 100, 100, False, [*range(1, 17)]),
        (4, 100, 0, False, [4, 8]),
        (4, 100, 4, False, [4, 6, 8, 11]),
        (8, 6, 2, False, [6]),
        (4, 100, 2, True, [1, 4]),
        (4, 100, 4, True, [1, 2, 4, 8]),
    ],
)
def test_the_limits_to_try(pp: int, microbatches: int, count: int, *, lean: bool, expected: list[int]) -> None:
    assert choose_limits(pp, microbatches, count, lean=lean) == expected
