"""Layouts to begin a search with: even ones, those whose heaviest stage or rank weighs least, and what comes near given amounts."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

from ppdsl.splitting import split_evenly
from ppdsl.suggesting.choices import fits

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ppdsl.suggesting.choices import Choice
    from ppdsl.suggesting.cuts import Cut
    from ppdsl.suggesting.stacks import Stack

Counts = tuple[int, ...]
"""Units of each stage."""
_MOST_SPARED = 3
"""By how many units the last stage of an even layout is lighter at most."""
_MOST_OFFSETS = 40
"""At how many stages a block begins at most."""


def even_counts(choice: Choice, units: int) -> Counts:
    """Split units as evenly as the choice allows, earlier stages first."""
    return _deal(choice, units, range(len(choice.owners)))


def list_starts(choice: Choice, stack: Stack, works: Sequence[Cut], ways: Sequence[Cut]) -> Iterator[Counts]:
    """Give layouts to begin with.

    Args:
        choice: The choice.
        stack: The layers.
        works: The work of each rank.
        ways: The same with the way there and back.
    """
    stages = len(choice.owners)
    yield even_counts(choice, stack.units)
    yield _deal(choice, stack.units, [*range(1, stages), 0])
    open_stages = max((stage + 1 for stage, most in enumerate(choice.most) if most), default=stages)
    ends = _weigh_ends(choice, stack)
    for least in (0, 1):
        if stack.units >= least * open_stages:
            counts = split_evenly(stack.amounts, open_stages, first=ends[0], last=ends[1], min_layers=least)
            yield fit_counts(choice, stack.units, [*counts, *[0] * (stages - open_stages)])
    for cuts in (works, ways):
        yield _balance_ranks(choice, stack, cuts)


def list_blocks(choice: Choice, units: int) -> Iterator[Counts]:
    """Give even layouts with the remainder in one block of stages, wherever that may stand, and a lighter last stage or none lighter."""
    open_stages = [stage for stage, most in enumerate(choice.most) if most]
    last = open_stages[-1]
    for spared in range(_MOST_SPARED + 1):
        share = units // len(open_stages) - spared
        if len(open_stages) == 1 or share < choice.least[last]:
            return
        base, block = divmod(units - share, len(open_stages) - 1)
        for start in range(0, len(open_stages) - 1, max(1, len(open_stages) // _MOST_OFFSETS)):
            counts = [0] * len(choice.owners)
            counts[last] = share
            for place, stage in enumerate(open_stages[:-1]):
                counts[stage] = base + ((place - start) % (len(open_stages) - 1) < block)
            if fits(choice, counts):
                yield tuple(counts)


def _weigh_ends(choice: Choice, stack: Stack) -> tuple[float, float]:
    """Give what the first stage and the last one with decoder layers hold beside them, as amounts."""
    stages = len(choice.owners)
    others = stack.time_others(stages, choice.mtp_stage)
    share = sum(stack.profile) or 1.0
    weights = [sum(others[stage::stages]) / share for stage in range(stages)]
    return weights[0], weights[choice.mtp_stage] if stages > 1 else 0.0


def _deal(choice: Choice, units: int, order: Sequence[int]) -> Counts:
    """Raise the least counts by one, stage by stage in turn, the emptiest first, until all units are dealt."""
    counts = [*choice.least]
    left = units - sum(counts)
    while left > 0:
        level = min(counts[stage] for stage in order if counts[stage] < choice.most[stage])
        for stage in order:
            if left and counts[stage] == level and counts[stage] < choice.most[stage]:
                counts[stage] += 1
                left -= 1
    return tuple(counts)


def _balance_ranks(choice: Choice, stack: Stack, cuts: Sequence[Cut]) -> Counts:
    """Give units, one by one, to the rank that is then done first, and there to its emptiest chunk.

    Where all units cost the same, no layout has a rank that takes longer, by these cuts.
    """
    counts = [*choice.least]
    unit = stack.reached[-1] / stack.units if stack.units else 0.0
    stages = range(len(counts))
    own = [[stage for stage in stages if choice.owners[stage] == rank and choice.most[stage]] for rank in range(len(cuts))]
    slopes = [max((cut.slopes[stage] for stage in own[rank]), default=0.0) for rank, cut in enumerate(cuts)]
    times = [cut.bound([unit * count for count in counts]) for cut in cuts]
    for _ in range(stack.units - sum(counts)):
        rank = min((rank for rank in range(len(cuts)) if own[rank]), key=lambda rank: times[rank] + unit * slopes[rank])
        times[rank] += unit * slopes[rank]
        counts[min(own[rank], key=counts.__getitem__)] += 1
    return tuple(counts)


def fit_counts(choice: Choice, units: int, counts: Sequence[int]) -> Counts:
    """Change counts as little as is simple, so that each stage has its least and at most its most."""
    fitted = [min(max(count, least), most) for count, least, most in zip(counts, choice.least, choice.most, strict=True)]
    over = sum(fitted) - units
    while over:
        step = 1 if over > 0 else -1
        open_stages = [stage for stage, count in enumerate(fitted) if choice.least[stage] <= count - step <= choice.most[stage]]
        chosen = max(open_stages, key=lambda stage: step * (fitted[stage] - choice.least[stage]))
        fitted[chosen] -= step
        over -= step
    return tuple(fitted)


def round_amounts(choice: Choice, stack: Stack, amounts: Sequence[float]) -> Counts:
    """Cut the stack where the amounts, summed up, say so, each time at the nearest unit."""
    counts, at, goal = [], 0, 0.0
    for amount in amounts:
        goal += amount
        end = bisect_left(stack.reached, goal)
        if end > stack.units or (end > at and goal - stack.reached[end - 1] < stack.reached[end] - goal):
            end -= 1
        counts.append(max(end - at, 0))
        at = max(end, at)
    return fit_counts(choice, stack.units, counts)
