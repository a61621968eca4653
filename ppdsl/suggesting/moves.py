"""Steps from one layout to a better one: a unit from one stage to another, or two of them at once."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

from ppdsl.suggesting.bounds import ROUNDING
from ppdsl.suggesting.choices import fits

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ppdsl.suggesting.searches import Search
    from ppdsl.suggesting.starts import Counts

_MOST_STAGES = 40
"""Stages that may give a unit, and that may take one, in each step."""
_MOST_PAIRED = 40
"""Moves of which two are tried at once."""
_MOST_PAIRS = 60
"""How many such pairs are looked at."""


class Rating(NamedTuple):
    """How good a layout is; the smaller the better."""

    excess: float
    time: float
    spread: float

    def beats(self, other: Rating) -> bool:
        """Whether it is better by more than rounding: less over the memory limit, or faster, or as fast and more even."""
        if self.excess != other.excess:
            return self.excess < other.excess
        if abs(self.time - other.time) > ROUNDING * other.time:
            return self.time < other.time
        return self.spread < other.spread * (1 - ROUNDING)


def improve(search: Search, counts: Counts) -> Counts:
    """Step from a layout to better ones until no step helps; give the last.

    Raises:
        ExhaustedError: The budget is spent; the search knows the best.
    """
    rating = rate(search, counts)
    while not search.settled:
        for candidate in _list_candidates(search, counts, rating):
            found = rate(search, candidate)
            if found.beats(rating):
                counts, rating = candidate, found
                break
        else:
            break
    return counts


def rate(search: Search, counts: Counts) -> Rating:
    """Time and measure a layout.

    Raises:
        ExhaustedError: The budget is spent.
    """
    excess, time, _ = search.try_out(counts)
    return Rating(excess, time, search.spread(counts))


def list_moves(search: Search, counts: Counts) -> list[tuple[int, int]]:
    """Give moves as (stage that gives a unit, stage that takes it), those that shorten the critical path most first."""
    choice = search.clock.choice
    slopes = search.try_out(counts)[2].slopes
    stages = range(len(counts))
    givers = sorted((stage for stage in stages if counts[stage] > choice.least[stage]), key=lambda stage: -slopes[stage])
    takers = sorted((stage for stage in stages if counts[stage] < choice.most[stage]), key=lambda stage: slopes[stage])
    moves = [(giver, taker) for giver in givers[:_MOST_STAGES] for taker in takers[:_MOST_STAGES] if giver != taker]
    return sorted(moves, key=lambda move: (slopes[move[1]] - slopes[move[0]], abs(move[1] - move[0])))


def apply(counts: Counts, *moves: tuple[int, int]) -> Counts:
    """Carry out moves."""
    moved = [*counts]
    for giver, taker in moves:
        moved[giver] -= 1
        moved[taker] += 1
    return tuple(moved)


class _Filter:
    """Tells, by the paths that are known, which steps from a layout cannot help, before it is timed what they lead to."""

    def __init__(self, search: Search, counts: Counts) -> None:
        self.search = search
        self.counts = counts
        self.unit = search.clock.stack.amounts[0] if search.clock.stack.alike else None
        amounts = search.clock.amounts(counts)
        self.values = [(cut.bound(amounts), cut.slopes) for cut in reversed(search.cuts)]

    def rules_out(self, moves: Sequence[tuple[int, int]], limit: float) -> bool:
        """Whether a path shows that carrying out these moves leads to nothing that is faster than a limit."""
        if self.unit is None:
            return self.search.rules_out(apply(self.counts, *moves), limit)
        self.search.clock.budget.spend(len(self.values) * 2 * len(moves))
        for value, slopes in self.values:
            change = 0.0
            for giver, taker in moves:
                change += slopes[taker] - slopes[giver]
            if value + change * self.unit >= limit:
                return True
        return False


def _list_candidates(search: Search, counts: Counts, rating: Rating) -> Iterator[Counts]:
    """Give layouts that may be better: single moves, then pairs; what the paths rule out is left out."""
    slopes = search.try_out(counts)[2].slopes
    moves = list_moves(search, counts)
    search.clock.budget.spend(5 * len(moves))
    tight = rating.excess > 0
    known = _Filter(search, counts)
    for giver, taker in moves:
        if tight or (
            slopes[taker] <= slopes[giver] and not known.rules_out([(giver, taker)], rating.time * (1 + 2 * ROUNDING))
        ):  # what is as fast may be more even
            yield apply(counts, (giver, taker))
    choice = search.clock.choice
    known = _Filter(search, counts)  # the paths of single moves are known by now
    looked = 0
    for pair in combinations(moves[:_MOST_PAIRED], 2):
        if looked == _MOST_PAIRS:
            break
        candidate = apply(counts, *pair)
        if fits(choice, candidate) and not known.rules_out(pair, rating.time * (1 - ROUNDING)):
            looked += 1
            yield candidate
