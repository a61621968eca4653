"""What each rank does in test_failure_ranks: two steps of a pipeline, in which one rank fails in the middle of a chunk's forward.

``torchrun … failure_worker.py FAULT WATCH STEP ACTION TIMEOUT DEADLINE FOLDER``. FAULT is what rank 2 does in the forward ACTION of STEP,
once all others wait for what comes of it: ``kill`` itself, ``raise``, or ``stall``. WATCH says what the other ranks have: with ``taken`` a
watchdog that takes SIGTERM, with ``ignored`` one that does not, so that torchrun helps no rank to its end, and with ``nothing`` only the
timeout of their pipeline. In FOLDER each rank writes down where it is.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import time

from ppdsl_runtime.failure.signals import block_termination
from ppdsl_runtime.failure.watchdog import Watchdog

if __name__ == "__main__" and sys.argv[2] == "taken":
    block_termination()  # before torch starts its threads

from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

import torch
from torch import distributed as dist
from torch import nn

from ppdsl import compile_layout
from ppdsl_runtime.pipeline import Pipeline
from ppdsl_runtime.progress import Progress

VICTIM = 2
MICROBATCHES = 6
LAST = {
    "2F3": {0: "0WAIT_B2", 1: "1WAIT_B2", 3: "3WAIT_F3"},
    "2F0": {0: "0WAIT_B0", 1: "1WAIT_B0", 3: "3WAIT_F0"},
}
"""Where the others get to without it, by the action in which it fails."""


class NotedProgress(Progress):
    """A rank's progress that is written down for the victim to read."""

    __slots__ = ("_file",)

    def __init__(self, file: Path) -> None:
        self._file = file
        super().__init__()

    def __setattr__(self, name: str, value: object) -> None:
        super().__setattr__(name, value)
        if name == "instruction":
            self._file.write_text(f"{self.step} {value}", encoding="ascii")


class Fault(NamedTuple):
    """What is to go wrong, and where.

    Attributes:
        kind: ``kill``, ``raise`` or ``stall``.
        step: Number of the step.
        action: The forward.
        folder: Where the ranks write down where they are.
    """

    kind: str
    step: int
    action: str
    folder: Path

    def happen(self) -> None:
        """Fail in one of three ways, once the others have got as far as they can, and say when."""
        last = {rank: f"{self.step} {place}" for rank, place in LAST[self.action].items()}
        while any((self.folder / str(rank)).read_text(encoding="ascii") != place for rank, place in last.items()):
            time.sleep(0.01)
        time.sleep(0.2)  # from the note to the wait
        print("fault at", time.time(), flush=True)  # noqa: T201 -- what the test reads
        if self.kind == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.kind == "raise":
            raise ArithmeticError("out of luck")
        time.sleep(1000)


class Victim(nn.Module):
    """A chunk that fails."""

    def __init__(self, fault: Fault) -> None:
        super().__init__()
        self.linear = nn.Linear(5, 5)
        self.fault = fault
        self.runs = 0

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        if (self.runs // MICROBATCHES, f"{VICTIM}F{self.runs % MICROBATCHES}") == (self.fault.step, self.fault.action):
            self.fault.happen()
        self.runs += 1
        output: torch.Tensor = self.linear(hidden)
        return output


def watch(progress: Progress, how: str, timeout: float) -> None:
    """Have this rank's end told, or leave it to the victim's nature."""
    rank = dist.get_rank()
    if rank == VICTIM:
        if how == "taken":
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
        return
    if how != "taken":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if how != "nothing":
        Watchdog(progress, rank, timeout, signals=how == "taken").start()


def main(fault: Fault, how: str, timeout: float, deadline: float) -> None:
    """Watch, connect, and do two steps."""
    faulthandler.dump_traceback_later(deadline, exit=True)
    dist.init_process_group("gloo", timeout=timedelta(seconds=deadline))
    rank = dist.get_rank()
    progress = NotedProgress(fault.folder / str(rank))
    watch(progress, how, timeout)
    chunk = Victim(fault) if rank == VICTIM else nn.Linear(5, 5)
    pipeline = Pipeline(
        compile_layout("E|t|t|L", pp=4),
        [chunk],
        loss_fn=nn.functional.mse_loss,
        schedule="1f1b",
        microbatches=MICROBATCHES,
        timeout=timeout if how == "nothing" else deadline,
        progress=progress,
    )
    for _ in range(2):
        pipeline.step(torch.ones(MICROBATCHES, 5), target=torch.zeros(MICROBATCHES, 5))
    print("done")  # noqa: T201 -- what the test must not find


if __name__ == "__main__":
    kind, way, number, place, seconds, most, where = sys.argv[1:]
    main(Fault(kind, int(number), place, Path(where)), way, float(seconds), float(most))
