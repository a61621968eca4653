from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import pytest

pytest.importorskip("torch")  # the runtime is tested where torch is among the tests' requirements

from ppdsl_runtime.failure.watchdog import Watchdog
from ppdsl_runtime.progress import Progress

pytestmark = pytest.mark.skipif(not hasattr(signal, "sigtimedwait"), reason="this system has no sigtimedwait")

WORKER = Path(__file__).with_name("watchdog_worker.py")
ROOT = Path(__file__).parents[2]
SECONDS = 60
WAITING = "in step 3 at 2F5, waiting for the activation of stage 1 for microbatch 5 from rank 1"


class Ended(NamedTuple):
    """How a process ended: its status, its errors, and the seconds since it was ready."""

    status: int
    errors: str
    seconds: float


def run(case: str, *, stop: bool = False) -> Ended:
    """Run a case of the worker; send it SIGTERM once it is ready, if so told."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(str(ROOT / folder) for folder in ("", "runtime", "grammar"))}
    command = [sys.executable, str(WORKER), case]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            if stop:
                assert process.stdout.readline() == "ready\n"
                time.sleep(0.3)
                process.send_signal(signal.SIGTERM)
            begin = time.monotonic()
            errors = process.communicate(timeout=SECONDS)[1]
            return Ended(process.returncode, errors, time.monotonic() - begin)
        finally:
            process.kill()


def test_a_rank_that_no_longer_advances_is_ended_with_a_word() -> None:
    ended = run("stall")
    assert re.fullmatch(rf"ppdsl: rank 2 gives up, since nothing has advanced for 0\.\d s: {WAITING}\n", ended.errors)
    assert ended.status == 70


def test_a_rank_that_nobody_hears_is_ended_all_the_same() -> None:
    assert run("stall_unheard")[:2] == (70, "")


def test_a_message_in_flight_counts_as_a_wait() -> None:
    ended = run("stall_in_flight")
    text = "reading the loss, with the gradient from stage 1 for microbatch 1 from rank 3 still under way"
    assert re.fullmatch(rf"ppdsl: rank 2 gives up, since nothing has advanced for 0\.\d s: {text}\n", ended.errors)
    assert ended.status == 70


def test_a_rank_that_advances_or_is_outside_a_step_is_left_alone() -> None:
    assert run("advance")[:2] == (0, "")


def test_sigterm_is_taken_inside_a_blocking_wait() -> None:
    ended = run("be_stopped", stop=True)
    assert ended[:2] == (143, f"ppdsl: rank 2 was told to stop: {WAITING}\n")
    assert ended.seconds < SECONDS / 6


def test_sigterm_is_left_alone_by_default() -> None:
    assert run("be_stopped_by_default", stop=True)[:2] == (-signal.SIGTERM, "")


def test_sigterm_takes_effect_once_it_is_unblocked() -> None:
    assert run("be_stopped_afterwards", stop=True)[:2] == (-signal.SIGTERM, "")


def test_threads_that_would_take_sigterm_are_refused() -> None:
    ended = run("start_too_late")
    text = "RuntimeError: SIGTERM is not blocked in 2 threads; call block_termination before numpy and torch are imported\n"
    assert ended.errors.endswith(text)
    assert ended.status == 1


@pytest.mark.parametrize("timeout", [0, -1, float("nan")])
def test_a_timeout_has_to_be_positive(timeout: float) -> None:
    with pytest.raises(ValueError, match=f"^the timeout has to be positive, not {timeout:g}$"):
        Watchdog(Progress(), 0, timeout)
