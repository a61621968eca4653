"""Recording when actions happen, and gathering it from all ranks."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, cast

from ppdsl.schedules.actions import KINDS, Action
from ppdsl_runtime.training.timelines import Measured, Record, measured_step, schedule_of

if TYPE_CHECKING:
    from ppdsl.lowering import Instruction, Program
    from ppdsl.schedules.actions import Kind
    from ppdsl_runtime.pipeline import Pipeline


class StepRecorder:
    """Keeps the records of one rank's last steps."""

    def __init__(self, program: Program, *, most: int) -> None:
        """Make one.

        Args:
            program: What the steps follow.
            most: How many steps are kept.
        """
        self._schedule = schedule_of(program)
        self._steps: deque[list[Record]] = deque(maxlen=most)

    def begin_step(self, pipeline: Pipeline) -> None:
        """Keep the records of the step that comes."""
        self._steps.append([])
        pipeline.record(self._take)

    def _take(self, instruction: Instruction, start: float, end: float) -> None:
        stage, kind, batch, _ = instruction
        if kind in KINDS:
            self._steps[-1].append(Record(Action(stage, cast("Kind", kind), batch), start, end))

    def gather(self, pipeline: Pipeline) -> list[Measured]:
        """Give the steps as all ranks recorded them. All ranks call it."""
        ranks = pipeline.transport.gather([*self._steps])
        return [measured_step(self._schedule, step) for step in zip(*ranks, strict=True)]
