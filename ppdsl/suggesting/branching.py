"""Bounds for whole units: what ranks and stages can have is parted until no part holds anything better than the best layout."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

from ppdsl.suggesting.bounds import ROUNDING
from ppdsl.suggesting.starts import round_amounts
from ppdsl.suggesting.totals import Gap, Totals

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ppdsl.suggesting.cuts import Cut
    from ppdsl.suggesting.programs import Found, Program
    from ppdsl.suggesting.searches import Search

_MOST_ROUNDS = 12
"""How often cuts or conditions are added in one part."""
_GAIN = 1e-5
"""What cuts have to add to the bound, as a part of it."""
_MOST_ADDED = 4
"""Cuts that are added at once."""
_MOST_KNOWN = 400
"""Cuts that are kept for other parts."""
_STEPS_A_RANK = 50
"""What it takes at least to look at one part for each rank, beside the square of the number of stages, in steps of a budget."""
_CLOSE = 1e-10
"""A bound that is nearer to the best time than this part of it reaches it."""
_NEAR = 1e-9
"""The same for amounts, as a part of all."""


class _Range(NamedTuple):
    low: float
    high: float


class _Part(NamedTuple):
    """Some of the layouts: those in which groups of stages have amounts in ranges.

    Attributes:
        ranges: The range of each group.
        program: What bounds the layouts.
    """

    ranges: tuple[_Range, ...]
    program: Program


class Tree:
    """The layouts of a choice in parts, of which each has a bound."""

    def __init__(self, search: Search, program: Program, cuts: Sequence[Cut]) -> None:
        """Begin with all layouts as one part.

        Args:
            search: The search; its best layout is what others have to beat.
            program: What bounds them.
            cuts: Cuts to begin with.
        """
        self._search = search
        choice, stack = search.clock.choice, search.clock.stack
        self._known = [*cuts]
        self._kept = len(cuts)
        stages = range(len(choice.owners))
        self._ranks = [tuple(stage for stage in stages if choice.owners[stage] == rank) for rank in sorted({*choice.owners})]
        self._totals = Totals(stack.amounts)
        self._groups = [*self._ranks, *((stage,) for stage in stages)]
        self._whole = stack.reached[-1]
        unit = min(stack.amounts, default=0.0)
        ranges = [_Range(0.0, self._whole)] * len(self._ranks)
        ranges += [_Range(unit * least, self._whole if most else 0.0) for least, most in zip(choice.least, choice.most, strict=True)]
        self._tickets = count()
        self._open: list[tuple[float, int, _Part | None]] = []
        for each in self._list_first(ranges):
            self._open.append((search.bound, next(self._tickets), _Part(each, program.copy())))

    def _list_first(self, ranges: Sequence[_Range]) -> Iterator[tuple[_Range, ...]]:
        """Give the ranges of parts by the first rank that reaches some amount of its own.

        The amounts are such that one of them is reached: those just below, which whole units come to, do not add up to all. The rank whose
        time is then the least takes the next larger amount, again and again, as long as that is so.
        """
        works = self._search.works
        gaps = self._totals.gaps
        if not gaps or len(self._ranks) == 1:
            yield tuple(ranges)
            return
        slopes = [max(works[rank].slopes) for rank in range(len(works))]
        reached = [0] * len(works)
        left = self._whole * (1 - _NEAR) - len(works) * gaps[0].below
        times = [(works[rank].base + slope * gaps[0].above, rank) for rank, slope in enumerate(slopes)]
        heapify(times)
        done = []
        while times:
            time, rank = heappop(times)
            at = reached[rank]
            step = gaps[at + 1].below - gaps[at].below if at + 1 < len(gaps) else self._whole
            if step < left:
                left -= step
                reached[rank] += 1
                heappush(times, (works[rank].base + slopes[rank] * gaps[at + 1].above, rank))
            else:
                done.append((time, rank))
        narrowed = [*ranges]
        for _, rank in sorted(done, reverse=True):
            gap = gaps[reached[rank]]
            part = self._narrow([*narrowed[:rank], _Range(gap.above, narrowed[rank].high), *narrowed[rank + 1 :]])
            if part is not None:
                yield part
            narrowed[rank] = _Range(narrowed[rank].low, gap.below)

    @property
    def bound(self) -> float:
        """No layout is faster."""
        return min(self._open[0][0], self._search.time) if self._open else self._search.time

    @property
    def _limit(self) -> float:
        return self._search.time * (1 - _CLOSE)

    def grow(self) -> None:
        """Divide the part with the least bound until none is left, or that one cannot be divided.

        Raises:
            ExhaustedError: The budget is spent.
        """
        while self._open and self._open[0][0] < self._limit:
            bound, _, part = self._open[0]
            if part is None:
                return
            found = self._divide(bound, part)
            heappop(self._open)
            for each in found:
                heappush(self._open, each)
        self._open.clear()
        self._search.exhausted = True

    def _divide(self, bound: float, part: _Part) -> list[tuple[float, int, _Part | None]]:
        """Give the parts of one, with their bounds: none where it holds nothing better, None in place of one that cannot be divided."""
        found = self._examine(part)
        bound = max(bound, found.value)
        if bound < self._limit:
            self._try_near(found.amounts)
        if bound >= self._limit:
            return []
        chosen = self._choose(part.ranges, found.amounts)
        if chosen is None:
            return [(bound, next(self._tickets), None)]
        group, gap = chosen
        own = part.ranges[group]
        halves = (_Range(own.low, gap.below), _Range(gap.above, own.high))
        narrowed = [self._narrow([*part.ranges[:group], half, *part.ranges[group + 1 :]]) for half in halves]
        return [(bound, next(self._tickets), _Part(ranges, part.program.copy())) for ranges in narrowed if ranges is not None]

    def _try_near(self, amounts: Sequence[float]) -> None:
        """Time the layout that is nearest to some amounts."""
        search = self._search
        counts = round_amounts(search.clock.choice, search.clock.stack, amounts)
        if not search.rules_out(counts, search.time):
            self._note(search.try_out(counts)[2])

    def _note(self, cut: Cut) -> None:
        if len(self._known) >= self._kept + _MOST_KNOWN:
            del self._known[self._kept]
        self._known.append(cut)

    def _examine(self, part: _Part) -> Found:
        """Bound a part by its ranges and by the cuts that bear on it."""
        budget = self._search.clock.budget
        found = part.program.solve(budget, self._limit)
        for _ in range(_MOST_ROUNDS):
            if found.value >= self._limit:
                break
            limited = self._limit_groups(part, found.amounts)
            if not limited and not self._cut(part, found):
                break
            value = found.value
            found = part.program.solve(budget, self._limit)
            if not limited and found.value <= value * (1 + _GAIN):
                break
        return found

    def _limit_groups(self, part: _Part, amounts: Sequence[float]) -> bool:
        """Hold the groups to their ranges, where they are not within; tell whether there were such."""
        limited = False
        near = _NEAR * self._whole
        for group, (low, high) in zip(self._groups, part.ranges, strict=True):
            amount = sum(amounts[stage] for stage in group)
            if amount < low - near:
                part.program.limit(group, low, -1)
            elif amount > high + near:
                part.program.limit(group, high, 1)
            else:
                continue
            limited = True
        return limited

    def _cut(self, part: _Part, found: Found) -> bool:
        """Add cuts that say more of the amounts found than those there are: known ones, else new ones; tell whether there are any."""
        clock = self._search.clock
        clock.budget.spend(len(self._known) * len(found.amounts) // 3)
        limit = found.value * (1 + _GAIN)
        values = sorted(((cut.bound(found.amounts), at) for at, cut in enumerate(self._known)), reverse=True)
        cuts = [self._known[at] for value, at in values[:_MOST_ADDED] if value > limit]
        if not cuts:
            _, new = clock.find_cuts(found.amounts)
            cuts = [cut for cut in new if cut.bound(found.amounts) > limit]
            for cut in cuts:
                self._note(cut)
        for cut in cuts:
            part.program.add(cut)
        return bool(cuts)

    def _choose(self, ranges: Sequence[_Range], amounts: Sequence[float]) -> tuple[int, Gap] | None:
        """Choose the group to divide by, of the first kind that has any: the one whose amount is furthest inside of a gap."""
        number = len(self._ranks)
        for places in (range(number), range(number, len(self._groups))):
            found = []
            for at in places:
                total = sum(amounts[stage] for stage in self._groups[at])
                gap = self._totals.find_gap(total)
                if gap is not None and ranges[at].low <= gap.below and gap.above <= ranges[at].high:
                    found.append((min(total - gap.below, gap.above - total) / (gap.above - gap.below), at, gap))
            if found:
                return max(found)[1:]
        return None

    def _narrow(self, ranges: Sequence[_Range]) -> tuple[_Range, ...] | None:
        """Narrow ranges by what whole units come to and by each other; None where nothing is left of one."""
        number = len(self._ranks)
        stages = ranges[number:]
        ranks = []
        for own, (low, high) in zip(self._ranks, ranges[:number], strict=True):
            ranks.append(
                self._round(max(low, sum(stages[stage].low for stage in own)), min(high, sum(stages[stage].high for stage in own)))
            )
        least, most = sum(low for low, _ in ranks), sum(high for _, high in ranks)
        ranks = [self._round(max(low, self._whole - most + high), min(high, self._whole - least + low)) for low, high in ranks]
        narrowed = [*ranks, *stages]
        for rank, own in enumerate(self._ranks):
            least, most = sum(stages[stage].low for stage in own), sum(stages[stage].high for stage in own)
            for stage in own:
                low, high = stages[stage]
                narrowed[number + stage] = self._round(max(low, ranks[rank].low - most + high), min(high, ranks[rank].high - least + low))
        near = _NEAR * self._whole
        return tuple(narrowed) if all(low <= high + near for low, high in narrowed) else None

    def _round(self, low: float, high: float) -> _Range:
        """Leave out the gaps at the ends of a range."""
        below, above = self._totals.find_gap(low), self._totals.find_gap(high)
        return _Range(low if below is None else below.above, high if above is None else above.below)


def branch(search: Search) -> None:
    """Bound the layouts of a choice in whole units, as far as the budget goes.

    Args:
        search: The search, whose layouts are bounded already; its best layout is what others have to beat.

    Raises:
        ExhaustedError: The budget is spent.
    """
    choice, budget = search.clock.choice, search.clock.budget
    if search.program is None or budget.left < _STEPS_A_RANK * len({*choice.owners}) * len(choice.owners) ** 2:
        return
    tree = Tree(search, search.program.copy(), search.cuts)
    try:
        tree.grow()
    finally:
        search.bound = max(search.bound, tree.bound * (1 - ROUNDING))
