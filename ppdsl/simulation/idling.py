"""The idle time of each rank, by cause."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ppdsl.simulation.report import IdleTime

if TYPE_CHECKING:
    from ppdsl.schedules.actions import Schedule
    from ppdsl.schedules.timing import Durations, Timing
    from ppdsl.simulation.producers import Producers


def split_idle_time(schedule: Schedule, timing: Timing, durations: Durations, producers: Producers) -> tuple[IdleTime, ...]:
    """Say of each rank's idle time, from 0 to the makespan, what it is due to.

    A rank that is idle between two actions waits for a message from another rank: what it makes itself is at hand as soon as it is free.
    """
    return tuple(_split_rank(schedule, timing, durations, producers, rank) for rank in range(schedule.pp))


def _split_rank(schedule: Schedule, timing: Timing, durations: Durations, producers: Producers, rank: int) -> IdleTime:
    actions, starts, ends = schedule.ranks[rank], timing.starts[rank], timing.ends[rank]
    if not actions:
        return IdleTime(0.0, 0.0, timing.makespan, 0.0)
    first_backward = next((at for at, action in enumerate(actions) if action.kind in "BI"), len(actions))
    last_forward = max((at for at, action in enumerate(actions) if action.kind == "F"), default=-1)
    parts = {"fill": 0.0, "drain": timing.makespan - ends[-1], "imbalance": 0.0, "p2p": 0.0}
    clock = 0.0
    for at, start in enumerate(starts):
        gap = start - clock
        clock = ends[at]
        if gap <= 0:
            continue
        if at <= first_backward:
            parts["fill"] += gap
        elif at > last_forward:
            parts["drain"] += gap
        else:
            on_its_way = durations.delay if not durations.link_busy else start - producers.end_of_input(actions[at])
            parts["p2p"] += min(gap, on_its_way)
            parts["imbalance"] += gap - min(gap, on_its_way)
    return IdleTime(**parts)
