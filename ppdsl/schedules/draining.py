"""A list schedule that prefers backward work and admits only what can drain: for any placement, any number of microbatches, any costs.

A rank that is free does a piece of work that is ready, if there is one: backward before forward, weight gradients last. Only one thing is
ever held back: the first forward of a microbatch, while as many as ``admitted`` are between theirs and their last backward. What is
admitted always goes on, so every run comes to its end; a limit on what each rank holds could hold back the very work that would relieve it.
"""

from __future__ import annotations

from collections import deque
from heapq import heappop, heappush
from typing import TYPE_CHECKING, NamedTuple

from ppdsl.schedules.actions import Action, Schedule
from ppdsl.schedules.timing import Network

if TYPE_CHECKING:
    from ppdsl.schedules.actions import Kind
    from ppdsl.schedules.timing import Durations

_SAME_TIME = 1e-12


class Task(NamedTuple):
    """What has to be done.

    Attributes:
        owners: The rank of each stage.
        pp: Number of ranks.
        microbatches: Number of microbatches in a step, from 1.
        durations: How long actions and transfers take.
    """

    owners: tuple[int, ...]
    pp: int
    microbatches: int
    durations: Durations


class Preference(NamedTuple):
    """What a list schedule prefers.

    Attributes:
        admitted: How many microbatches may be between their first forward and their last backward, from 1.
        deepest: Whether, of several backwards, that of the last stage goes first, and not that of the first stage.
        weights: How many weight gradients a rank may put off; None where the backward is whole.
    """

    admitted: int
    deepest: bool = False
    weights: int | None = None


def drain(task: Task, preference: Preference) -> tuple[Schedule, float]:
    """Make a list schedule; give it, named ``auto``, and its makespan."""
    run = _Draining(task, preference)
    run.run()
    return Schedule("auto", task.owners, task.microbatches, tuple(tuple(rank.actions) for rank in run.ranks)), run.makespan


class _Rank:
    """What a rank has done, and what it could do next."""

    __slots__ = ("actions", "busy", "ready", "weights")

    def __init__(self) -> None:
        self.actions: list[Action] = []
        self.busy = False
        self.ready: list[tuple[int, int]] = []
        self.weights: deque[int] = deque()


class _Draining:
    """One run.

    Work is known by its number: backward of a cell (a stage's microbatch), forward of a cell, weight gradient of a cell, in that order. An
    event is the time from which work is ready, or, written as ~rank, the end of what a rank does.
    """

    def __init__(self, task: Task, preference: Preference) -> None:
        owners, durations = task.owners, task.durations
        self.owners = owners
        self.microbatches = task.microbatches
        self.cells = len(owners) * task.microbatches
        stages = range(len(owners))
        self.order = ([-stage if preference.deepest else stage for stage in stages], [2 * len(owners) - stage for stage in stages])
        self.split = preference.weights is not None
        self.weights = preference.weights or 0
        self.forward = durations.forward
        self.backward = durations.input_grad if self.split else durations.backward
        self.weight_grad = durations.weight_grad
        self.network = Network(owners, durations)
        self.ranks = [_Rank() for _ in range(task.pp)]
        self.admitted = min(preference.admitted, task.microbatches)
        self.events = [(0.0, self.cells + batch) for batch in range(self.admitted)]
        self.makespan = 0.0

    def run(self) -> None:
        """Go from event to event; what happens at one time is all taken in before a rank chooses."""
        events = self.events
        while events:
            now = events[0][0]
            horizon = now + _SAME_TIME * now
            touched = []
            while events and events[0][0] <= horizon:
                now, work = heappop(events)
                rank = self.take_in(work)
                if not rank.busy:
                    touched.append(rank)
            for rank in touched:
                if not rank.busy:
                    self.choose(rank, now)

    def take_in(self, work: int) -> _Rank:
        """Note an event; give the rank that it concerns."""
        if work < 0:
            rank = self.ranks[~work]
            rank.busy = False
            return rank
        side, cell = divmod(work, self.cells)
        stage = cell // self.microbatches
        rank = self.ranks[self.owners[stage]]
        if side > 1:
            rank.weights.append(cell)
        else:
            heappush(rank.ready, (self.order[side][stage], work))
        return rank

    def choose(self, rank: _Rank, now: float) -> None:
        """Start the best work that is ready, if there is any."""
        if rank.ready and len(rank.weights) <= self.weights:
            _, work = heappop(rank.ready)
            side, cell = divmod(work, self.cells)
            end = self.go_forward(rank, cell, now) if side else self.go_backward(rank, cell, now)
        elif rank.weights:
            stage, batch = divmod(rank.weights.popleft(), self.microbatches)
            rank.actions.append(Action(stage, "W", batch))
            end = now + self.weight_grad[stage]
        else:
            return
        rank.busy = True
        heappush(self.events, (end, ~self.owners[rank.actions[-1].stage]))
        self.makespan = max(self.makespan, end)

    def go_forward(self, rank: _Rank, cell: int, now: float) -> float:
        """Do a forward; give its end."""
        stage, batch = divmod(cell, self.microbatches)
        rank.actions.append(Action(stage, "F", batch))
        end = now + self.forward[stage]
        if stage == len(self.owners) - 1:
            heappush(self.events, (end, cell))
        else:
            heappush(self.events, (self.network.arrival(stage, stage + 1, end), self.cells + cell + self.microbatches))
        return end

    def go_backward(self, rank: _Rank, cell: int, now: float) -> float:
        """Do a backward, or the first half of it; give its end."""
        stage, batch = divmod(cell, self.microbatches)
        kind: Kind = "I" if self.split else "B"
        rank.actions.append(Action(stage, kind, batch))
        end = now + self.backward[stage]
        if stage:
            heappush(self.events, (self.network.arrival(stage, stage - 1, end), cell - self.microbatches))
        elif self.admitted < self.microbatches:
            heappush(self.events, (end, self.cells + self.admitted))
            self.admitted += 1
        if self.split:
            heappush(self.events, (end, 2 * self.cells + cell))
        return end
