"""The figures are taken and printed; no time is judged, since a busy machine would fail."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from tests.benchmarks import bench_compiler

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.mark.parametrize(
    "take",
    [
        pytest.param(bench_compiler.compile_against_peer, marks=pytest.mark.peer),
        pytest.param(bench_compiler.validate_against_peer, marks=pytest.mark.peer),
        bench_compiler.check_against_bare_python,
    ],
)
def test_a_figure_is_taken(take: Callable[[], bench_compiler.Figure]) -> None:
    if sys.version_info < (3, 11) and take is not bench_compiler.check_against_bare_python:
        pytest.skip("megatron-core needs Python 3.11: there is nothing to compare with")
    figure = take()
    sys.stdout.write(f"{figure}\n")
    assert figure.ours > 0
    assert figure.theirs > 0
    assert str(figure).startswith(figure.name)
