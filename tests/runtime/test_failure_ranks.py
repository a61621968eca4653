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
PIPELINE_TIMEOUT = 8.0
"""Of the pipelines, where they have no watchdog: in it they also connect."""
GRACE = 5.0
"""Seconds beyond the timeout in which all must have ended."""
DEADLINE = 90.0
"""Of the transport: too late to be of any help."""
WAITED = {
    "2F3": {
        0: r"at 0WAIT_B2, waiting for the gradient from stage 1 for microbatch 2 from rank 1",
        1: r"at 1WAIT_B2, waiting for the gradient from stage 2 for microbatch 2 from rank 2",
        3: r"at 3WAIT_F3, waiting for the activation of stage 2 for microbatch 3 from rank 2",
    },
    "2F0": {
        0: r"at 0WAIT_B0, waiting for the gradient from stage 1 for microbatch 0 from rank 1",
        1: r"at 1WAIT_B0, waiting for the gradient from stage 2 for microbatch 0 from rank 2",
        3: r"at 3WAIT_F0, waiting for the activation of stage 2 for microbatch 0 from rank 2",
    },
}
"""What each of the others waits for when rank 2 has not done this forward."""
CLOSED = r"rank \d, {}: (Connection|Read error|Write error)"
STALLED = r"ppdsl: rank \d gives up, since nothing has advanced for \d+\.\d s: {}$"
LATE = r"rank \d, {}: (Timed out|Connection|Read error|Write error)"


@pytest.mark.parametrize(
    ("fault", "watch", "step", "action", "words", "status"),
    [
        # torchrun stops the others, unless they have found out before
        pytest.param("kill", "taken", 0, "2F3", r"rank \d(,| was told to stop:) {}", "1|143", id="kill"),
        # nobody stops them: the connections of the dead rank are closed, then those of its neighbours
        pytest.param("kill", "ignored", 1, "2F3", CLOSED, "1", id="kill-unaided"),
        pytest.param("raise", "ignored", 0, "2F3", CLOSED, "1", id="raise-unaided"),
        # nothing is closed either, until the first watchdog ends its rank
        pytest.param("stall", "ignored", 1, "2F3", f"{CLOSED}|{STALLED}", "1|70", id="stall-unaided"),
        # the first message of all, of which rank 3 does not even know what it will be, and so does not listen to the rank that dies
        pytest.param("kill", "ignored", 0, "2F0", f"{CLOSED}|{STALLED}", "1|70", id="kill-first"),
        # without a watchdog the pipeline's own timeout ends them
        pytest.param("stall", "nothing", 1, "2F3", LATE, "1", id="stall-unwatched"),
    ],
)
def test_all_others_end_in_time_and_say_why(  # noqa: PLR0913, PLR0917 -- parameters
    fault: str, watch: str, step: int, action: str, words: str, status: str, tmp_path: Path
) -> None:
    timeout = TIMEOUT if watch != "nothing" else PIPELINE_TIMEOUT
    arguments = [fault, watch, str(step), action, str(timeout), str(DEADLINE), str(tmp_path)]
    launch = run_torchrun(WORKER, arguments, 4, DEADLINE, check=False)
    ended = time.time()
    assert launch.returncode != 0
    assert "done" not in launch.stdout
    fault_at = re.search(r"^\[2\] fault at ([0-9.]+)$", launch.stdout, re.MULTILINE)
    assert fault_at is not None, launch.stderr
    for rank, waited in WAITED[action].items():
        lines = "\n".join(re.findall(rf"^\[{rank}\] (.*)$", launch.stderr, re.MULTILINE))
        assert re.search(words.replace("{}", f"in step {step} {waited}"), lines, re.MULTILINE), f"rank {rank} said:\n{lines}"
    if fault == "stall" and watch == "ignored":
        assert re.search(STALLED.replace("{}", ".*"), launch.stderr, re.MULTILINE)
    statuses = dict(re.findall(r"rank +: (\d) .*\n +exitcode +: (-?\d+)", launch.stderr))
    assert sorted(statuses) == ["0", "1", "2", "3"]
    assert statuses["2"] in {"kill": ["-9"], "raise": ["1", "-15"], "stall": ["-15"]}[fault]  # its connections close before it has ended
    assert all(re.fullmatch(status, statuses[str(rank)]) for rank in WAITED[action])
    assert ended - float(fault_at[1]) <= timeout + GRACE
