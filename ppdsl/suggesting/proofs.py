"""Every layout of a choice looked at, or ruled out with many others: what is left is the best."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING

from ppdsl.suggesting.bounds import ROUNDING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ppdsl.suggesting.cuts import Cut
    from ppdsl.suggesting.searches import Search

_MOST_CUTS = 48


def look_through(search: Search) -> None:
    """Go through the layouts of a choice, stage by stage, and time those that no cut rules out.

    Args:
        search: The search; its best layout is what others have to beat. Afterwards it is exhausted.

    Raises:
        ExhaustedError: The budget is spent.
    """
    _Walk(search).visit(0, 0)
    search.exhausted = True


class _Bounds:
    """A cut, ready for layouts of which only the first stages are known.

    Attributes:
        slopes: Those of the cut.
        values: What the first stages make of it, by how many of them are known; each stage behind them counted with its least units.
        cheapest: The smallest slope among the stages from each one on.
    """

    __slots__ = ("cheapest", "slopes", "values")

    def __init__(self, cut: Cut, low: Sequence[float], most: Sequence[int]) -> None:
        self.slopes = cut.slopes
        self.values = [0.0] * (len(low) + 1)
        self.values[0] = cut.bound(low)
        open_slopes = [slope if count else float("inf") for slope, count in zip(cut.slopes, most, strict=True)]
        self.cheapest = [*reversed([*accumulate(reversed(open_slopes), min)]), 0.0]

    def put(self, stage: int, extra: float) -> None:
        """Take in a stage that has more than its least."""
        self.values[stage + 1] = self.values[stage] + self.slopes[stage] * extra


class _Walk:
    """One way through all layouts, depth first."""

    def __init__(self, search: Search) -> None:
        clock = search.clock
        self.search = search
        self.least, self.most = clock.choice.least, clock.choice.most
        self.reached = clock.stack.reached
        self.units = clock.stack.units
        self.stages = len(self.least)
        unit = min(clock.stack.amounts, default=0.0)
        self.low = [unit * count for count in self.least]
        self.behind_least = [*reversed([*accumulate(reversed(self.least))]), 0]
        self.behind_most = [*reversed([*accumulate(reversed(self.most))]), 0]
        self.behind_low = [unit * count for count in self.behind_least]
        self.counts = [0] * self.stages
        self.bounds: list[_Bounds] = []
        for cut in search.cuts:
            self.add(cut, 0)

    def add(self, cut: Cut, known: int) -> None:
        """Take in a cut while the first stages are known."""
        bounds = _Bounds(cut, self.low, self.most)
        start = 0
        for stage in range(known):
            end = start + self.counts[stage]
            bounds.put(stage, self.reached[end] - self.reached[start] - self.low[stage])
            start = end
        self.bounds.append(bounds)

    def visit(self, stage: int, used: int) -> None:
        """Try all counts of a stage.

        Raises:
            ExhaustedError: The budget is spent.
        """
        if stage == self.stages:
            self.time()
            return
        fewest = max(self.least[stage], self.units - used - self.behind_most[stage + 1])
        most = min(self.most[stage], self.units - used - self.behind_least[stage + 1])
        guess = self.search.best[stage] if self.search.best is not None else fewest
        for count in sorted(range(fewest, most + 1), key=lambda number: abs(number - guess)):
            self.counts[stage] = count
            if not self.rules_out(stage, used, used + count):
                self.visit(stage + 1, used + count)

    def rules_out(self, stage: int, start: int, end: int) -> bool:
        """Whether some cut shows that no layout with these first stages is faster than the best."""
        limit = self.search.time * (1 - ROUNDING)
        extra = self.reached[end] - self.reached[start] - self.low[stage]
        left = max(self.reached[-1] - self.reached[end] - self.behind_low[stage + 1], 0.0)
        ruled = False
        for bounds in self.bounds:
            bounds.put(stage, extra)
            if bounds.values[stage + 1] + (left * bounds.cheapest[stage + 1] if left else 0.0) >= limit:
                ruled = True
                break
        self.search.clock.budget.spend(len(self.bounds) * 3)
        return ruled

    def time(self) -> None:
        """Time the layout that is now known."""
        counts = tuple(self.counts)
        _, _, cut = self.search.try_out(counts)
        if len(self.bounds) < _MOST_CUTS:
            self.add(cut, self.stages)
