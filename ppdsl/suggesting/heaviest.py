"""The layouts whose heaviest rank is done first, where ranks have several stages and layers differ: found exactly where that is small."""

from __future__ import annotations

from bisect import bisect_right
from fractions import Fraction
from itertools import accumulate
from math import gcd, lcm
from typing import TYPE_CHECKING, NamedTuple

from ppdsl.suggesting.budgets import ExhaustedError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ppdsl.suggesting.budgets import Budget
    from ppdsl.suggesting.choices import Choice
    from ppdsl.suggesting.starts import Counts

MOST_STAGES = 300
"""Stages up to which that is tried: each is a call within the one before."""
_MOST_VISITS = 50_000
"""After how many visits to a stage the search ends; what was found so far, and what is known of all layouts, is given."""
_MOST_WEIGHTS = 16
"""From how many weights on units are counted."""
_STEPS_A_VISIT, _STEPS_A_COUNT = 40, 5
"""What a visit costs, and each count of the stage that is looked at, in steps of a budget."""


class Heaviest(NamedTuple):
    """How light the heaviest rank can be.

    Attributes:
        counts: Units of each stage, of the layout that was found; None where none was.
        bound: What the heaviest rank takes at least in any layout; where the search came to its end, what it takes in this one.
    """

    counts: Counts | None
    bound: float


def balance(choice: Choice, bases: Sequence[float], works: Sequence[float], budget: Budget) -> Heaviest:
    """Search for the layout whose heaviest rank takes least: stage by stage, leaving out what cannot be lighter than the best so far.

    Numbers are taken as they are written in decimals, so that nothing is lost to rounding.

    Args:
        choice: What the stages may have.
        bases: What each rank takes whatever the layout.
        works: What each unit takes.
        budget: What may be spent.
    """
    known = {value: Fraction(str(value)) for value in {*bases, *works}}
    factor = lcm(*(value.denominator for value in known.values()))
    whole = {value: int(number * factor) for value, number in known.items()}
    walk = _Walk(choice, [whole[base] for base in bases], [whole[work] for work in works], budget)
    try:
        walk.visit(0, 0)
        exact = walk.best is not None and walk.left > 0
    except ExhaustedError:
        exact = False
    return Heaviest(walk.best, float(Fraction(walk.limit if exact else walk.least, factor)))


def _bound(bases: Sequence[int], works: Sequence[int]) -> int:
    """Give the least limit that leaves room for all, by what they come to and by their number.

    What a rank bears beyond its base is a multiple of what units have in common. And of the units from some weight on, a rank has room for
    no more than it has for the lightest of them.
    """
    total, common = sum(works), gcd(*works) or 1
    heavier = [[*accumulate(sorted(work for work in works if work >= least))] for least in _choose_weights(works)]

    def has_room(limit: int) -> bool:
        rooms = [limit - base for base in bases]
        whole = sum(room // common for room in rooms) * common
        return whole >= total and all(sum(bisect_right(sums, room) for room in rooms) >= len(sums) for sums in heavier)

    low, high = max(-(-(sum(bases) + total) // len(bases)), *bases), max(bases) + total
    while low < high:
        middle = (low + high) // 2
        if has_room(middle):
            high = middle
        else:
            low = middle + 1
    return low


def _choose_weights(works: Sequence[int]) -> list[int]:
    """Give some of the weights, all where there are few."""
    weights = sorted({*works})
    return weights[:: -(-len(weights) // _MOST_WEIGHTS) or 1]


class _Walk:
    """One way through the layouts, depth first, the evenest first.

    Attributes:
        least: No layout has a lighter heaviest rank.
        limit: What the heaviest rank of the best layout takes.
        best: That layout.
        left: How many stages may still be visited.
    """

    def __init__(self, choice: Choice, bases: list[int], works: list[int], budget: Budget) -> None:
        self.owners, self.fewest, self.most = choice.owners, choice.least, choice.most
        self.sums = [0, *accumulate(works)]
        self.units = len(works)
        self.behind_fewest = [*reversed([*accumulate(reversed(choice.least))]), 0]
        self.behind_most = [*reversed([*accumulate(reversed(choice.most))]), 0]
        self.chunks = [choice.owners[stage:].count(owner) for stage, owner in enumerate(choice.owners)]
        self.open = [{*choice.owners[stage:]} for stage in range(len(choice.owners) + 1)]
        self.loads = bases
        self.budget = budget
        self.least = _bound(bases, works)
        self.limit = self.sums[-1] + max(bases) + 1
        self.best: Counts | None = None
        self.counts = [0] * len(choice.owners)
        self.left = _MOST_VISITS
        self.failed: set[tuple[int, ...]] = set()

    def visit(self, stage: int, start: int) -> None:
        """Try the counts of a stage and of all behind it."""
        if stage == len(self.owners):
            self.limit, self.best = max(self.loads), tuple(self.counts)
            return
        state = (stage, start, *self.loads)
        if state in self.failed or sum(self.limit - 1 - self.loads[rank] for rank in self.open[stage]) < self.sums[-1] - self.sums[start]:
            return
        self.left -= 1
        owner, counts = self.owners[stage], self.list_counts(stage, start)
        self.budget.spend(_STEPS_A_VISIT + _STEPS_A_COUNT * len(counts))
        for count in counts:
            work = self.sums[start + count] - self.sums[start]
            if self.left <= 0 or self.limit <= self.least:
                return
            if self.loads[owner] + work < self.limit:
                self.loads[owner] += work
                self.counts[stage] = count
                self.visit(stage + 1, start + count)
                self.loads[owner] -= work
        self.failed.add(state)

    def list_counts(self, stage: int, start: int) -> list[int]:
        """List the counts that a stage may have, those first that bring its rank nearest to what no layout goes below."""
        left = self.units - start
        fewest = max(self.fewest[stage], left - self.behind_most[stage + 1])
        most = min(self.most[stage], left - self.behind_fewest[stage + 1])
        owner, base = self.owners[stage], self.sums[start]
        goal = max(self.least - self.loads[owner], 0) // self.chunks[stage]
        return sorted(range(fewest, most + 1), key=lambda count: abs(self.sums[start + count] - base - goal))
