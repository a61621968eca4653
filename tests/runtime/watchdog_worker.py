"""A process of its own with a watchdog: what test_failure_watchdog runs. ``python watchdog_worker.py CASE``."""

from __future__ import annotations

import os
import sys
import threading
import time

from ppdsl.lowering import read_instruction
from ppdsl_runtime.failure.signals import block_termination, count_unblocked, unblock_termination
from ppdsl_runtime.failure.watchdog import Watchdog
from ppdsl_runtime.progress import Progress
from ppdsl_runtime.transport.messages import Message

TIMEOUT = 0.6
"""Of the watchdog, in seconds."""


def begin_step(progress: Progress) -> None:
    """Be inside a step, and say so."""
    progress.step = 3
    progress.instruction = read_instruction("2F5")
    print("ready", flush=True)  # noqa: T201 -- what the test reads


def wait_for_a_message(progress: Progress) -> None:
    """Say what is waited for."""
    progress.peer, progress.message = 1, Message(1, "F", 5)


def block() -> None:
    """Block inside the system, where no Python signal handler runs."""
    reader, _ = os.pipe()
    os.read(reader, 1)


def stall(progress: Progress) -> None:
    """Wait for a message that never comes."""
    with Watchdog(progress, 2, TIMEOUT):
        begin_step(progress)
        wait_for_a_message(progress)
        block()


def stall_unheard(progress: Progress) -> None:
    """Stall where nobody reads what is said: the launcher that held the other end of standard error is gone."""
    reader, writer = os.pipe()
    os.dup2(writer, 2)
    os.close(writer)
    os.close(reader)
    stall(progress)


def stall_in_flight(progress: Progress) -> None:
    """Run ahead of a message that never comes, as on CUDA."""
    with Watchdog(progress, 2, TIMEOUT, in_flight=lambda: f"{Message(0, 'B', 1)} from rank 3"):
        progress.phase = "reading the loss"
        block()


def advance(progress: Progress) -> None:
    """Advance slowly, one way after the other, for several timeouts in all; then do nothing outside a step."""
    flying = ["0"]
    with Watchdog(progress, 2, TIMEOUT, in_flight=lambda: flying[0] if progress.instruction else None):
        begin_step(progress)
        for i in range(3):
            progress.position += 1
            time.sleep(TIMEOUT / 2)
            wait_for_a_message(progress)
            time.sleep(TIMEOUT / 2)
            progress.message = None
            time.sleep(TIMEOUT / 2)
            flying[0] = str(i + 1)
            time.sleep(TIMEOUT / 2)
        progress.instruction = None
        time.sleep(2.5 * TIMEOUT)
    time.sleep(2 * TIMEOUT)


def be_stopped(progress: Progress) -> None:
    """Take SIGTERM inside a blocking wait."""
    threading.Thread(target=block, daemon=True).start()
    with Watchdog(progress, 2, 60, signals=True):
        begin_step(progress)
        wait_for_a_message(progress)
        block()


def be_stopped_by_default(progress: Progress) -> None:
    """Leave SIGTERM alone, as is the default."""
    unblock_termination()
    with Watchdog(progress, 2, 60):
        begin_step(progress)
        block()


def be_stopped_afterwards(progress: Progress) -> None:
    """Have SIGTERM take effect once it is unblocked."""
    with Watchdog(progress, 2, 60, signals=True):
        pass
    begin_step(progress)
    time.sleep(2 * TIMEOUT)
    unblock_termination()


def start_too_late(progress: Progress) -> None:
    """Have threads in which SIGTERM is not blocked."""
    unblock_termination()
    for _ in range(2):
        threading.Thread(target=block, daemon=True).start()
    block_termination()
    if count_unblocked() == 2:
        Watchdog(progress, 2, 60, signals=True).start()


CASES = (stall, stall_unheard, stall_in_flight, advance, be_stopped, be_stopped_by_default, be_stopped_afterwards, start_too_late)

if __name__ == "__main__":
    block_termination()
    next(case for case in CASES if case.__name__ == sys.argv[1])(Progress())
