"""Walking a bound program: plainly, with a record of each action's time, or with ranges that a profiler shows."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Literal

import torch

from ppdsl.lowering import Instruction

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    from ppdsl_runtime.executor.binding import Call
    from ppdsl_runtime.progress import Progress

Recorder = Callable[[Instruction, float, float], None]
"""Takes an action, and when it began and ended: seconds from the start of the step, on the device where that is a CUDA device."""

Ranges = Literal["nvtx", "profiler"]
"""Names each action for a profiler: NVTX ranges, or torch.profiler's record_function."""

_COMPUTE = frozenset("FBIW")


class Walker:
    """Walks bound programs on one device.

    Attributes:
        recorder: Takes the time of each action; None for no record.
    """

    def __init__(self, progress: Progress, device: torch.device, *, run_ahead: int, ranges: Ranges | None = None) -> None:
        """Make one.

        Args:
            progress: Where the rank says how far it is.
            device: Where the tensors are.
            run_ahead: How many actions the host may be ahead of a CUDA device, those of earlier steps included.
            ranges: What names the actions for a profiler; None for nothing.
        """
        self.recorder: Recorder | None = None
        self._progress = progress
        self._device = device
        self._run_ahead = run_ahead
        self._lead = _Lead(device, run_ahead) if device.type == "cuda" else None
        self._ranges = ranges

    def walk(self, calls: Sequence[Call]) -> None:
        """Carry out one step."""
        progress = self._progress
        if self.recorder is not None:
            self._walk_recorded(calls, self.recorder)
        elif self._lead is not None or self._ranges is not None:
            self._walk_named(calls)
        else:
            for position, (instruction, call) in enumerate(calls):
                progress.position = position
                progress.instruction = instruction
                call()
        progress.position = len(calls)
        progress.instruction = None

    def _walk_named(self, calls: Sequence[Call]) -> None:
        """Give each action its range, and wait for the device where the host is too many actions ahead of it."""
        progress, ranges, lead = self._progress, self._ranges, self._lead
        for position, (instruction, call) in enumerate(calls):
            progress.position = position
            progress.instruction = instruction
            if ranges is None:
                call()
            else:
                with _name(instruction, ranges):
                    call()
            if lead is not None and instruction.kind in _COMPUTE:
                lead.bound()

    def _walk_recorded(self, calls: Sequence[Call], recorder: Recorder) -> None:
        """Note when each action begins and ends: by events on a CUDA device, which are read once the step is done."""
        cuda = self._lead is not None
        mark = partial(_mark_event, self._device) if cuda else perf_counter
        times = [mark()]
        for position, (instruction, call) in enumerate(calls):
            self._progress.position = position
            self._progress.instruction = instruction
            with _name(instruction, self._ranges):
                call()
            times.append(mark())
            if cuda and position >= self._run_ahead:
                times[position - self._run_ahead].synchronize()  # type: ignore[union-attr]  # the mark is an event
        seconds = _read_events(times) if cuda else [time - times[0] for time in times]  # type: ignore[arg-type,operator]  # by the mark
        for (instruction, _), begin, end in zip(calls, seconds, seconds[1:], strict=False):
            recorder(instruction, begin, end)


class _Lead:
    """How far the host is ahead of the device: an event for each action that may not be done, of whatever step."""

    def __init__(self, device: torch.device, most: int) -> None:
        self._device = device
        self._most = most
        self._events: deque[torch.cuda.Event] = deque()

    def bound(self) -> None:
        """Note that an action has been issued; wait for the oldest where there are too many."""
        if len(self._events) >= self._most:
            event = self._events.popleft()
            event.synchronize()
        else:
            event = torch.cuda.Event()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        event.record(torch.cuda.current_stream(self._device))
        self._events.append(event)


def _mark_event(device: torch.device) -> torch.cuda.Event:
    event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]  # the same
    event.record(torch.cuda.current_stream(device))
    return event


def _read_events(events: Sequence[torch.cuda.Event]) -> list[float]:
    events[-1].synchronize()
    return [events[0].elapsed_time(event) / 1000 for event in events]


def _name(instruction: Instruction, ranges: Ranges | None) -> AbstractContextManager[object]:
    if ranges is None:
        return nullcontext()
    return torch.profiler.record_function(str(instruction)) if ranges == "profiler" else torch.cuda.nvtx.range(str(instruction))
