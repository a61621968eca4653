"""SIGTERM, taken by one thread of the process; this module needs no torch, since it must come first."""

from __future__ import annotations

import signal
from pathlib import Path

_BIT = 1 << (signal.SIGTERM - 1)


def block_termination() -> None:
    """Block SIGTERM in this thread and in all that it starts from now on, so that a ``Watchdog`` can take it.

    Call it first of all, before numpy and torch are imported: their thread pools start with the import. A process started by this one
    inherits the block, so one that is to be stopped with SIGTERM, such as a data loader's, has to undo it.

    Raises:
        RuntimeError: The system cannot wait for a signal.
    """
    if not hasattr(signal, "sigtimedwait"):
        raise RuntimeError("this system has no sigtimedwait, which a watchdog needs to take SIGTERM")
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})


def unblock_termination() -> None:
    """Undo ``block_termination`` in this thread; a SIGTERM that is pending takes effect at once."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})


def count_unblocked() -> int:
    """Count this process' threads in which SIGTERM is not blocked, on Linux; elsewhere say whether it is not in this thread: 1 or 0."""
    statuses = [_read(file) for file in Path("/proc/self/task").glob("*/status")]
    if not statuses:
        return int(signal.SIGTERM not in signal.pthread_sigmask(signal.SIG_BLOCK, ()))
    masks = (line.split()[1] for status in statuses for line in status.splitlines() if line.startswith("SigBlk:"))
    return sum(not int(mask, 16) & _BIT for mask in masks)


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="ascii", errors="replace")
    except OSError:  # the thread has ended meanwhile
        return ""


def take_termination(seconds: float) -> bool:
    """Wait for a SIGTERM that is blocked, at most so long; say whether it came."""
    return signal.sigtimedwait({signal.SIGTERM}, seconds) is not None
