"""Two ranks that are given different things: both say what differs, with both values, before anything is sent."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from tests.runtime.difference_worker import OTHERS
from tests.runtime.launching import run_torchrun

pytestmark = [pytest.mark.torchrun, pytest.mark.xdist_group("torchrun")]

WORKER = Path(__file__).with_name("difference_worker.py")
SECONDS = 120
"""Until the ranks are killed."""
QUICKLY = 15.0
"""Seconds in which both have ended, torchrun and all; the ranks' own waits would take 90."""


def test_every_difference_is_named_with_both_values_on_both_ranks() -> None:
    output = run_torchrun(WORKER, [str(SECONDS - 20)], 2, SECONDS).stdout
    for rank in range(2):
        assert re.findall(rf"^\[{rank}\] told (\w+)$", output, re.MULTILINE) == [*OTHERS]
        assert f"[{rank}] agreed" in output


@pytest.mark.parametrize("name", ["more_ranks", "refused_schedule", "dtype"])
def test_ranks_that_differ_end_at_once(name: str) -> None:
    launch = run_torchrun(WORKER, [str(SECONDS - 20), name], 2, SECONDS, check=False)
    ended = time.time()
    assert launch.returncode != 0
    for rank in range(2):
        (line,) = re.findall(rf"^\[{rank}\] .*ppdsl_runtime\.failure\.fingerprints\.DifferenceError: (.*)$", launch.stderr, re.MULTILINE)
        assert all(re.search(text, line) for text in OTHERS[name][1])
    assert ended - max(map(float, re.findall(r"begins at (\S+)$", launch.stdout, re.MULTILINE))) < QUICKLY
