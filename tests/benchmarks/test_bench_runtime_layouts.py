"""The figures are taken and printed, of a smaller model; nothing is judged by time."""

from __future__ import annotations

import sys

import pytest

from tests.benchmarks import bench_runtime_layouts


@pytest.mark.torchrun
def test_figures_are_taken() -> None:
    size = bench_runtime_layouts.Size(32, 2, microbatches=4, rounds=2)
    gain = bench_runtime_layouts.measure(size, "gpt2-small,layers=4,hidden=96,vocab=8192")
    sys.stdout.write(f"{bench_runtime_layouts.write(gain)}\n")
    assert len(gain.table) == 5
    assert all(took > 0 and foretold > 0 for took, foretold in gain.table.values())
    assert 1 <= gain.place <= 5
    assert all(size > 0 for layout in (*gain.memory, *gain.foretold_memory) for size in layout)


def test_what_was_measured_is_judged_by_paired_rounds() -> None:
    gain = bench_runtime_layouts.judge(
        {
            "suggested": "Ett|L",
            "even": "Et|tL",
            "rounds": {"Ett|L": [1.0, 2.0, 4.0], "Et|tL": [1.2, 3.0, 4.4]},
            "predicted_ms": {"Ett|L": 2200.0, "Et|tL": 3000.0},
            "memory_bytes": {"Ett|L": [50, 20], "Et|tL": [40, 100]},
        },
        {"Ett|L": [60, 30], "Et|tL": [50, 80]},
    )
    assert gain.gain == pytest.approx(0.2)
    assert gain.place == 1
    assert gain.error == pytest.approx(0.1)
    assert gain.memory == ([50, 80], [60, 30])
    assert gain.foretold_memory == ([40, 100], [50, 20])
    assert gain.table["Et|tL"] == (3000.0, 3000.0)


def test_memory_is_compared_by_the_fuller_rank_and_by_that_of_the_head() -> None:
    assert bench_runtime_layouts.write_memory("measured", [50_000_000, 80_000_000], [60_000_000, 40_000_000]) == (
        "measured memory in MB, even 50, 80; suggested 60, 40: the fuller rank 0.75 of the even split's, the head's 0.50"
    )
