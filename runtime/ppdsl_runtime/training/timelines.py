"""Measured times beside predicted ones: the same data, so that the same pictures and figures are made of both."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from ppdsl.schedules.actions import Action, Schedule
from ppdsl.schedules.timing import Durations, Timing, time_schedule

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ppdsl.lowering import Program


class Record(NamedTuple):
    """One action that was measured.

    Attributes:
        action: The action.
        start: When it began, in seconds from the start of the rank's step.
        end: When it was done.
    """

    action: Action
    start: float
    end: float


class Measured(NamedTuple):
    """One step, as it was.

    Attributes:
        schedule: The actions of each rank.
        timing: When they happened, in ms from the first action's start.
    """

    schedule: Schedule
    timing: Timing


def schedule_of(program: Program) -> Schedule:
    """Give the actions of a program, without its transfers."""
    ranks = tuple(tuple(Action(stage, kind, batch) for stage, kind, batch, _ in row if kind in "FBIW") for row in program.ranks)  # type: ignore[arg-type]  # a kind of action
    return Schedule(program.schedule, program.owners, program.microbatches, ranks)


def measured_step(schedule: Schedule, ranks: Sequence[Sequence[Record]]) -> Measured:
    """Put together what the ranks recorded of one step.

    Each rank's clock begins with its own step, which they begin at about one time. They are set against each other so that nothing is used
    before it was made.

    Args:
        schedule: The actions of each rank.
        ranks: What each rank recorded, in its order.

    Raises:
        ValueError: A rank recorded other actions than the schedule has.
    """
    for rank, (actions, records) in enumerate(zip(schedule.ranks, ranks, strict=True)):
        if tuple(record.action for record in records) != actions:
            raise ValueError(f"rank {rank} recorded other actions than its schedule has")
    late = _set_clocks(schedule, ranks)
    first = min((records[0].start + late[rank] for rank, records in enumerate(ranks) if records), default=0.0)
    starts = tuple([(record.start + late[rank] - first) * 1e3 for record in records] for rank, records in enumerate(ranks))
    ends = tuple([(record.end + late[rank] - first) * 1e3 for record in records] for rank, records in enumerate(ranks))
    return Measured(schedule, Timing(starts, ends, starts))


def _set_clocks(schedule: Schedule, ranks: Sequence[Sequence[Record]]) -> list[float]:
    """Give by how much each rank began later than some rank, in seconds: the least by which no input is used before it was made."""
    made = {}
    for rank, records in enumerate(ranks):
        for (stage, kind, batch), _, end in records:
            if kind != "W":
                made[stage, kind == "F", batch] = rank, end
    least: dict[tuple[int, int], float] = {}
    for rank, records in enumerate(ranks):
        for (stage, kind, batch), start, _ in records:
            maker, end = made.get((stage - 1 if kind == "F" else stage + 1, kind == "F", batch), (rank, start))
            if kind != "W" and maker != rank:
                least[maker, rank] = max(least.get((maker, rank), end - start), end - start)
    late = [0.0] * schedule.pp
    for _ in late:  # what one rank's clock moves moves others; a chain has no more links than there are ranks
        for (maker, user), behind in least.items():
            late[user] = max(late[user], late[maker] + behind)
    return late


def measured_durations(steps: Iterable[Measured], delay: float = 0.0) -> Durations:
    """Give the median duration of each stage's actions over some steps, in ms.

    Args:
        steps: Of one schedule; at least one.
        delay: Of a transfer between ranks, in ms.
    """
    samples: dict[tuple[int, str], list[float]] = {}
    stages = 0
    for step in steps:
        stages = step.schedule.stages
        for actions, starts, ends in zip(step.schedule.ranks, step.timing.starts, step.timing.ends, strict=True):
            for action, start, end in zip(actions, starts, ends, strict=True):
                samples.setdefault((action.stage, action.kind), []).append(end - start)
    times = {key: median(values) for key, values in samples.items()}
    forward, whole, first, second = ([times.get((stage, kind), 0.0) for stage in range(stages)] for kind in "FBIW")
    backward = [both or one + other for both, one, other in zip(whole, first, second, strict=True)]
    return Durations(tuple(forward), tuple(backward), tuple(first), tuple(second), delay)


def predict(schedule: Schedule, durations: Durations) -> Measured:
    """Give the step that the simulation foretells from the durations of the stages."""
    return Measured(schedule, time_schedule(schedule, durations))
