"""The schedule ``auto``: the best, simulated, of the named orders that are legal and of list schedules that prefer backward work."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ppdsl.schedules.draining import Preference, drain
from ppdsl.schedules.memory import count_in_flight
from ppdsl.schedules.naming import SPLIT, find_obstacle, make_named
from ppdsl.schedules.timing import time_schedule

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ppdsl.schedules.actions import Schedule
    from ppdsl.schedules.draining import Task

_BUDGET = 260_000
"""How many actions the list schedules that are tried may have, all together: about a second."""
_FEWEST_LIMITS = 2
_MOST_ROUNDS = 4
"""The largest in-flight limit that is tried, in multiples of pp; beyond it there is next to nothing to gain."""
_SAME = 1e-11


class NothingFitsError(ValueError):
    """No schedule that was tried keeps to the memory limit."""


def automatic(task: Task, *, group: int | None = None, split: bool = False, excess: Callable[[Schedule], float] | None = None) -> Schedule:
    """Find a schedule for any placement, any number of microbatches and any costs.

    It is never slower, in simulation, than a named order that is legal. Of schedules that are equally fast, one with fewer microbatches in
    flight is preferred.

    Args:
        task: What has to be done.
        group: A microbatch group that interleaved_1f1b is tried with, beside the usual one.
        split: Whether backwards may be split; then the zero-bubble orders take part.
        excess: By how many bytes a schedule is over the memory limit, not above 0 where it fits; None where memory does not matter.

    Raises:
        NothingFitsError: No schedule that was tried fits.
    """
    bound = bound_makespan(task, split=split)
    least = least_excess = float("inf")
    best: tuple[int, Schedule] | None = None
    for schedule, makespan in _candidates(task, group, split=split, lean=excess is not None):
        if makespan > least * (1 + _SAME):
            continue
        over = 0.0 if excess is None else excess(schedule)
        if over > 0:
            least_excess = min(least_excess, over)
            continue
        held = max(count_in_flight(schedule))
        if best is None or makespan < least * (1 - _SAME) or held < best[0]:
            best = (held, schedule)
        least = min(least, makespan)
        if least <= bound * (1 + _SAME):
            break
    if best is None:
        raise NothingFitsError(f"no schedule fits the memory limit: the leanest that was found takes {round(least_excess)} bytes more")
    return replace(best[1], name="auto")


def bound_makespan(task: Task, *, split: bool) -> float:
    """Give a time that no schedule beats.

    A rank waits for its first input and then has all its work to do. Behind the last of it, its gradient has to go back to stage 0; but
    behind a weight gradient, where the backward is split, nothing has to follow.
    """
    owners, _, microbatches, durations = task
    work: dict[int, float] = {}
    around: dict[int, float] = {}
    way = 0.0
    for stage, owner in enumerate(owners):
        around.setdefault(owner, way)
        whole = durations.forward[stage] + durations.backward[stage]
        halves = durations.forward[stage] + durations.input_grad[stage] + durations.weight_grad[stage]
        work[owner] = work.get(owner, 0.0) + microbatches * (min(whole, halves) if split else whole)
        way += durations.forward[stage] if split else whole
        if stage + 1 < len(owners) and owners[stage + 1] != owner:
            way += durations.delay if split else 2 * durations.delay
    return max(around[owner] + work[owner] for owner in work)


def _candidates(task: Task, group: int | None, *, split: bool, lean: bool) -> Iterator[tuple[Schedule, float]]:
    """Give schedules with their makespans; those that hold little come first, and gpipe, which holds all, last."""
    owners, pp, microbatches, durations = task
    named = [("1f1b", None), *(("interleaved_1f1b", size) for size in dict.fromkeys((group, None)))]
    named += [(name, None) for name in SPLIT] if split else []
    for name, size in named:
        if find_obstacle(name, owners, pp, microbatches, size) is None:
            schedule = make_named(name, owners, pp, microbatches, size)
            yield schedule, time_schedule(schedule, durations).makespan
    tries = _BUDGET // (len(owners) * microbatches * (3 if split else 2))
    for admitted in choose_limits(pp, microbatches, tries // (3 if split and lean else 2), lean=lean):
        for preference in _prefer(admitted, split=split, lean=lean):
            yield drain(task, preference)
    schedule = make_named("gpipe", owners, pp, microbatches)
    yield schedule, time_schedule(schedule, durations).makespan


def choose_limits(pp: int, microbatches: int, count: int, *, lean: bool) -> list[int]:
    """Choose in-flight limits to try, about ``count`` of them, closer together where they are small.

    Args:
        pp: Number of ranks.
        microbatches: Number of microbatches in a step.
        count: How many to try; never fewer than two.
        lean: Whether memory matters: then the smallest limits are tried as well, down to 1.
    """
    most = min(microbatches, _MOST_ROUNDS * pp)
    least = 1 if lean else min(most, pp)
    count = max(count, _FEWEST_LIMITS)
    if most < count:
        return [*range(1, most + 1)]
    return sorted({round(least * (most / least) ** (number / count)) for number in range(count)})


def _prefer(admitted: int, *, split: bool, lean: bool) -> list[Preference]:
    if not split:
        return [Preference(admitted), Preference(admitted, deepest=True)]
    found = [Preference(admitted, weights=admitted), Preference(admitted, deepest=True, weights=admitted)]
    return [Preference(admitted, weights=0), *found] if lean else found
