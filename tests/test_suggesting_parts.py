"""What the search is made of: graphs beside the simulation, memory beside the measured one, cuts, budgets."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ppdsl.costs import Costs, LayerCosts
from ppdsl.costs.stages import cost_stages
from ppdsl.schedules import make_schedule
from ppdsl.schedules.actions import Action, Schedule
from ppdsl.schedules.durations import durations_for
from ppdsl.schedules.memory import measure_memory
from ppdsl.schedules.timing import Durations, time_schedule
from ppdsl.suggesting.budgets import Budget, ExhaustedError
from ppdsl.suggesting.choices import Choice, list_choices
from ppdsl.suggesting.cuts import list_ways, list_works
from ppdsl.suggesting.graphs import Graph
from ppdsl.suggesting.layouts import count_layers, make_plan
from ppdsl.suggesting.ordering import prepare
from ppdsl.suggesting.problem import Problem
from ppdsl.suggesting.stacks import TIMES, Stack
from ppdsl.suggesting.starts import even_counts, fit_counts, round_amounts
from tests.random_schedules import random_schedules
from tests.suggest_cases import draw_problem, weigh

SHAPES = (
    ("gpipe", 2, "v"),
    ("1f1b", 1, "loop"),
    ("interleaved_1f1b", 2, "loop"),
    ("zb_h1", 1, "loop"),
    ("zb_h2", 1, "loop"),
    ("zb_v", 2, "v"),
)


def draw_choices(seed: int) -> tuple[Problem, list[Choice]]:
    """Give a random problem and what can be chosen in it; nothing where nothing can."""
    random = Random(seed)  # noqa: S311 -- the same cases each time
    schedule, vpp, placement = random.choice(SHAPES)
    problem = draw_problem(random, schedule=schedule, vpp=vpp, placement=placement)
    try:
        return problem, list_choices(problem)
    except ValueError:
        return problem, []


def draw_counts(random: Random, problem: Problem, choice: Choice) -> tuple[int, ...]:
    """Give a random layout of a choice."""
    counts = [*even_counts(choice, problem.units)]
    for _ in range(4):
        giver, taker = random.choices(range(len(counts)), k=2)
        if counts[giver] > choice.least[giver] and counts[taker] < choice.most[taker]:
            counts[giver] -= 1
            counts[taker] += 1
    return tuple(counts)


def ignore(time: float) -> None:
    del time


@pytest.mark.parametrize("seed", range(60))
def test_layouts_are_timed_and_measured_as_the_simulation_does_it(seed: int) -> None:
    problem, choices = draw_choices(seed)
    for choice in choices:
        random, stack = Random(seed), Stack(problem)  # noqa: S311 -- the same cases each time
        plan = make_plan(problem, choice, even_counts(choice, problem.units))
        schedule = make_schedule(plan, choice.schedule, problem.microbatches, group=choice.group)
        search = prepare(problem, choice, stack, schedule, Budget(10**9), ignore)
        others = [draw_counts(random, problem, choice) for _ in range(5)]
        cuts = [search.clock.time(counts)[1] for counts in others]
        for counts in others:
            plan = make_plan(problem, choice, counts)
            assert tuple(chunk.layers[1] - chunk.layers[0] for chunk in plan.chunks) == count_layers(problem, counts)
            timing = time_schedule(schedule, durations_for(plan, problem.costs))
            time, _ = search.clock.time(counts)
            assert time == pytest.approx(timing.span if problem.objective == "span" else timing.makespan, rel=1e-12)
            assert search.memory.measure(counts) == pytest.approx(measure_memory(plan, schedule, problem.costs), abs=1)
            amounts = search.clock.amounts(counts)
            for cut in (*cuts, *search.cuts, *list_ways(problem, choice, stack)):
                assert cut.bound(amounts) <= time * (1 + 1e-12), "a path says more than what is so"
            assert search.bound <= time * (1 + 1e-12)


def test_the_work_of_a_rank_is_what_its_actions_take() -> None:
    problem = Problem(weigh(E=0.5, t=1.0, L=2.0, N=0.25), 7, 2, 4, vpp=2)
    (choice,) = list_choices(problem)
    stack = Stack(problem)
    counts = (1, 2, 3, 1)
    costs = cost_stages(make_plan(problem, choice, counts), problem.costs)
    works = [4 * sum(layer.forward + layer.backward for layer in (costs[rank], costs[rank + 2])) for rank in (0, 1)]
    amounts = [stack.amounts[0] * count for count in counts]
    assert [work.bound(amounts) for work in list_works(problem, choice, stack)] == pytest.approx(works)


def test_an_order_that_cannot_be_carried_out_has_no_graph() -> None:
    schedule = Schedule("odd", (0, 1), 1, ((Action(0, "B", 0), Action(0, "F", 0)), (Action(1, "F", 0), Action(1, "B", 0))))
    with pytest.raises(ValueError, match=r"^the schedule odd cannot be carried out$"):
        Graph(schedule, 0.0)


@given(random_schedules(), st.randoms(use_true_random=False), st.booleans())
def test_any_order_has_a_graph_with_the_times_of_the_simulation(schedule: Schedule, random: Random, linked: bool) -> None:  # noqa: FBT001 -- drawn
    forward, backward, input_grad, weight_grad = (tuple(float(random.randint(0, 4)) for _ in schedule.owners) for _ in range(4))
    busy = tuple(float(random.randint(1, 3)) for _ in schedule.owners[1:]) if linked else ()
    durations = Durations(forward, backward, input_grad, weight_grad, 0.5, busy or 0.0)
    graph = Graph(schedule, 0.5, busy)
    ends = graph.time([*forward, *backward, *input_grad, *weight_grad, *busy])
    timing = time_schedule(schedule, durations)
    assert graph.makespan(ends) == timing.makespan
    assert graph.span(ends)[0] == timing.span


def test_a_budget_is_spent_and_shared() -> None:
    budget = Budget(10)
    part = budget.portion(4)
    part.spend(3)
    budget.give_back(part)
    assert (budget.left, part.left) == (7, 0)
    budget.spend(20)
    with pytest.raises(ExhaustedError):
        budget.spend(1)
    assert Budget(5).portion(9).left == 5


def test_a_budget_looks_at_the_clock_now_and_then() -> None:
    budget = Budget(10**9, deadline=0.0)
    budget.spend(1)
    with pytest.raises(ExhaustedError):
        budget.spend(10**6)
    assert budget.left == 0


def test_counts_are_brought_into_their_ranges() -> None:
    choice = Choice((0, 1, 0, 1), "loop", "interleaved_1f1b", None, 3, (0, 1, 1, 0), (9, 9, 9, 0))
    assert fit_counts(choice, 9, (9, 0, 0, 0)) == (7, 1, 1, 0)
    assert fit_counts(choice, 9, (0, 0, 0, 9)) == (3, 3, 3, 0)
    stack = Stack(Problem(weigh(t=1.0), 9, 2, 4))
    assert round_amounts(choice, stack, [15.0, 15.0, 15.0, 0.0]) == (3, 3, 3, 0)
    assert round_amounts(choice, stack, [7.6, 7.2, 30.2, 0.0]) == (2, 1, 6, 0)


def test_layers_of_another_ratio_are_bounded_by_what_all_have() -> None:
    costs = Costs({"t": LayerCosts.of(1, 1, 1)}, {0: LayerCosts.of(2, 1, 1), 3: LayerCosts.of(1, 3, 1)})
    stack = Stack(Problem(costs, 5, 2, 2))
    for layer in range(5):
        own = costs.layers.get(layer, costs.kinds["t"])
        for share, name in zip(stack.profile, TIMES, strict=True):
            assert share * stack.amounts[layer] <= getattr(own, name) * (1 + 1e-12)
    assert stack.profile == pytest.approx((1 / 9, 1 / 3, 1 / 6, 1 / 9))
