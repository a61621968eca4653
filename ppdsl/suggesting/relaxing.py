"""How small a step time could be if layers could be parted anywhere: Kelley's cutting planes."""

from __future__ import annotations

from contextlib import suppress
from math import exp
from operator import mul
from typing import TYPE_CHECKING, NamedTuple

from ppdsl.suggesting.bounds import ROUNDING
from ppdsl.suggesting.budgets import ExhaustedError
from ppdsl.suggesting.cuts import Cut
from ppdsl.suggesting.programs import Program

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ppdsl.suggesting.programs import Found
    from ppdsl.suggesting.timing import Clock

_FEWEST_STEPS = 100
"""Amounts that are tried by descent, before those that the cuts point to; beside them, one for each stage."""
_MOST_KEPT = 150
"""How many of the latest mixtures of paths are kept from there."""
_AT_ONCE = 25
"""How many of them are taken in at once."""
_SHARE = 5
"""Where the budget is small, the descent spends about three parts of it in this many."""
_RATE = 0.1
"""How far the first step of the descent goes at most, in logarithms, for each time that a stage is on the paths oftener than the mean."""
_SLOWING = 8
"""Steps after which the descent goes noticeably less far."""
_MOST_ROUNDS = 400
_LEAN = 0.9
"""What the descent begins with has this part of the amounts to begin with; the rest is even, so that no open stage is without."""
_FORWARD = (0.5, 0.2)
"""How far towards the amounts that look best the next paths are looked for."""
_CLOSE = 1e-4
_OFTEN = 8
"""Rounds in which the bound has to grow by that much."""


class Relaxation(NamedTuple):
    """What was found.

    Attributes:
        bound: No layout is faster.
        amounts: Amounts of the stages that come near it.
        cuts: Bounds for each layout on its own; the first is a mixture of the others, which is the bound.
        program: What the bound comes from.
    """

    bound: float
    amounts: list[float]
    cuts: list[Cut]
    program: Program


def relax(clock: Clock, start: Sequence[float], known: Sequence[Cut]) -> Relaxation:
    """Bound a choice's layouts by its schedule.

    The makespan is convex in the amounts, and each path through the graph is a linear bound on it, as is a mixture of paths. Those that are
    found are weighed so that no amounts come out small; where they still could, the next are looked for there, and half-way to the best
    amounts so far (Kelley's cutting planes).

    Args:
        clock: Times the choice.
        start: Amounts to begin with.
        known: Cuts that hold for every layout of the choice.
    """
    found = _Planes(clock, start, known)
    with suppress(ExhaustedError):
        found.descend(start)
        found.close_in()
    mixture = found.mixture
    return Relaxation(found.bound * (1 - ROUNDING), found.center, [_mix(mixture), *(cut for _, cut in mixture)], found.program)


class _Planes:
    """The cuts so far, and what they come to.

    Attributes:
        program: The cuts.
        bound: No amounts are faster.
        mixture: The weighed cuts that say so.
        center: The best amounts.
    """

    def __init__(self, clock: Clock, start: Sequence[float], known: Sequence[Cut]) -> None:
        self.clock = clock
        self.program = Program(clock.choice, clock.stack, max(cut.bound(start) for cut in known))
        for cut in known:
            self.program.add(cut)
        self.bound, self.mixture = 0.0, [(1.0, known[0])]
        self.best, self.center = float("inf"), [*start]

    def look(self, point: list[float]) -> list[Cut]:
        """Give the cuts near some amounts, and note these where they are the best.

        Raises:
            ExhaustedError: The budget is spent.
        """
        time, cuts = self.clock.find_cuts(point)
        if time < self.best:
            self.best, self.center = time, point
        return cuts

    def solve(self) -> Found:
        """Weigh the cuts.

        Raises:
            ExhaustedError: The budget is spent.
        """
        found = self.program.solve(self.clock.budget)
        if found.value >= self.bound:
            self.bound, self.mixture = found.value, found.weighed
        return found

    def descend(self, start: Sequence[float]) -> None:
        """Go down step by step: what is on the longest paths gets less (mirror descent). Only mixtures of paths are kept.

        Raises:
            ExhaustedError: The budget is spent.
        """
        whole = sum(start)
        free = [most > 0 for most in self.clock.choice.most]
        point = [_LEAN * amount + (1 - _LEAN) * whole * own / (sum(free) or 1) for amount, own in zip(start, free, strict=True)]
        steps = min(_FEWEST_STEPS + len(free), self.clock.budget.left // (_SHARE * len(self.clock.graph.nodes) + 1))
        for step in range(steps):
            cut = self.look(point)[-1]
            if step >= steps - _MOST_KEPT:
                self.program.add(cut)
                if not (steps - step) % _AT_ONCE:  # a few more rows at a time take fewer pivots than all at once
                    self.solve()
            mean = sum(map(mul, cut.slopes, point)) / whole if whole else 0.0
            if not mean:
                return
            rate = min(_RATE, mean / max(cut.slopes)) / (1 + step / _SLOWING) ** 0.5
            point = [amount * exp(rate * (1 - slope / mean)) for amount, slope in zip(point, cut.slopes, strict=True)]
            scale = whole / sum(point)
            point = [amount * scale for amount in point]

    def close_in(self) -> None:
        """Add cuts where those so far leave most to gain, until that is next to nothing.

        Raises:
            ExhaustedError: The budget is spent.
        """
        goal = 0.0
        for number in range(_MOST_ROUNDS):
            found = self.solve()
            if self.best - self.bound <= _CLOSE * self.best:
                return
            if not number % _OFTEN:
                if self.bound < goal:
                    return
                goal = self.bound * (1 + _CLOSE)
            for share in _FORWARD:
                for cut in self.look([share * a + (1 - share) * b for a, b in zip(found.amounts, self.center, strict=True)]):
                    self.program.add(cut)


def _mix(mixture: Sequence[tuple[float, Cut]]) -> Cut:
    """Give the sum of cuts, weighed so that it is a cut."""
    total = sum(weight for weight, _ in mixture)
    stages = range(len(mixture[0][1].slopes))
    slopes = tuple(sum(weight * cut.slopes[stage] for weight, cut in mixture) / total for stage in stages)
    return Cut(sum(weight * cut.base for weight, cut in mixture) / total, slopes)
