"""Schedules for the search: what simulating one of a layout gives, and list schedules, whose order depends on the layout."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ppdsl.costs.values import Costs
from ppdsl.schedules.automatic import NothingFitsError
from ppdsl.schedules.draining import Preference, Task, drain
from ppdsl.schedules.durations import durations_for
from ppdsl.schedules.making import make_schedule
from ppdsl.schedules.memory import measure_memory
from ppdsl.schedules.timing import time_schedule
from ppdsl.suggesting.bounds import ROUNDING
from ppdsl.suggesting.layouts import make_plan
from ppdsl.suggesting.memory import Memory
from ppdsl.suggesting.searches import Search
from ppdsl.suggesting.settling import settle
from ppdsl.suggesting.starts import even_counts
from ppdsl.suggesting.timing import Clock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ppdsl.schedules.actions import Schedule
    from ppdsl.suggesting.budgets import Budget
    from ppdsl.suggesting.choices import Choice
    from ppdsl.suggesting.problem import Problem
    from ppdsl.suggesting.stacks import Stack
    from ppdsl.suggesting.starts import Counts

_MOST_BEGUN, _MOST_LEAN = 3, 3
"""Layouts for which a list schedule is made to begin with; with a memory limit, so many lean ones beside them."""
_MOST_ROUNDS = 3
"""How often layout and order are made to fit each other."""
_STEPS = 10_000_000
"""What making a list schedule costs, in steps of the budget."""


class Ordered(NamedTuple):
    """A layout with a schedule, simulated.

    Attributes:
        choice: All but the layers.
        counts: Units of each stage.
        schedule: The schedule.
        time: What is to be small, in ms.
        peak_memory: The most bytes that a rank holds.
    """

    choice: Choice
    counts: Counts
    schedule: Schedule
    time: float
    peak_memory: int


def judge(problem: Problem, choice: Choice, counts: Counts, schedule: Schedule) -> Ordered:
    """Simulate a layout with a schedule."""
    plan = make_plan(problem, choice, counts)
    timing = time_schedule(schedule, durations_for(plan, problem.costs))
    time = timing.span if problem.objective == "span" else timing.makespan
    return Ordered(choice, counts, schedule, time, max(measure_memory(plan, schedule, problem.costs, depth=problem.depth)))


def prepare(  # noqa: PLR0913, PLR0917 -- all that a search is made of
    problem: Problem,
    choice: Choice,
    stack: Stack,
    schedule: Schedule,
    budget: Budget,
    watch: Callable[[float], None],
    *,
    ordered: bool = True,
) -> Search:
    """Make what searches the layouts of one choice with one schedule."""
    clock = Clock(problem, choice, stack, schedule, budget)
    memory = Memory(problem, choice, stack, schedule, _measure_buffers(problem, choice, schedule))
    return Search(problem, clock, memory, watch, ordered=ordered)


def _measure_buffers(problem: Problem, choice: Choice, schedule: Schedule) -> Sequence[float]:
    """Give the bytes of each rank's buffers, which do not depend on how layers are split."""
    if not problem.costs.message_bytes:
        return [0.0] * problem.pp
    costs = Costs({}, message_bytes=problem.costs.message_bytes)
    units = problem.units
    return measure_memory(make_plan(problem, choice, even_counts(choice, units)), schedule, costs, depth=problem.depth)


def order_anew(  # noqa: PLR0913, PLR0917 -- the same
    problem: Problem, choice: Choice, stack: Stack, near: Sequence[Search], budget: Budget, watch: Callable[[float], None]
) -> Iterator[Ordered]:
    """Find layouts for the list schedule: one is made for a layout, a better layout is looked for in its order, and so in turn.

    Args:
        problem: The problem.
        choice: The choice.
        stack: The layers.
        near: Searches of the same stages with other schedules, the best first.
        budget: What may be spent.
        watch: Told each time that is reached.

    Yields:
        Layouts whose time with the schedule ``auto`` is known.

    Raises:
        ExhaustedError: The budget is spent.
    """
    begun = [search.best for search in near if search.best is not None][:_MOST_BEGUN]
    if problem.costs.memory_limit_bytes is not None:
        begun += _list_lean(problem, choice, stack, near, budget)
    found: list[Ordered] = []
    for counts in dict.fromkeys([*begun, even_counts(choice, stack.units)]):
        budget.spend(_STEPS)
        new = _order(problem, choice, counts, watch)
        yield from new
        found += new
    if found:
        yield from _fit_each_other(problem, stack, found, budget, watch)


def _list_lean(problem: Problem, choice: Choice, stack: Stack, near: Sequence[Search], budget: Budget) -> list[Counts]:
    """List layouts that leave much room: the leanest with one microbatch in flight, and those with other schedules where none fits."""
    even = make_plan(problem, choice, even_counts(choice, stack.units))
    task = Task(choice.owners, problem.pp, problem.microbatches, durations_for(even, problem.costs))
    order, _ = drain(task, Preference(1))
    part = budget.portion(budget.left // 4)
    search = prepare(problem, choice, stack, order, part, _ignore, ordered=False)
    settle(search, thorough=False)
    budget.give_back(part)
    others = sorted((other for other in near if other.best is None), key=lambda other: other.least_excess)
    return [each.leanest for each in (search, *others) if each.leanest is not None][:_MOST_LEAN]


def _fit_each_other(
    problem: Problem, stack: Stack, found: list[Ordered], budget: Budget, watch: Callable[[float], None]
) -> Iterator[Ordered]:
    """Look for a better layout in the order of the best, make its order, and so in turn, as long as that helps."""
    for _ in range(_MOST_ROUNDS):
        best = min(found, key=lambda each: each.time)
        better = _refit(problem, best, stack, budget)
        if better is None or better in {each.counts for each in found}:
            return
        budget.spend(_STEPS)
        new = _order(problem, best.choice, better, watch)
        yield from new
        found += new
        if not new or new[0].time >= best.time * (1 - ROUNDING):
            return


def _refit(problem: Problem, best: Ordered, stack: Stack, budget: Budget) -> Counts | None:
    """Search for a better layout for the order that was made for one."""
    part = budget.portion(budget.left // 2)
    search = prepare(problem, best.choice, stack, best.schedule, part, _ignore, ordered=False)
    search.seed(best.counts)
    settle(search, thorough=False)
    budget.give_back(part)
    return search.best


def _order(problem: Problem, choice: Choice, counts: Counts, watch: Callable[[float], None]) -> list[Ordered]:
    """Make the list schedule of a layout and simulate it; nothing where none fits the memory limit."""
    plan = make_plan(problem, choice, counts)
    try:
        schedule = make_schedule(plan, "auto", problem.microbatches, group=problem.group or None, costs=problem.costs, depth=problem.depth)
    except NothingFitsError:
        return []
    judged = judge(problem, choice, counts, schedule)
    watch(judged.time)
    return [judged]


def _ignore(time: float) -> None:
    del time
