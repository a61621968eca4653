"""The figures are taken and printed, of a smaller model; nothing is judged by time."""

from __future__ import annotations

import sys

import pytest

from tests.benchmarks import bench_runtime_layouts


@pytest.mark.torchrun
def test_figures_are_taken() -> None:
    gain = bench_runtime_layouts.measure("gpt2-small,layers=4,hidden=96,vocab=8192", 32, 4, 2)
    sys.stdout.write(f"{bench_runtime_layouts.write(gain)}\n")
    assert len(gain.table) == 5
    assert all(took > 0 and foretold > 0 for took, foretold in gain.table.values())
    assert 1 <= gain.place <= 5


def test_what_was_measured_is_judged_by_paired_rounds() -> None:
    gain = bench_runtime_layouts.judge(
        {
            "suggested": "Ett|L",
            "even": "Et|tL",
            "rounds": {"Ett|L": [1.0, 2.0, 4.0], "Et|tL": [1.2, 3.0, 4.4]},
            "predicted_ms": {"Ett|L": 2200.0, "Et|tL": 3000.0},
            "memory_bytes": {"Ett|L": 50, "Et|tL": 100},
        }
    )
    assert gain.gain == pytest.approx(0.2)
    assert gain.place == 1
    assert gain.error == pytest.approx(0.1)
    assert gain.memory == 0.5
    assert gain.table["Et|tL"] == (3000.0, 3000.0)
