"""Times of a schedule, under the name of the package that people look into for them; ``auto`` needs them as well."""

from __future__ import annotations

from ppdsl.schedules.timing import Durations, StuckError, Timing, time_schedule

__all__ = ["Durations", "StuckError", "Timing", "time_schedule"]
