"""The table beside a contiguous split is made; at night it is whole, and no suggestion is worse."""

from __future__ import annotations

import sys

import pytest

from tests.benchmarks import bench_suggesting

QUICK = bench_suggesting.CASES[:5]


def test_no_suggestion_is_slower_than_a_contiguous_split() -> None:
    rows = [bench_suggesting.measure(case) for case in QUICK]
    sys.stdout.write(f"{bench_suggesting.write(rows)}\n")
    assert all(row.optimal for row in rows)
    assert all(row.suggested <= min(row.contiguous, row.uniform) * (1 + 1e-12) for row in rows)
    assert any(row.contiguous > row.suggested * 1.05 for row in rows)


@pytest.mark.slow
def test_that_holds_for_real_shapes() -> None:
    rows = [bench_suggesting.measure(case) for case in bench_suggesting.CASES]
    sys.stdout.write(f"{bench_suggesting.write(rows)}\n")
    assert all(row.bound <= row.suggested <= min(row.contiguous, row.uniform) * (1 + 1e-12) for row in rows)
    assert all(row.seconds < 10 for row in rows)
