"""How small a step time could be at best: true whatever the layout."""

from __future__ import annotations

from heapq import heapify, heapreplace
from math import fsum
from typing import TYPE_CHECKING

from ppdsl.splitting import split_evenly
from ppdsl.suggesting.cuts import list_ways, list_works, weigh_units

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ppdsl.suggesting.choices import Choice
    from ppdsl.suggesting.cuts import Cut
    from ppdsl.suggesting.problem import Problem
    from ppdsl.suggesting.stacks import Stack

ROUNDING = 1e-11
"""Times whose quotient differs from 1 by less than this are the same."""


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
