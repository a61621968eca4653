"""The chain of actions and transfers that decides the makespan, found by walking back from its end."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ppdsl.schedules.timing import Network
from ppdsl.simulation.report import PathStep

if TYPE_CHECKING:
    from ppdsl.schedules.actions import Action, Schedule
    from ppdsl.schedules.timing import Durations, Timing
    from ppdsl.simulation.producers import Producers

_Place = tuple[int, int]
"""A rank, and the number of one of its actions."""


class _Sending(NamedTuple):
    """A message on its link: from when it is sent, and whose message was sent before it."""

    start: float
    before: _Place | None


def find_critical_path(schedule: Schedule, timing: Timing, durations: Durations, producers: Producers) -> tuple[PathStep, ...]:
    """Give steps that follow each other without a gap, from 0 to the makespan; where several chains do, the one that changes ranks least.

    Under a link that was taken, the message that it was taken by stands on the path, too.
    """
    rank = max(range(schedule.pp), key=lambda number: timing.ends[number][-1:])
    if not schedule.ranks[rank]:
        return ()
    sendings = _list_sendings(schedule, timing, durations) if durations.link_busy else {}
    steps: list[PathStep] = []
    place: _Place | None = (rank, len(schedule.ranks[rank]) - 1)
    while place is not None:
        rank, at = place
        start = timing.starts[rank][at]
        steps.append(PathStep(schedule.ranks[rank][at], rank, None, start, timing.ends[rank][at]))
        if at and timing.ends[rank][at - 1] >= start:
            place = (rank, at - 1)
            continue
        place = producers.producer(schedule.ranks[rank][at])
        if place is not None:
            place = _walk_transfers(schedule, timing, sendings, steps, place)
    return tuple(reversed(steps))


def _walk_transfers(schedule: Schedule, timing: Timing, sendings: dict[_Place, _Sending], steps: list[PathStep], place: _Place) -> _Place:
    """Add the transfer of what an action made, and those that it had to wait for; give the action where the path goes on."""
    while True:
        rank, at = place
        action, made = schedule.ranks[rank][at], timing.ends[rank][at]
        start, before = sendings.get(place, _Sending(made, None))
        steps.append(PathStep(action, rank, _receiver(schedule, action), start, steps[-1].start))
        if before is None or start <= made:
            return place
        place = before


def _receiver(schedule: Schedule, action: Action) -> int:
    """Give the rank that needs what an action makes; its own where nobody else does."""
    target = action.stage + (1 if action.kind == "F" else 0 if action.kind == "W" else -1)
    return schedule.owners[target] if 0 <= target < schedule.stages else schedule.owners[action.stage]


def _list_sendings(schedule: Schedule, timing: Timing, durations: Durations) -> dict[_Place, _Sending]:
    """Send all messages once more, in the order in which each rank makes them."""
    network = Network(schedule.owners, durations)
    sendings: dict[_Place, _Sending] = {}
    for rank, actions in enumerate(schedule.ranks):
        last: dict[int, _Place] = {}
        for at, action in enumerate(actions):
            receiver, end = _receiver(schedule, action), timing.ends[rank][at]
            if receiver != rank:
                sendings[rank, at] = _Sending(network.start((rank, receiver), end), last.get(receiver))
                network.arrival(action.stage, action.stage + (1 if action.kind == "F" else -1), end)
                last[receiver] = (rank, at)
    return sendings
