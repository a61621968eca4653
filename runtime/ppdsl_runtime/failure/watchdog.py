"""A thread that ends its rank, with a word, when the rank no longer advances or is told to stop.

A Python signal handler does not run while the main thread is inside a blocking receive, and no exception can be raised there; a thread can
still speak and end the process.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from typing import TYPE_CHECKING

from ppdsl_runtime.failure.signals import count_unblocked, take_termination

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from typing_extensions import Self

    from ppdsl_runtime.progress import Progress

STALLED = 70
"""Exit status of a rank that its watchdog ended since nothing advanced."""
TERMINATED = 128 + signal.SIGTERM
"""Exit status of a rank that was told to stop: what a shell reports for SIGTERM."""

_LOOKS = 10
"""How often in one timeout the watchdog looks."""
_LONGEST = 0.5
"""Seconds between two looks, at most."""

State = tuple[object, ...]


class Watchdog:
    """Ends the process when nothing has advanced for some time inside a step, or when it gets SIGTERM.

    A rank advances when it begins an instruction, begins or ends a wait, or when one of its messages in flight arrives. A step that an
    error has ended advances no more: stop the watchdog, or begin another step. Nothing is flushed when the process ends: what has been
    printed to a pipe or a file without a flush is lost.

    No GPU has confirmed yet what it does with messages in flight on CUDA, where waits hold up the stream and not the host.

    Attributes:
        in_flight: Says what is the oldest message in flight, None where there is none; may be set when the transport is there.
    """

    def __init__(
        self,
        progress: Progress,
        rank: int,
        timeout: float,
        *,
        signals: bool = False,
        in_flight: Callable[[], str | None] | None = None,
    ) -> None:
        """Make it; ``start`` starts it.

        Args:
            progress: What the executor and the transport write.
            rank: The pipeline rank, for what is said.
            timeout: Seconds without any advance inside a step after which the process is ended. It has to be longer than any one action and
                any one wait: the first rank waits for a gradient until all stages behind it have done a forward and a backward, and have
                compiled what they compile.
            signals: Whether it takes SIGTERM too; then ``block_termination`` has to be called before any other thread starts.
            in_flight: Says what is the oldest message in flight, where waits do not block the host: a transport's ``in_flight``.

        Raises:
            ValueError: The timeout is not positive.
        """
        if not timeout > 0:
            raise ValueError(f"the timeout has to be positive, not {timeout:g}")
        self._progress = progress
        self._rank = rank
        self._timeout = timeout
        self._signals = signals
        self.in_flight = in_flight or (lambda: None)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="ppdsl watchdog", daemon=True)

    def start(self) -> None:
        """Start to watch.

        Raises:
            RuntimeError: It is to take SIGTERM, but a thread would take it instead and end the process in silence.
        """
        if self._signals and (count := count_unblocked()):
            text = f"SIGTERM is not blocked in {count} thread{'s' * (count > 1)}"
            raise RuntimeError(f"{text}; call block_termination before numpy and torch are imported")
        self._thread.start()

    def stop(self) -> None:
        """Stop watching; SIGTERM stays blocked."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join()

    def __enter__(self) -> Self:
        """Start to watch."""
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Stop watching."""
        self.stop()

    def _run(self) -> None:
        pause = min(self._timeout / _LOOKS, _LONGEST)
        seen: State = ()
        since = time.monotonic()
        while not self._stopped.is_set():
            oldest = self.in_flight()
            state = self._look(oldest)
            now = time.monotonic()
            if state != seen:
                seen, since = state, now
            elif now - since >= self._timeout and self._is_inside(oldest):
                self._end(f"gives up, since nothing has advanced for {now - since:.1f} s", oldest, STALLED)
            if not self._signals:
                self._stopped.wait(pause)
            elif take_termination(pause):
                self._end("was told to stop", oldest, TERMINATED)

    def _look(self, oldest: str | None) -> State:
        progress = self._progress
        return progress.step, progress.position, progress.instruction, progress.message, progress.peer, progress.phase, oldest

    def _is_inside(self, oldest: str | None) -> bool:
        return oldest is not None or self._progress.message is not None or self._progress.instruction is not None

    def _end(self, what: str, oldest: str | None, status: int) -> None:
        text = f"rank {self._rank} {what}: {self._progress}"
        if oldest is not None and self._progress.message is None:
            text += f", with {oldest} still under way"
        try:  # the main thread may hold the lock of stderr, and stderr may be gone
            os.write(sys.__stderr__.fileno() if sys.__stderr__ else 2, f"ppdsl: {text}\n".encode())
        finally:
            os._exit(status)
