"""The figures are taken and printed. Those of a million actions are judged, at night, against a loop that a busy machine slows as well."""

from __future__ import annotations

import sys

import pytest

from tests.benchmarks import bench_schedules


def test_figures_are_taken() -> None:
    row = bench_schedules.measure(*bench_schedules.SIZES[0])
    sys.stdout.write(f"{bench_schedules.write([row])}\n")
    assert row.actions == 10_240
    assert len(row.seconds) == len(bench_schedules.STEPS)


@pytest.mark.slow
def test_a_million_actions_take_at_most_20_seconds_and_2_gibibytes() -> None:
    rows = [bench_schedules.measure(*size) for size in bench_schedules.SIZES]
    sys.stdout.write(f"{bench_schedules.write(rows)}\n")
    assert rows[-1].actions > 1_000_000
    assert rows[-1].quiet <= 20
    assert bench_schedules.peak_gibibytes() <= 2
    assert rows[-1].quiet / rows[-1].actions <= 2 * rows[1].quiet / rows[1].actions
