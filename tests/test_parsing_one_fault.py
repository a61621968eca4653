"""One fault, one diagnostic: what stands behind a faulty piece and belongs to it is not reported again."""

from __future__ import annotations

import pytest

from ppdsl.options import Limits
from ppdsl.parsing import parse


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        ("E[tL", [("PP101", "unknown symbol `[`")]),
        ("E[tt|]*3L", [("PP101", "unknown symbol `[`"), ("PP101", "unknown symbol `]`")]),
        ("Et*xL", [("PP106", "repeat count `x` is not a number in ASCII digits")]),
        ("Et@x|tL@1", [("PP106", "rank `x` is not a number in ASCII digits")]),
        ("Et*3.5L", [("PP106", "repeat count `3.5` is not a number in ASCII digits")]),
        ("Et@0|tL@1.2", [("PP106", "rank `1.2` is not a number in ASCII digits")]),
        ("Et*-3L", [("PP106", "repeat count `-3` is not a number in ASCII digits")]),
        ("E(t|xL", [("PP103", "`(` is never closed"), ("PP101", "unknown symbol `x`")]),
    ],
)
def test_each_fault_is_reported_once(text: str, faults: list[tuple[str, str]]) -> None:
    assert [(fault.code, fault.message) for fault in parse(text, Limits()).diagnostics] == faults
