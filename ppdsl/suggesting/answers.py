"""What a search found, as data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ppdsl.planning.plan import Plan
    from ppdsl.schedules.actions import Schedule


class NoLayoutError(ValueError):
    """No layout fits what was asked for, or none that was tried."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The best layout that was found, and how much better another could be.

    Attributes:
        plan: The layout.
        schedule: The schedule that its time is for.
        group: Microbatch group of interleaved_1f1b; None for the usual one.
        per_stage: Decoder layers of each stage.
        time: What was to be small, in ms: the simulated makespan, or span.
        bound: No layout that was allowed is faster, in ms; where the answer is optimal, this is its time.
        optimal: Whether that is proved.
        peak_memory: The most bytes that a rank holds.
        tried: How many layouts were timed.
        interrupted: Whether the search was stopped by an interrupt.
    """

    plan: Plan
    schedule: Schedule
    group: int | None
    per_stage: tuple[int, ...]
    time: float
    bound: float
    optimal: bool
    peak_memory: int
    tried: int
    interrupted: bool = False

    @property
    def gap(self) -> float:
        """The part of the time that another layout could save at most, from 0 to 1."""
        return (self.time - self.bound) / self.time if self.time else 0.0
