"""One rank of four fails in the middle of a step: every other one says where it was and what it waited for, and ends in time."""

from __future__ import annotations

import re
import signal
import time
from pathlib import Path

import pytest

from tests.runtime.launching import run_torchrun

pytestmark = [
    pytest.mark.torchrun,
    pytest.mark.xdist_group("torchrun"),
    pytest.mark.skipif(not hasattr(signal, "sigtimedwait"), reason="this system has no sigtimedwait"),
]

WORKER = Path(__file__).with_name("failure_worker.py")
TIMEOUT = 3.0
"""Of the ranks' watchdogs, in seconds."""
GRACE = 5.0
"""Seconds beyond the timeout in which all must have ended."""
DEADLINE = 90.0
"""Of the transport: too late to be of any help."""
WAITED = {
    0: r"in step 0 at 0WAIT_B2, waiting for the gradient from stage 1 for microbatch 2 from rank 1",
    1: r"in step 0 at 1WAIT_B2, waiting for the gradient from stage 2 for microbatch 2 from rank 2",
    3: r"in step 0 at 3WAIT_F3, waiting for the activation of stage 2 for microbatch 3 from rank 2",
}
"""What each of the others waits for when rank 2 has not begun its forward of microbatch 3."""


@pytest.mark.parametrize(
    ("fault", "sigterm", "words", "status"),
    [
        # torchrun stops the others, unless they have found out before
        pytest.param("kill", "taken", r"rank \d(,| was told to stop:) {}", "1|143", id="kill"),
        # nobody stops them: the connections of the dead rank are closed, then those of its neighbours
        pytest.param("kill", "ignored", r"rank \d, {}: (Connection|Read error|Write error)", "1", id="kill-unaided"),
        pytest.param("raise", "ignored", r"rank \d, {}: (Connection|Read error|Write error)", "1", id="raise-unaided"),
        # nothing is closed either
        pytest.param("stall", "ignored", r"ppdsl: rank \d gives up, since nothing has advanced for 3\.\d s: {}$", "70", id="stall-unaided"),
    ],
)
def test_all_others_end_in_time_and_say_why(fault: str, sigterm: str, words: str, status: str, tmp_path: Path) -> None:
    launch = run_torchrun(WORKER, [fault, sigterm, str(TIMEOUT), str(DEADLINE), str(tmp_path)], 4, DEADLINE, check=False)
    ended = time.time()
    assert launch.returncode != 0
    assert "done" not in launch.stdout
    fault_at = re.search(r"^\[2\] fault at ([0-9.]+)$", launch.stdout, re.MULTILINE)
    assert fault_at is not None, launch.stderr
    for rank, waited in WAITED.items():
        lines = "\n".join(re.findall(rf"^\[{rank}\] (.*)$", launch.stderr, re.MULTILINE))
        assert re.search(words.replace("{}", waited), lines, re.MULTILINE), f"rank {rank} said:\n{lines}"
    statuses = dict(re.findall(r"rank +: (\d) .*\n +exitcode +: (-?\d+)", launch.stderr))
    assert sorted(statuses) == ["0", "1", "2", "3"]
    assert statuses["2"] in {"kill": ["-9"], "raise": ["1", "-15"], "stall": ["-15"]}[fault]  # its connections close before it has ended
    assert all(re.fullmatch(status, statuses[str(rank)]) for rank in WAITED)
    assert ended - float(fault_at[1]) <= TIMEOUT + GRACE
