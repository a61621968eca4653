"""The search for the best layout: each choice for a short time, then those that came out best."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING

from ppdsl.schedules.naming import make_named
from ppdsl.suggesting.answers import Answer, NoLayoutError
from ppdsl.suggesting.bounds import ROUNDING, bound_ranks
from ppdsl.suggesting.budgets import Budget, ExhaustedError
from ppdsl.suggesting.choices import covers_groups, fits, list_choices
from ppdsl.suggesting.layouts import count_layers, make_plan
from ppdsl.suggesting.ordering import Ordered, judge, order_anew, prepare
from ppdsl.suggesting.problem import AUTO
from ppdsl.suggesting.settling import settle
from ppdsl.suggesting.stacks import Stack
from ppdsl.suggesting.starts import even_counts

if TYPE_CHECKING:
    from collections.abc import Callable

    from ppdsl.suggesting.choices import Choice
    from ppdsl.suggesting.problem import Problem
    from ppdsl.suggesting.searches import Search

EFFORT = 50_000_000
"""Steps that a search may take by default: a few seconds."""
_MOST_EFFORTS = 3
"""How many times that a search takes where there is much to choose, or a list schedule to make."""
_LEAST_TIMED = 2_500
"""How many layouts the default lets a search time, however long a schedule is."""
_STEPS_A_SECOND = 6_000_000
"""Steps that a usual machine takes in a second; where a time is given, it is shared out by them."""
_MOST_SECONDS = 1e9
_MOST_DEEPENED = 3
_NEVER = float("inf")


def suggest(
    problem: Problem, *, effort: int | None = None, seconds: float | None = None, watch: Callable[[float], None] | None = None
) -> Answer:
    """Search for the best layout.

    The same problem has the same answer on every machine, unless the search is limited by the clock. An interrupt (Ctrl-C) ends it with the
    best that was found.

    Args:
        problem: What is asked.
        effort: How many steps to take at most, of about 0.1 microseconds each; by default a few seconds' worth, or what ``seconds`` says.
        seconds: How long to go on at most; what was begun by then is ended, and one layout is timed however long its schedule takes.
        watch: Called with each time, in ms, that is better than all before.

    Raises:
        NoLayoutError: No layout that was tried fits the memory limit, or the layers cannot fill the stages.
        ValueError: No schedule that may be chosen is legal.
        KeyboardInterrupt: The search was interrupted before anything was found.
    """
    choices = list_choices(problem)
    if effort is None:
        effort = _choose_effort(problem, choices) if seconds is None else int(min(seconds, _MOST_SECONDS) * _STEPS_A_SECOND)
    run = _Run(problem, choices, Budget(effort, None if seconds is None else time.monotonic() + seconds), watch)
    try:
        run.search()
    except KeyboardInterrupt:
        run.interrupted = True
        if run.best() is None:
            raise
    return run.answer()


def _choose_effort(problem: Problem, choices: list[Choice]) -> int:
    longest = max(len(choice.owners) for choice in choices) * problem.microbatches * 3
    many = 1 + min(_MOST_EFFORTS - 1, len(choices) // 4)
    return max(EFFORT, longest * _LEAST_TIMED) * (_MOST_EFFORTS if any(choice.schedule == AUTO for choice in choices) else many)


class _Run:
    """One search."""

    def __init__(self, problem: Problem, choices: list[Choice], budget: Budget, watch: Callable[[float], None] | None) -> None:
        self.problem = problem
        self.choices = [choice for choice in choices if choice.schedule != AUTO]
        self.listed = [choice for choice in choices if choice.schedule == AUTO]
        self.budget = budget
        self.stack = Stack(problem)
        self.searches: list[Search] = []
        self.found: list[Ordered] = []
        self.watch = watch
        self.least = _NEVER
        self.interrupted = False

    def search(self) -> None:
        """Search until all is settled, or the budget is spent."""
        bases = self.choices or [choice._replace(schedule="gpipe") for choice in self.listed]
        alone = len(bases) == 1 and not self.listed
        share = self.budget.left // (1 if alone else 2 * len(bases))
        for choice in bases:
            if self.least < _NEVER and self.budget.over:
                break
            self.begin(choice, share, thorough=alone)
        if not alone:
            self.deepen()
        for choice in sorted(self.listed, key=lambda each: min((other.time for other in self.near(each)), default=_NEVER)):
            self.order(choice)
        if not self.found and not any(search.tried for search in self.searches if self.choices):
            self.time_one()

    def time_one(self) -> None:
        """Time an even layout, where the budget ended before any was timed."""
        self.budget = Budget(1)  # enough for one, whatever that takes
        if self.choices:
            search = self.searches[0]
            search.clock.budget = self.budget
            search.try_out(even_counts(search.clock.choice, self.stack.units))
        else:
            self.order(self.listed[0])

    def begin(self, choice: Choice, share: int, *, thorough: bool) -> None:
        """Look at one choice."""
        part = self.budget.portion(share)
        schedule = make_named(choice.schedule, choice.owners, self.problem.pp, self.problem.microbatches, choice.group)
        search = prepare(self.problem, choice, self.stack, schedule, part, self.note)
        for other in self.searches:
            if other.best is not None and fits(choice, other.best):
                search.seed(other.best)
        self.searches.append(search)
        if search.bound < self.least * (1 - ROUNDING):
            settle(search, thorough=thorough)
        self.budget.give_back(part)

    def note(self, found: float) -> None:
        """Take note of a time."""
        if found < self.least:
            self.least = found
            if self.watch is not None:
                self.watch(found)

    def deepen(self) -> None:
        """Go on with the choices that came out best; with all of them where nothing fits the memory limit yet."""
        order = sorted(self.searches, key=lambda search: (search.time, search.least_excess))
        order = order[: _MOST_DEEPENED if self.least < _NEVER else None]
        kept = self.budget.left // 3 if self.listed else 0
        for number, search in enumerate(order):
            if search.settled or search.bound >= self.least * (1 - ROUNDING):
                continue
            part = self.budget.portion((self.budget.left - kept) // (len(order) - number))
            search.clock.budget = part
            settle(search, thorough=True)
            self.budget.give_back(part)

    def near(self, choice: Choice) -> list[Search]:
        """Give the searches of the same stages with other schedules, the best first."""
        near = [search for search in self.searches if search.clock.choice._replace(schedule=AUTO, group=None) == choice]
        return sorted(near, key=lambda search: search.time)

    def order(self, choice: Choice) -> None:
        """Look at the list schedule of one placement, from the layouts that are best with other schedules."""
        with suppress(ExhaustedError):
            for ordered in order_anew(self.problem, choice, self.stack, self.near(choice), self.budget, self.note):
                self.found.append(ordered)  # what is found stays, also where the budget ends or an interrupt comes

    def best(self) -> Ordered | None:
        """Give the best that was found, as the simulation has it; of equals, the plainest."""
        chosen: Search | None = None
        for search in self.searches if self.choices else ():
            if search.best is not None and (chosen is None or search.time < chosen.time * (1 - ROUNDING)):
                chosen = search
        found = [*self.found]
        if chosen is not None and chosen.best is not None:
            found.insert(0, judge(self.problem, chosen.clock.choice, chosen.best, chosen.clock.graph.schedule))
        return min(found, key=lambda each: each.time, default=None)

    def answer(self) -> Answer:
        """Give the answer.

        Raises:
            NoLayoutError: There is none.
        """
        best = self.best()
        if best is None:
            raise NoLayoutError(self.explain())
        bound = self.bound(best.time)
        optimal = bound >= best.time * (1 - 100 * ROUNDING)
        return Answer(
            plan=make_plan(self.problem, best.choice, best.counts),
            schedule=best.schedule,
            group=self.problem.group or None if best.choice.schedule == AUTO else best.choice.group,
            per_stage=count_layers(self.problem, best.counts),
            time=best.time,
            bound=best.time if optimal else min(bound, best.time),
            optimal=optimal,
            peak_memory=best.peak_memory,
            tried=sum(search.tried for search in self.searches),
            interrupted=self.interrupted,
        )

    def bound(self, reached: float) -> float:
        """Give a time that no layout beats, whatever is chosen."""
        bounds = [(search.time if search.exhausted else search.bound) for search in self.searches if search.ordered and self.choices]
        others = [*self.choices[len(self.searches) :], *self.listed]
        if not covers_groups(self.problem):
            others += [choice for choice in self.choices if choice.schedule == "interleaved_1f1b"]
        bounds += [bound_ranks(self.problem, choice, self.stack) * (1 - ROUNDING) for choice in others]
        return min(bounds, default=reached)

    def explain(self) -> str:
        """Say why there is no answer."""
        limit = self.problem.costs.memory_limit_bytes or 0
        over = min((search.least_excess for search in self.searches), default=_NEVER)
        proved = all(search.exhausted for search in self.searches) and not self.listed
        what = f"no layout {'fits' if proved else 'was found that fits'} the memory limit of {limit:.0f} bytes"
        return what if over == _NEVER else f"{what}: the leanest that was tried takes {over:.0f} bytes more"
