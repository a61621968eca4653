"""Timed schedules that are drawn in several tests."""

from __future__ import annotations

from ppdsl.schedules.actions import Action, Schedule
from ppdsl.schedules.orders import interleaved, one_forward_one_backward
from ppdsl.schedules.timing import Durations, Timing, time_schedule
from ppdsl.schedules.zero_bubble import zb_h1, zb_v

HOSTILE = '</script><b title="\'">&amp; \ud800\u202e\x00\n<!-- ]]>'
"""What a title may hold: the ends of elements, quotes, an entity, a lone surrogate, a bidi control, a null, a line end."""


def two_ranks() -> tuple[Schedule, Timing]:
    """1F1B on two ranks with four microbatches: F 1, B 2, a delay of 0.5."""
    schedule = one_forward_one_backward((0, 1), 2, 4)
    return schedule, time_schedule(schedule, Durations.equal(2, 1.0, 1.0, 1.0, 0.5))


def split_backwards() -> tuple[Schedule, Timing]:
    """ZB-H1 on two ranks with three microbatches, without delay."""
    schedule = zb_h1((0, 1), 2, 3)
    return schedule, time_schedule(schedule, Durations.equal(2, 1.0, 1.0, 1.0))


def two_chunks(microbatches: int = 4) -> tuple[Schedule, Timing]:
    """Interleaved 1F1B on two ranks with two chunks each."""
    schedule = interleaved((0, 1, 0, 1), 2, microbatches, 2)
    return schedule, time_schedule(schedule, Durations.equal(4, 1.0, 1.0, 1.0))


def with_empty_stage() -> tuple[Schedule, Timing]:
    """Three ranks of which the second owns only an empty stage, and the first a very short one."""
    schedule = one_forward_one_backward((0, 1, 2), 3, 2)
    times = (0.02, 0.0, 2.0)
    return schedule, time_schedule(schedule, Durations(times, times, times, times))


def nothing() -> tuple[Schedule, Timing]:
    """A rank with no actions."""
    schedule = Schedule("empty", (0,), 1, ((),))
    return schedule, time_schedule(schedule, Durations.equal(1, 1.0, 1.0, 1.0))


def without_time() -> tuple[Schedule, Timing]:
    """Actions that all take no time."""
    schedule = Schedule("free", (0,), 1, ((Action(0, "F", 0), Action(0, "B", 0)),))
    return schedule, time_schedule(schedule, Durations.equal(1, 0.0, 0.0, 0.0))


def full_size(microbatches: int = 512) -> tuple[Schedule, Timing]:
    """ZB-V on 64 ranks, whose times do not fit a coarse unit."""
    schedule = zb_v((*range(64), *reversed(range(64))), 64, microbatches)
    return schedule, time_schedule(schedule, Durations.equal(128, 1.3725194, 1.1234567, 1.0000321, 0.0731))
