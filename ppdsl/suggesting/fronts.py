"""Step time against memory: the layouts of which none is both faster and leaner."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ppdsl.suggesting.answers import NoLayoutError
from ppdsl.suggesting.searching import suggest

if TYPE_CHECKING:
    from collections.abc import Callable

    from ppdsl.suggesting.answers import Answer
    from ppdsl.suggesting.problem import Problem

_MOST_POINTS = 6


def trade_memory(
    problem: Problem,
    first: Answer,
    *,
    effort: int | None = None,
    seconds: float | None = None,
    watch: Callable[[float], None] | None = None,
) -> tuple[Answer, ...]:
    """Search again and again under a memory limit just below what the last answer takes, until nothing fits.

    Args:
        problem: What is asked.
        first: Its answer, without a lower limit.
        effort: As for ``suggest``, for each search.
        seconds: The same.
        watch: As for ``suggest``.

    Returns:
        The answers, the fastest first; none is worse than another in both time and memory. An interrupt ends the search, not the answers.
    """
    found = [first]
    while first.peak_memory > 0 and len(found) < _MOST_POINTS and not found[-1].interrupted:
        costs = replace(problem.costs, memory_limit_bytes=found[-1].peak_memory - 1)
        try:
            found.append(suggest(replace(problem, costs=costs), effort=effort, seconds=seconds, watch=watch))
        except (NoLayoutError, KeyboardInterrupt):
            break
    # a search that was not proved may be beaten by the next, which had less to choose from
    return tuple(one for at, one in enumerate(found) if all(one.time < other.time for other in found[at + 1 :]))
