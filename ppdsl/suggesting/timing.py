"""One choice, ready to time any layout of it: what a step takes, what each rank holds, and the critical path as a bound on all others."""

from __future__ import annotations

from contextlib import contextmanager
from operator import mul
from typing import TYPE_CHECKING

from ppdsl.suggesting.budgets import ExhaustedError
from ppdsl.suggesting.cuts import Cut, describe_link, list_works
from ppdsl.suggesting.graphs import Graph

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ppdsl.schedules.actions import Schedule
    from ppdsl.suggesting.budgets import Budget
    from ppdsl.suggesting.choices import Choice
    from ppdsl.suggesting.problem import Problem
    from ppdsl.suggesting.stacks import Stack

_WIDTH = 0.1
"""Paths that are nearly as long part where an input arrives by less than this part of a mean action behind the other."""


class Clock:
    """Times layouts of one choice, by its graph.

    Attributes:
        choice: The choice.
        stack: The layers.
        graph: The order of the schedule.
        budget: What is spent with every layout that is timed.
    """

    __slots__ = ("_busy", "_fixed", "_span", "_works", "budget", "choice", "graph", "stack")

    def __init__(self, problem: Problem, choice: Choice, stack: Stack, schedule: Schedule, budget: Budget) -> None:
        self.choice = choice
        self.stack = stack
        self.budget = budget
        delay, self._busy = describe_link(problem, choice)
        self.graph = Graph(schedule, delay, self._busy)
        self._span = problem.objective == "span" and choice.split
        self._works = list_works(problem, choice, stack) if self._span else []
        self._fixed = [*stack.time_others(len(choice.owners), choice.mtp_stage), *self._busy]

    @contextmanager
    def using(self, share: float) -> Iterator[None]:
        """Let what is done here spend at most a share of the budget; once that is spent, it ends, and what is behind it goes on."""
        whole = self.budget
        self.budget = part = whole.portion(int(whole.left * share))
        try:
            yield
        except ExhaustedError:
            whole.check()
        finally:
            whole.give_back(part)
            self.budget = whole

    def time(self, counts: Sequence[int]) -> tuple[float, Cut]:
        """Give what is to be small for a layout, and the bound that its critical path is for all others."""
        durations = [*self.stack.time_stages(counts, self.choice.mtp_stage), *self._busy]
        ends = self._run(durations)
        if self._span:
            span, rank = self.graph.span(ends)
            return span, self._works[rank]
        makespan = self.graph.makespan(ends)
        return makespan, self._cut(durations, makespan, ends)

    def find_cuts(self, amounts: Sequence[float]) -> tuple[float, list[Cut]]:
        """Give the same for amounts that no layers need to make up, which is not above the time of any layout with these amounts.

        Beside the critical path there is a mixture of those that are nearly as long.
        """
        parts = [share * amount for share in self.stack.profile for amount in amounts]
        durations = [own + part for own, part in zip(self._fixed, [*parts, *[0.0] * len(self._busy)], strict=True)]
        ends = self._run(durations)
        if self._span:
            span, rank = self.graph.span(ends)
            return span, [self._works[rank]]
        makespan = self.graph.makespan(ends)
        return makespan, [
            self._cut(durations, makespan, ends),
            self._mix(ends, _WIDTH * makespan * self.graph.schedule.pp / len(self.graph.nodes)),
        ]

    def amounts(self, counts: Sequence[int]) -> list[float]:
        """Give the amounts of a layout's stages."""
        found, start, reached = [], 0, self.stack.reached
        for count in counts:
            found.append(reached[start + count] - reached[start])
            start += count
        return found

    def _run(self, durations: Sequence[float]) -> list[float]:
        self.budget.spend(len(self.graph.nodes))
        return self.graph.time(durations)

    def _cut(self, durations: Sequence[float], makespan: float, ends: Sequence[float]) -> Cut:
        shares = [0.0] * len(durations)
        lags = makespan
        for number in self.graph.walk_back(ends):
            shares[number] += 1.0
            lags -= durations[number]
        return self._weigh(shares, max(lags, 0.0))

    def _mix(self, ends: Sequence[float], width: float) -> Cut:
        self.budget.spend(2 * len(ends))
        return self._weigh(*self.graph.share_back(ends, len(self._fixed), width or 1.0))

    def _weigh(self, shares: Sequence[float], lags: float) -> Cut:
        """Give the cut of a mixture of paths, by how much of them each duration is on."""
        stages, profile = len(self.choice.owners), self.stack.profile
        base: float = lags + sum(map(mul, shares, self._fixed))
        slopes = [0.0] * stages
        for at, rate in enumerate(profile):
            if rate:
                slopes = [slope + rate * share for slope, share in zip(slopes, shares[at * stages : (at + 1) * stages], strict=True)]
        return Cut(base, tuple(slopes))
