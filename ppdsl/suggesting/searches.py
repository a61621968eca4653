"""What a search knows of the layouts of one choice: the best so far, what rules others out, and what was tried."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from ppdsl.suggesting.bounds import ROUNDING, bound_ranks
from ppdsl.suggesting.cuts import list_ways, list_works, weigh_units
from ppdsl.suggesting.heaviest import MOST_STAGES, balance
from ppdsl.suggesting.relaxing import relax
from ppdsl.suggesting.starts import even_counts, list_starts, round_amounts

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ppdsl.suggesting.cuts import Cut
    from ppdsl.suggesting.memory import Memory
    from ppdsl.suggesting.problem import Problem
    from ppdsl.suggesting.programs import Program
    from ppdsl.suggesting.starts import Counts
    from ppdsl.suggesting.timing import Clock

    Tried = tuple[float, float, Cut]
    """Bytes over the limit, what is to be small, and the path."""

_STEPS_A_UNIT = 20
"""What finding a layout to begin with costs, in steps of the budget, for each unit."""
_MOST_CUTS = 24
"""How many of the latest paths each layout is judged by before it is timed."""


class Search:
    """What is known of the layouts of one choice.

    Attributes:
        clock: Times them.
        memory: Measures them.
        ordered: Whether the schedule of the choice is one order for all layouts.
        bound: No layout of the choice is faster.
        amounts: Amounts that would be best if layers could be parted.
        best: The best counts of units so far; None where none was found that fits.
        time: What is to be small, of the best.
        exhausted: Whether every layout was timed, or ruled out.
        cuts: Bounds on each layout of this order: some for good, then the latest paths.
        works: The work of each rank.
        program: What bounds all layouts of this order; None where none is made yet.
    """

    __slots__ = (
        "_kept",
        "_known",
        "_seeds",
        "_slopes",
        "_units",
        "_watch",
        "_ways",
        "amounts",
        "best",
        "bound",
        "clock",
        "cuts",
        "exhausted",
        "memory",
        "ordered",
        "program",
        "time",
        "works",
    )

    def __init__(self, problem: Problem, clock: Clock, memory: Memory, watch: Callable[[float], None], *, ordered: bool) -> None:
        """Note what there is to search.

        Args:
            problem: The problem.
            clock: Times the layouts.
            memory: Measures them.
            watch: Told each time that is the best so far.
            ordered: See the attributes. If it is not, only what holds for any schedule is a bound.
        """
        self.clock = clock
        self.memory = memory
        self.ordered = ordered
        self.best: Counts | None = None
        self.time = float("inf")
        self.exhausted = False
        self._watch = watch
        self._seeds: list[Counts] = []
        self._known: dict[Counts, Tried] = {}
        choice, stack = clock.choice, clock.stack
        self._ways = list_ways(problem, choice, stack)
        self.amounts: Sequence[float] = clock.amounts(even_counts(choice, stack.units))
        self.bound = bound_ranks(problem, choice, stack) * (1 - ROUNDING)
        self.cuts = self._ways[:_MOST_CUTS]
        self._kept = 0
        self.program: Program | None = None
        self.works = list_works(problem, choice, stack)
        uneven = not stack.alike and problem.pp < len(choice.owners) <= MOST_STAGES
        self._units = weigh_units(problem, choice, stack) if uneven else []
        self._slopes = [self.works[owner].slopes[stage] for stage, owner in enumerate(choice.owners)]

    @property
    def settled(self) -> bool:
        """Whether nothing better can be found."""
        return self.exhausted or (self.best is not None and self.time <= self.bound * (1 + 10 * ROUNDING))

    @property
    def tried(self) -> int:
        """How many layouts were timed."""
        return len(self._known)

    @property
    def least_excess(self) -> float:
        """By how many bytes the leanest layout that was timed is over the memory limit."""
        return min((excess for excess, _, _ in self._known.values()), default=float("inf"))

    @property
    def leanest(self) -> Counts | None:
        """Of the layouts that were timed the leanest, or of those within the memory limit the fastest; None where none was timed."""
        return min(self._known, key=lambda counts: self._known[counts][:2], default=None)

    def seed(self, counts: Counts) -> None:
        """Take a layout to begin with, before all others."""
        self._seeds.append(counts)

    def try_out(self, counts: Counts) -> Tried:
        """Time and measure a layout, and note it where it is the best.

        Raises:
            ExhaustedError: The budget is spent.
        """
        known = self._known.get(counts)
        if known is None:
            excess = self.memory.excess(counts)
            time, cut = self.clock.time(counts)
            known = self._known[counts] = (excess, time, cut)
            if not excess and time < self.time * (1 - ROUNDING):
                self.best, self.time = counts, time
                self._watch(time)
            if len(self.cuts) >= self._kept + _MOST_CUTS:
                del self.cuts[self._kept]
            self.cuts.append(cut)
        return known

    def rules_out(self, counts: Counts, limit: float) -> bool:
        """Whether some path shows that a layout is not faster than a limit."""
        amounts = self.clock.amounts(counts)
        self.clock.budget.spend(len(counts) * len(self.cuts) // 3)
        return any(cut.bound(amounts) >= limit for cut in reversed(self.cuts))

    def spread(self, counts: Sequence[int]) -> float:
        """Give how uneven the ranks' work is: the sum of its squares."""
        loads = [work.base for work in self.works]
        for owner, slope, amount in zip(self.clock.choice.owners, self._slopes, self.clock.amounts(counts), strict=True):
            loads[owner] += slope * amount
        return sum(load * load for load in loads)

    def begin(self) -> list[Counts]:
        """Try layouts to begin with, then bound all layouts, unless that was done before; give those layouts, the best first.

        Raises:
            ExhaustedError: The budget is spent.
        """
        choice, stack = self.clock.choice, self.clock.stack
        starts: dict[Counts, None] = {}
        for counts in chain(self._seeds, list_starts(choice, stack, self.works, self._ways)):
            starts[counts] = None
            self.try_out(counts)
            self.clock.budget.spend(_STEPS_A_UNIT * stack.units)
        if not self._kept:
            starts.update(dict.fromkeys(self._balance()))
            self._relax()
        starts[round_amounts(choice, stack, self.amounts)] = None
        return sorted(starts, key=lambda counts: self.try_out(counts)[:2])

    def _balance(self) -> list[Counts]:
        """Bound the layouts by the heaviest rank, where units differ and ranks have several stages; give the layout that was found."""
        if not self._units:
            return []
        with self.clock.using(1 / 8):
            found = balance(self.clock.choice, [way.base for way in self._ways], self._units, self.clock.budget)
        self.bound = max(self.bound, found.bound * (1 - ROUNDING))
        if found.counts is None:
            return []
        self.try_out(found.counts)
        return [found.counts]

    def _relax(self) -> None:
        """Bound the layouts by the schedule, and keep the cuts that make the bound."""
        start = self.clock.amounts(self.best) if self.best is not None else self.amounts
        with self.clock.using(1 / 2):
            relaxed = relax(self.clock, start, self._ways)
            self.amounts, self.program = relaxed.amounts, relaxed.program
            if self.ordered:
                self.bound = max(self.bound, relaxed.bound)
            kept = [*relaxed.cuts, *self._ways][:_MOST_CUTS]
            self.cuts = [*kept, *self.cuts[-_MOST_CUTS // 2 :]]
            self._kept = len(kept)
