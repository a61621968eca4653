"""Layers in a row to stages in a row: the split whose heaviest stage weighs least, found exactly."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from fractions import Fraction
from itertools import accumulate, pairwise
from math import isfinite, lcm
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_Counts = tuple[int, ...]
MOST_CELLS = 400_000
"""Starts of stages, over all of them, up to which the smallest spread is found exactly; beyond, near an even split alone."""
_FEWEST_CELLS = 8
"""How many starts of a stage are looked at there, at least."""


def split_evenly(costs: Sequence[float], parts: int, *, first: float = 0.0, last: float = 0.0, min_layers: int = 1) -> _Counts:
    """Split layers into stages so that the heaviest stage weighs as little as any split allows.

    Among the splits that reach this least weight, one with the smallest spread is given: the smallest variance of the stages' weights.
    Where that leaves a choice, earlier stages have more layers. With thousands of stages, whose cuts may each lie at thousands of layers,
    the smallest spread is looked for near the even split alone; the heaviest stage is the lightest possible all the same. Numbers are
    taken as they are written in decimals, so that nothing is lost to rounding: 0.1 and 0.2 together weigh what 0.3 weighs.

    Args:
        costs: Weight of each layer, in forward order, in any one unit; none is negative.
        parts: Number of stages, from 1.
        first: What the first stage weighs beside its layers: the embedding.
        last: The same of the last stage: MTP layers, final norm, output layer. With one stage, both count for it.
        min_layers: How many layers a stage has at least: 0 or 1.

    Returns:
        The number of layers of each stage. A thousand layers take a fraction of a second, a hundred thousand some seconds.

    Raises:
        ValueError: There are more stages than layers to fill them, no stages, or a weight is negative or not finite.

    Example:
        >>> split_evenly([10, 1, 1, 1, 1, 1], 2)
        (1, 5)
        >>> split_evenly([1] * 8, 2, last=4.5)
        (6, 2)
    """
    _check(costs, parts, (first, last), min_layers)
    weights, first_weight, last_weight = _scale(costs, first, last)
    stack = _Stack([0, *accumulate(weights)], parts, first_weight, last_weight, min_layers)
    return _spread_least(stack, _find_least(stack))


def _check(costs: Sequence[float], parts: int, ends: tuple[float, float], min_layers: int) -> None:
    if parts < 1:
        raise ValueError(f"{parts} stages, there is at least one")
    if min_layers not in {0, 1}:
        raise ValueError(f"min_layers is {min_layers}, not 0 or 1")
    if len(costs) < parts * min_layers:
        raise ValueError(f"{len(costs)} layers cannot fill {parts} stages")
    for cost in (*costs, *ends):
        if not (isfinite(cost) and cost >= 0):
            raise ValueError(f"a layer weighs {cost}, not a finite number from 0")


def _scale(costs: Sequence[float], first: float, last: float) -> tuple[list[int], int, int]:
    """Make whole numbers of weights, all times the same factor."""
    known = {cost: Fraction(str(cost)) for cost in {*costs, first, last}}
    factor = lcm(*(value.denominator for value in known.values()))
    whole = {cost: int(value * factor) for cost, value in known.items()}
    return [whole[cost] for cost in costs], whole[first], whole[last]


class _Stack:
    """Layers to split, in whole numbers.

    Attributes:
        sums: Weight of the first k layers, for each k.
    """

    __slots__ = ("first", "last", "layers", "least", "parts", "sums")

    def __init__(self, sums: list[int], parts: int, first: int, last: int, least: int) -> None:
        self.sums = sums
        self.layers = len(sums) - 1
        self.parts = parts
        self.first = first
        self.last = last
        self.least = least

    def beside(self, part: int) -> int:
        """Give what a stage weighs beside its layers."""
        return (self.first if not part else 0) + (self.last if part == self.parts - 1 else 0)

    def reach(self, part: int, start: int, limit: int) -> int:
        """Give the layer behind the last one that fits into a stage that starts with a layer; before ``start`` where not even none fits."""
        room = limit - self.beside(part)
        return bisect_right(self.sums, self.sums[start] + room) - 1 if room >= 0 else start - 1

    def latest(self, limit: int) -> list[int] | None:
        """Give where each stage may start at the latest, and the end of the last one: each takes what it can, and leaves later ones theirs.

        None where the layers do not fit.
        """
        starts = [0]
        for part in range(self.parts):
            behind = self.least * (self.parts - 1 - part)
            end = min(self.reach(part, starts[-1], limit), self.layers - behind)
            if end < starts[-1] + self.least:
                return None
            starts.append(end)
        return starts if starts[-1] == self.layers else None

    def start(self, part: int, end: int, limit: int) -> int:
        """Give the earliest layer that a stage may start with so that it fits and ends before a layer."""
        return bisect_left(self.sums, self.sums[end] - limit + self.beside(part))

    def earliest(self, limit: int) -> list[int]:
        """Give where each stage may start at the earliest, and the end of the last one, within a limit that fits: the same from behind."""
        starts = [self.layers]
        for part in reversed(range(self.parts)):
            starts.append(max(self.start(part, starts[-1], limit), self.least * part))
        return starts[::-1]

    def even(self, limit: int, earliest: Sequence[int], latest: Sequence[int]) -> list[int]:
        """Give a split within a limit, as ``latest`` does, with each cut as near to where an even split has it as those before it allow."""
        starts = [0]
        total = self.sums[-1] + self.first + self.last
        for part in range(self.parts):
            goal = bisect_left(self.sums, total * (part + 1) // self.parts - self.first)
            low, high = max(earliest[part + 1], starts[-1] + self.least), min(latest[part + 1], self.reach(part, starts[-1], limit))
            starts.append(min(max(goal, low), high))
        return starts


def _find_least(stack: _Stack) -> int:
    """Double the step above what no split goes below until a limit fits, then halve the range until the least one is left."""
    total = stack.sums[-1] + stack.first + stack.last
    low = max(-(-total // stack.parts), max((b - a for a, b in pairwise(stack.sums)), default=0), stack.first, stack.last)
    high, step = low, 1
    while stack.latest(high) is None:
        low, high, step = high + 1, high + step, step * 2
    while low < high:
        middle = (low + high) // 2
        if stack.latest(middle) is not None:
            high = middle
        else:
            low = middle + 1
    return low


def _spread_least(stack: _Stack, limit: int) -> _Counts:
    """Find the split within a limit that has the smallest sum of squares, from the last stage to the first.

    The weight of a stage grows with the stage, so that the best end of a stage never moves back when its start moves on: the ends are found
    by halving, and each end looks only between those of its neighbours.
    """
    earliest, latest = _limit_starts(stack, limit)
    costs: dict[int, int] = {stack.layers: 0}
    choices: list[dict[int, int]] = []
    for part in reversed(range(stack.parts)):
        row = _Row(stack, part, limit, costs)
        start, end = part and earliest[part], part and latest[part]
        row.fill((start, end), (earliest[part + 1], latest[part + 1]))
        costs = row.best
        choices.append(row.ends)
    counts, at = [], 0
    for ends in reversed(choices):
        counts.append(ends[at] - at)
        at = ends[at]
    return tuple(counts)


def _limit_starts(stack: _Stack, limit: int) -> tuple[list[int], list[int]]:
    """Give where each stage may start at the earliest and at the latest; where that is too much to look at, only what lies about even."""
    latest, earliest = stack.latest(limit) or [], stack.earliest(limit)
    if sum(latest) - sum(earliest) <= MOST_CELLS:
        return earliest, latest
    even, around = stack.even(limit, earliest, latest), max(_FEWEST_CELLS, MOST_CELLS // stack.parts) // 2
    low = [max(start, at - around) for start, at in zip(earliest, even, strict=True)]
    high = [min(start, at + around) for start, at in zip(latest, even, strict=True)]
    for part in reversed(range(stack.parts)):  # from each start that is left, one that is left behind it can be reached
        low[part] = max(low[part], stack.start(part, low[part + 1], limit))
        high[part] = min(high[part], high[part + 1] - stack.least)
    return low, high


class _Row:
    """The best end of a stage, and what it and the stages behind it cost, for each layer that it may start with."""

    __slots__ = ("best", "ends", "extra", "later", "limit", "part", "stack")

    def __init__(self, stack: _Stack, part: int, limit: int, later: dict[int, int]) -> None:
        self.stack = stack
        self.part = part
        self.limit = limit
        self.later = later
        self.extra = stack.beside(part)
        self.best: dict[int, int] = {}
        self.ends: dict[int, int] = {}

    def fill(self, starts: tuple[int, int], ends: tuple[int, int]) -> None:
        """Fill in the starts from one to another; the ends lie between those given."""
        tasks = [(*starts, *ends)]
        while tasks:
            low, high, earliest, latest = tasks.pop()
            if low <= high:
                start = (low + high) // 2
                end = self.choose(start, earliest, latest)
                tasks.append((low, start - 1, earliest, end))
                tasks.append((start + 1, high, end, latest))

    def choose(self, start: int, earliest: int, latest: int) -> int:
        """Find the best end of a stage, the latest of equals."""
        sums, later, weight = self.stack.sums, self.later, self.extra - self.stack.sums[start]
        latest = min(latest, self.stack.reach(self.part, start, self.limit))
        ends = range(max(earliest, start + self.stack.least), latest + 1)
        cost, behind = min(((sums[end] + weight) ** 2 + later[end], -end) for end in ends)
        self.best[start], self.ends[start] = cost, -behind
        return -behind
