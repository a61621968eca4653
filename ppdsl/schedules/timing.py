"""When each action starts and ends: exact, one pass, in time linear in the number of actions.

An action starts when its rank is free and its input has arrived. Since each rank's order is fixed, this needs no clock: ranks are
advanced as far as their inputs allow, in any order, and every time comes out the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ppdsl.schedules.actions import Action, Schedule


@dataclass(frozen=True, slots=True)
class Durations:
    """How long things take, in one unit of time.

    Attributes:
        forward: Of each stage.
        backward: Whole backward of each stage.
        input_grad: First half of the backward of each stage.
        weight_grad: Second half of the backward of each stage.
        delay: From the end of an action to the arrival of its output on another rank, without a link; it takes no compute time.
        link_busy: Time that a transfer occupies the link of its direction, one transfer at a time: one for all, or by edge, that between
            stages 0 and 1 first; 0 is the pure delay.
    """

    forward: tuple[float, ...]
    backward: tuple[float, ...]
    input_grad: tuple[float, ...]
    weight_grad: tuple[float, ...]
    delay: float = 0.0
    link_busy: tuple[float, ...] | float = 0.0

    @classmethod
    def equal(cls, stages: int, forward: float, input_grad: float, weight_grad: float, delay: float = 0.0) -> Durations:
        """Make durations that are the same for every stage; the whole backward is the sum of its halves."""
        whole = input_grad + weight_grad
        return cls((forward,) * stages, (whole,) * stages, (input_grad,) * stages, (weight_grad,) * stages, delay)


class Network:
    """What carries messages between ranks, as one run of a schedule finds it: each arrival takes up the link for the next.

    Attributes:
        delays: Delay on the edge before each stage, 0 inside a rank, and then 0 behind the last stage; empty where messages take up links.
    """

    __slots__ = ("_busy", "_delay", "_free", "_owners", "delays")

    def __init__(self, owners: Sequence[int], durations: Durations) -> None:
        self._owners = owners
        self._delay = durations.delay
        busy = durations.link_busy
        delays = (0.0 if one == other else durations.delay for one, other in pairwise(owners))
        self.delays: list[float] = [] if busy else [0.0, *delays, 0.0]
        self._busy = busy if isinstance(busy, tuple) else (busy,) * len(owners) if busy else ()
        self._free: dict[tuple[int, int], float] = {}

    def arrival(self, stage: int, receiver: int, end: float) -> float:
        """Give the time at which the output of a stage, made at ``end``, is at hand for the stage behind it or before it."""
        if self.delays:
            return end + self.delays[max(stage, receiver)]
        owners = self._owners
        if not 0 <= receiver < len(owners) or owners[stage] == owners[receiver]:
            return end
        link = (owners[stage], owners[receiver])
        free = self._free[link] = self.start(link, end) + self._busy[min(stage, receiver)]
        return free + self._delay

    def start(self, link: tuple[int, int], end: float) -> float:
        """Give the time from which a message made at ``end`` is sent, if it is the next."""
        return max(end, self._free.get(link, 0.0))


class StuckError(ValueError):
    """The order cannot be carried out: some ranks wait for inputs that never come.

    Attributes:
        waiting: For each rank that is stuck, the action that it is at and the action whose result it waits for.
    """

    def __init__(self, waiting: dict[int, tuple[Action, tuple[int, str, int]]]) -> None:
        self.waiting = waiting
        texts = [
            f"rank {rank} at {action} waits for {stage}{kind}{batch}" for rank, (action, (stage, kind, batch)) in sorted(waiting.items())
        ]
        super().__init__("deadlock: " + "; ".join(texts))


@dataclass(frozen=True, slots=True)
class Timing:
    """When the actions of a schedule happen.

    Attributes:
        starts: Of each rank's actions, in its order.
        ends: The same.
        ready: When each action's input had arrived.
    """

    starts: tuple[list[float], ...]
    ends: tuple[list[float], ...]
    ready: tuple[list[float], ...]

    @property
    def makespan(self) -> float:
        """The end of the last action."""
        return max((ends[-1] for ends in self.ends if ends), default=0.0)

    @property
    def span(self) -> float:
        """The largest over ranks of last end minus own first start."""
        return max((ends[-1] - starts[0] for starts, ends in zip(self.starts, self.ends, strict=True) if ends), default=0.0)


def time_schedule(schedule: Schedule, durations: Durations) -> Timing:
    """Find when each action starts and ends.

    Args:
        schedule: Any order of actions, each at most once.
        durations: How long they take.

    Raises:
        StuckError: The order deadlocks, or an input is never made.
    """
    run = _Run(schedule, durations)
    moving = [*range(schedule.pp)]
    while moving:
        rank = moving.pop()
        moving += run.advance(rank)
    run.refuse_stuck()
    return Timing(run.starts, run.ends, run.ready)


class _Run:
    """One pass over a schedule. A result is known by its number: F of a cell, G (gradient) of a cell, own I of a cell, in that order."""

    def __init__(self, schedule: Schedule, durations: Durations) -> None:
        self.schedule = schedule
        self.cells = schedule.stages * schedule.microbatches
        self.arrived: list[float | None] = [None] * (3 * self.cells)
        self.position = [0] * schedule.pp
        self.starts: tuple[list[float], ...] = tuple([] for _ in schedule.ranks)
        self.ends: tuple[list[float], ...] = tuple([] for _ in schedule.ranks)
        self.ready: tuple[list[float], ...] = tuple([] for _ in schedule.ranks)
        self.waiting: dict[int, int] = {}
        self.network = Network(schedule.owners, durations)
        self.costs = {"F": durations.forward, "B": durations.backward, "I": durations.input_grad, "W": durations.weight_grad}

    def needed(self, stage: int, kind: str, batch: int) -> int:
        """Give the result that an action waits for; it is negative where there is none."""
        cell = stage * self.schedule.microbatches + batch
        if kind == "F":
            return cell - self.schedule.microbatches
        if kind == "W":
            return 2 * self.cells + cell
        return cell if stage == self.schedule.stages - 1 else self.cells + cell + self.schedule.microbatches

    def advance(self, rank: int) -> list[int]:
        """Do a rank's actions until one waits; give the ranks that waited for what was made."""
        actions, starts, ends, ready = self.schedule.ranks[rank], self.starts[rank], self.ends[rank], self.ready[rank]
        arrived, needed, costs, delays, arrival = self.arrived, self.needed, self.costs, self.network.delays, self.network.arrival
        cells, batches = self.cells, self.schedule.microbatches
        clock = ends[-1] if ends else 0.0
        woken: list[int] = []
        for at in range(self.position[rank], len(actions)):
            stage, kind, batch = actions[at]
            need = needed(stage, kind, batch)
            at_hand = arrived[need] if need >= 0 else 0.0
            if at_hand is None:
                self.waiting[need] = rank
                self.position[rank] = at
                return woken
            start = clock if clock > at_hand else at_hand  # noqa: FURB136 -- a call for each action would be felt
            clock = start + costs[kind][stage]
            starts.append(start)
            ends.append(clock)
            ready.append(at_hand)
            made = stage * batches + batch
            if kind == "F":
                arrived[made] = clock + delays[stage + 1] if delays else arrival(stage, stage + 1, clock)
            elif kind == "W":
                continue
            else:
                if kind == "I":
                    arrived[2 * cells + made] = clock
                made += cells
                arrived[made] = clock + delays[stage] if delays else arrival(stage, stage - 1, clock)
            if made in self.waiting:
                woken.append(self.waiting.pop(made))
        self.position[rank] = len(actions)
        return woken

    def refuse_stuck(self) -> None:
        """Raise where a rank has actions left."""
        stuck = {rank: at for rank, at in enumerate(self.position) if at < len(self.schedule.ranks[rank])}
        if stuck:
            names = {rank: self.schedule.ranks[rank][at] for rank, at in stuck.items()}
            raise StuckError({rank: (action, self.name(self.needed(*action))) for rank, action in names.items()})

    def name(self, result: int) -> tuple[int, str, int]:
        """Write a result as (stage, kind, microbatch)."""
        kind, cell = divmod(result, self.cells)
        stage, batch = divmod(cell, self.schedule.microbatches)
        return stage, "FBI"[kind], batch
