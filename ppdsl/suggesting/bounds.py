"""How small a step time could be at best: true whatever the layout."""

from __future__ import annotations

from heapq import heapify, heapreplace
from math import fsum
from typing import TYPE_CHECKING, NamedTuple

from ppdsl.splitting import split_evenly
from ppdsl.suggesting.budgets import ExhaustedError
from ppdsl.suggesting.cuts import Cut, list_ways, list_works, weigh_units
from ppdsl.suggesting.games import solve_game

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ppdsl.suggesting.choices import Choice
    from ppdsl.suggesting.problem import Problem
    from ppdsl.suggesting.stacks import Stack
    from ppdsl.suggesting.timing import Clock

ROUNDING = 1e-11
"""Times whose quotient differs from 1 by less than this are the same."""
_MOST_ROUNDS = 60
_MOST_CUTS = 90
_STEPS = (0.5, 0.2)
"""How far towards the amounts that look best the next paths are looked for."""
_CLOSE = 1e-4
_LIGHT = 1e-9


class Relaxation(NamedTuple):
    """What was found where layers may be parted anywhere.

    Attributes:
        bound: No layout is faster.
        amounts: Amounts of the stages that come near it.
        cuts: Bounds for each layout on its own, those that made the bound first; the first is a mixture of them.
    """

    bound: float
    amounts: list[float]
    cuts: list[Cut]


def bound_ranks(problem: Problem, choice: Choice, stack: Stack) -> float:
    """Give a bound under any schedule, from whole units: some rank has the heaviest load that any layout leaves.

    Each rank takes its least units; the others go, one by one, to where they do least harm, which is best since each rank's time only
    grows. Where units differ, they are taken for parted ones, and, with one chunk a rank, the heaviest stage's exact minimum counts too.
    """
    cuts = list_ways(problem, choice, stack)
    if not stack.alike:
        heaviest = _bound_heaviest(problem, choice, stack) if len(choice.owners) == problem.pp else 0.0
        return max(heaviest, _bound_mean(choice, cuts, stack))
    unit = stack.amounts[0] if stack.amounts else 0.0
    bases = [cut.bound([unit * count for count in choice.least]) for cut in cuts]
    open_ranks = {owner for owner, least, most in zip(choice.owners, choice.least, choice.most, strict=True) if most > least}
    # a rank's first chunk weighs on it alone; what is behind its slope is its own work
    slopes = [
        max((cut.slopes[stage] for stage, owner in enumerate(choice.owners) if owner == rank), default=0.0) for rank, cut in enumerate(cuts)
    ]
    heap = [(bases[rank] + unit * slopes[rank], rank) for rank in sorted(open_ranks)]
    heapify(heap)
    bound = max(bases)
    for _ in range(stack.units - sum(choice.least)):
        if not heap:
            break
        time, rank = heap[0]
        bound = max(bound, time)
        heapreplace(heap, (time + unit * slopes[rank], rank))
    return bound


def _bound_mean(choice: Choice, cuts: Sequence[Cut], stack: Stack) -> float:
    """Give the mean of the ranks' times: what one stage is spared, another has."""
    total = stack.reached[-1]
    slopes = [sum(cut.slopes[stage] for cut in cuts) / len(cuts) for stage, most in enumerate(choice.most) if most]
    return sum(cut.base for cut in cuts) / len(cuts) + total * min(slopes, default=0.0)


def _bound_heaviest(problem: Problem, choice: Choice, stack: Stack) -> float:
    """Give the exact minimum of the heaviest stage's work."""
    if not stack.units:
        return 0.0
    works = weigh_units(problem, choice, stack)
    first, last = list_ways(problem, choice, stack)[choice.owners[0]].base, _work_of_last(problem, choice, stack)
    counts = split_evenly(works, len(choice.owners), first=first, last=last, min_layers=0)
    weights, start = [], 0
    for count in counts:
        weights.append(fsum(works[start : start + count]))
        start += count
    weights[0] += first
    weights[-1] += last
    return max(weights)


def _work_of_last(problem: Problem, choice: Choice, stack: Stack) -> float:
    if choice.mtp_stage != len(choice.owners) - 1:
        return 0.0
    works = list_works(problem, choice, stack)
    return works[choice.owners[-1]].base if len(choice.owners) > 1 else 0.0


def relax(clock: Clock, start: Sequence[float], known: Sequence[Cut]) -> Relaxation:
    """Bound a choice's layouts by its schedule: Kelley's cutting planes.

    The makespan is convex in the amounts, and each path through the graph is a linear bound on it. The paths that were found are weighed so
    that no amounts come out small; where they still could, the next path is looked for there, and half-way to the best amounts so far.

    Args:
        clock: Times the choice.
        start: Amounts to begin with.
        known: Cuts that hold for every layout of the choice.
    """
    stack, choice = clock.stack, clock.choice
    low = [min(stack.amounts, default=0.0) * least for least in choice.least]
    room = max(stack.reached[-1] - sum(low), 0.0)
    columns = [stage for stage, most in enumerate(choice.most) if most] or [0]
    cuts = [*known]
    best, center = float("inf"), [*start]
    bound, mixture = 0.0, [(1.0, known[0])]
    points = [[*start]]
    try:
        for _ in range(_MOST_ROUNDS):
            for point in points:
                time, cut = clock.time_amounts(point)
                cuts.append(cut)
                if time < best:
                    best, center = time, point
            rows = _list_rows(cuts, low, room, columns)
            solution = solve_game(rows)
            clock.budget.spend(solution.pivots * len(rows) * (len(rows) + len(columns)) // 3)
            weighed = [(weight, cut) for weight, cut in zip(solution.weights, cuts, strict=True) if weight > _LIGHT]
            if solution.value >= bound:
                bound, mixture = solution.value, weighed
            if best - bound <= _CLOSE * best:
                break
            points = _list_points(_find_corner(low, room, dict(zip(columns, solution.mixture, strict=True))), center)
            if len(cuts) > _MOST_CUTS:
                cuts = [*(cut for _, cut in weighed), *cuts[-_MOST_CUTS // 4 :]]
    except ExhaustedError:
        pass
    return Relaxation(bound * (1 - ROUNDING), center, [_mix(mixture), *(cut for _, cut in mixture)])


def _list_rows(cuts: Sequence[Cut], low: Sequence[float], room: float, columns: Sequence[int]) -> list[list[float]]:
    """Give, for each cut, what it makes of all the room in one stage, by stage."""
    return [[base + room * cut.slopes[stage] for stage in columns] for base, cut in ((cut.bound(low), cut) for cut in cuts)]


def _list_points(corner: Sequence[float], center: Sequence[float]) -> list[list[float]]:
    """Give amounts between those that look best and the best so far."""
    return [[share * a + (1 - share) * b for a, b in zip(corner, center, strict=True)] for share in _STEPS]


def _find_corner(low: Sequence[float], room: float, mixture: dict[int, float]) -> list[float]:
    """Give the amounts that the weighed cuts leave, the room shared out as the mixture says."""
    return [least + room * mixture.get(stage, 0.0) for stage, least in enumerate(low)]


def _mix(mixture: Sequence[tuple[float, Cut]]) -> Cut:
    """Give the sum of cuts, weighed so that it is a cut."""
    total = sum(weight for weight, _ in mixture)
    stages = range(len(mixture[0][1].slopes))
    slopes = tuple(sum(weight * cut.slopes[stage] for weight, cut in mixture) / total for stage in stages)
    return Cut(sum(weight * cut.base for weight, cut in mixture) / total, slopes)
