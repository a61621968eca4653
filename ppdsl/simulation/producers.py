"""Which action makes the input of another, and when."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ppdsl.schedules.actions import Action, Schedule
    from ppdsl.schedules.timing import Timing


class Producers:
    """The place of each action that makes something for another stage; listed when it is first asked for."""

    def __init__(self, schedule: Schedule, timing: Timing) -> None:
        self._schedule = schedule
        self._timing = timing
        self._places: list[int] = []

    def producer(self, action: Action) -> tuple[int, int] | None:
        """Give the rank, and the place there, of the action that makes the input of an F, a B or an I; None for a forward of stage 0."""
        stage, kind, batch = action
        owners = self._schedule.owners
        if kind == "F" and not stage:
            return None
        forward = kind == "F" or stage == len(owners) - 1
        source = stage - 1 if kind == "F" else stage if forward else stage + 1
        return owners[source], self._list_places()[self._number(source, batch, forward=forward)]

    def end_of_input(self, action: Action) -> float:
        """Give the time at which the input of an F, a B or an I was made; 0 for a forward of stage 0."""
        place = self.producer(action)
        return 0.0 if place is None else self._timing.ends[place[0]][place[1]]

    def _number(self, stage: int, batch: int, *, forward: bool) -> int:
        return (stage if forward else stage + self._schedule.stages) * self._schedule.microbatches + batch

    def _list_places(self) -> list[int]:
        if not self._places:
            self._places = [-1] * (2 * self._schedule.stages * self._schedule.microbatches)
            for actions in self._schedule.ranks:
                for at, (stage, kind, batch) in enumerate(actions):
                    if kind != "W":
                        self._places[self._number(stage, batch, forward=kind == "F")] = at
        return self._places
