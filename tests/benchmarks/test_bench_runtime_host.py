"""The figures are taken and printed; the executor's own cost is judged where it does not take a quiet machine."""

from __future__ import annotations

import sys

import pytest

from tests.benchmarks import bench_runtime_host


@pytest.mark.filterwarnings("ignore")  # torch's own executor warns of itself
def test_figures_are_taken() -> None:
    host = bench_runtime_host.measure_host(rounds=20)
    halves = bench_runtime_host.measure_halves(rounds=3)
    sys.stdout.write(f"{bench_runtime_host.write(host, halves)}\n")
    assert 0 < host.bare < host.peers
    assert host.ratio <= 0.3
    assert halves > 0
