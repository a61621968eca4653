"""The figures are taken and printed; nothing is judged by time, but the interval's arithmetic."""

from __future__ import annotations

import sys

import pytest

from tests.benchmarks import bench_runtime_steps


@pytest.mark.torchrun
@pytest.mark.parametrize(("schedule", "microbatches"), bench_runtime_steps.CASES)
def test_a_figure_is_taken(schedule: str, microbatches: int) -> None:
    ratio = bench_runtime_steps.measure(schedule, microbatches)
    sys.stdout.write(f"{bench_runtime_steps.write(schedule, microbatches, ratio)}\n")
    assert 0 < ratio.low <= ratio.median <= ratio.high


def test_the_interval_of_a_median_is_that_of_the_tables() -> None:
    # of 30 values the 95 % interval of the median goes from the 10th to the 21st, of 10 from the 2nd to the 9th
    assert bench_runtime_steps.interval_of_median([float(number) for number in range(1, 31)]) == (10.0, 21.0)
    assert bench_runtime_steps.interval_of_median([float(number) for number in range(1, 11)]) == (2.0, 9.0)
