"""How long schedules take to generate, lower, prove and simulate: microseconds an action at 10^4, 10^5 and 10^6 actions, and peak memory.

Run by hand: ``python -m tests.benchmarks.bench_schedules``. Processor time is printed, and beside it the same in turns of a fixed loop,
since other work on the machine slows both.
"""

from __future__ import annotations

import gc
import resource
import sys
import time
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from ppdsl.lowering import lower
from ppdsl.proving import verify
from ppdsl.schedules.orders import interleaved
from ppdsl.schedules.timing import Durations, time_schedule

if TYPE_CHECKING:
    from collections.abc import Callable

SIZES = ((8, 5, 128), (16, 8, 384), (64, 8, 1024))
"""Ranks, chunks a rank, microbatches: 10,240, 98,304 and 1,048,576 actions."""

STEPS = ("generate", "lower", "verify", "simulate")

LOOP = 0.03
"""Microseconds that a turn of the fixed loop takes when the machine that the limits are for is quiet."""

Made = TypeVar("Made")


class Row(NamedTuple):
    """What was measured of one size, in seconds of processor time."""

    actions: int
    seconds: tuple[float, ...]
    turn: float

    @property
    def quiet(self) -> float:
        """Seconds that all steps would take where the fixed loop takes its usual time."""
        return sum(self.seconds) / self.turn * LOOP / 1e6


def measure_turn() -> float:
    """Seconds of a turn of the fixed loop."""
    start = time.process_time()
    total = 0
    for number in range(2_000_000):
        total += number
    return (time.process_time() - start) / 2_000_000


def clock(seconds: list[float], make: Callable[[], Made]) -> Made:
    """Make something, and note how long it took."""
    start = time.process_time()
    made = make()
    seconds.append(time.process_time() - start)
    return made


def measure(pp: int, vpp: int, microbatches: int) -> Row:
    """Take one schedule all the way."""
    gc.collect()
    seconds: list[float] = []
    turns = [measure_turn()]
    schedule = clock(seconds, lambda: interleaved(tuple(range(pp)) * vpp, pp, microbatches, pp))
    program = clock(seconds, lambda: lower(schedule))
    verdict = clock(seconds, lambda: verify(program, queues=1))
    durations = Durations.equal(pp * vpp, 1.0, 1.0, 1.0, 0.1)
    clock(seconds, lambda: time_schedule(schedule, durations))
    turns.append(measure_turn())
    if not verdict.proved:
        raise ValueError(str(verdict))
    return Row(sum(map(len, schedule.ranks)), tuple(seconds), sum(turns) / 2)


def peak_gibibytes() -> float:
    """The most memory that the process has had."""
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most / 2**30 if sys.platform == "darwin" else most / 2**20


def write(rows: list[Row]) -> str:
    """Write a table: microseconds an action, and in all, in turns of the fixed loop."""
    lines = ["   actions " + "".join(f"{step:>10}" for step in STEPS) + "       all     turns"]
    for row in rows:
        each = [seconds / row.actions * 1e6 for seconds in row.seconds]
        turns = sum(row.seconds) / row.actions / row.turn
        lines.append(f"{row.actions:>10} " + "".join(f"{value:>10.2f}" for value in (*each, sum(each))) + f"{turns:>10.0f}")
    lines.append(f"microseconds of processor time an action; peak memory {peak_gibibytes():.2f} GiB")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.stdout.write(f"{write([measure(*size) for size in SIZES])}\n")
