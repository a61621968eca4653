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
    """Put together what the ranks recorded of one step, which they started at one time.

    Args:
        schedule: The actions of each rank.
        ranks: What each rank recorded, in its order.

    Raises:
        ValueError: A rank recorded other actions than the schedule has.
    """
    for rank, (actions, records) in enumerate(zip(schedule.ranks, ranks, strict=True)):
        if tuple(record.action for record in records) != actions:
            raise ValueError(f"rank {rank} recorded other actions than its schedule has")
    first = min((records[0].start for records in ranks if records), default=0.0)
    starts = tuple([(record.start - first) * 1e3 for record in records] for records in ranks)
    ends = tuple([(record.end - first) * 1e3 for record in records] for records in ranks)
    return Measured(schedule, Timing(starts, ends, starts))


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
