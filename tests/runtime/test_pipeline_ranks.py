"""Pipelines on real ranks: the cases are functions of pipeline_worker, each of which compares its steps with one process."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.runtime.launching import run_torchrun

pytestmark = [pytest.mark.torchrun, pytest.mark.xdist_group("torchrun")]

WORKER = Path(__file__).with_name("pipeline_worker.py")
SECONDS = 240
"""Until the ranks are killed."""
CASES = re.findall(r"^    (\w+),$", WORKER.read_text(encoding="utf-8").rsplit("\nCASES = [", 1)[1], re.MULTILINE)


@pytest.mark.parametrize("ranks", [2, 4])
def test_every_case_is_done_on_every_rank(ranks: int) -> None:
    output = run_torchrun(WORKER, [str(SECONDS - 20)], ranks, SECONDS).stdout
    assert len(CASES) == len(set(CASES)) > 10
    for rank in range(ranks):
        assert re.findall(rf"^\[{rank}\] done (\w+)$", output, re.MULTILINE) == CASES
