"""What each rank does in test_failure_ranks: it walks a program, and one rank fails in the middle of it.

``torchrun … failure_worker.py FAULT SIGTERM TIMEOUT DEADLINE FOLDER``. FAULT is what rank 2 does at 2F3, once all others wait for what
comes of it: ``kill`` itself, ``raise``, or ``stall``. SIGTERM is ``taken`` by the other ranks' watchdogs, or ``ignored``, so that torchrun
helps no rank to its end. In FOLDER each rank writes down where it is.
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
from typing import TYPE_CHECKING

import torch
from torch import distributed as dist

from ppdsl import compile_layout
from ppdsl.lowering import lower
from ppdsl.schedules import make_schedule
from ppdsl_runtime.transport.distributed import DistributedTransport
from ppdsl_runtime.transport.messages import Message

if TYPE_CHECKING:
    from ppdsl.lowering import Instruction, Program
    from ppdsl_runtime.transport.interface import Receipt

VICTIM = 2
FATAL = "2F3"
LAST = {0: "0WAIT_B2", 1: "1WAIT_B2", 3: "3WAIT_F3"}
"""Where the others get to without it."""


def fail(fault: str, folder: Path) -> None:
    """Fail in one of three ways, once the others have got as far as they can, and say when."""
    while any((folder / str(rank)).read_text(encoding="ascii") != last for rank, last in LAST.items()):
        time.sleep(0.01)
    time.sleep(0.2)  # from the note to the wait
    print("fault at", time.time(), flush=True)  # noqa: T201 -- what the test reads
    if fault == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if fault == "raise":
        raise ArithmeticError("out of luck")
    time.sleep(1000)


def walk(program: Program, transport: DistributedTransport, fault: str, folder: Path) -> None:
    """Walk a rank's instructions, with a number for each message and nothing to compute."""
    receipts: dict[Message, Receipt] = {}
    progress = transport.progress
    progress.step = 0
    for position, instruction in enumerate(program.ranks[transport.rank]):
        progress.instruction, progress.position = instruction, position
        if str(instruction) == FATAL:
            fail(fault, folder)
        (folder / str(transport.rank)).write_text(str(instruction), encoding="ascii")
        kind = instruction.kind
        if kind.startswith("SEND"):
            transport.send(program.peer(instruction), name(instruction), (torch.ones(5),))
        elif kind.startswith("RECV"):
            receipts[name(instruction)] = transport.post(program.peer(instruction), name(instruction), lambda _wait: (torch.zeros(5),))
        elif kind.startswith("WAIT"):
            receipts.pop(name(instruction)).wait()
    transport.finish()
    progress.instruction = None


def name(instruction: Instruction) -> Message:
    """Name the message of a transfer."""
    backward = instruction.kind.endswith("B")
    sends = instruction.kind.startswith("SEND")
    edge = instruction.stage if sends != backward else instruction.stage - 1
    return Message(edge, "B" if backward else "F", instruction.microbatch)


def main(fault: str, sigterm: str, timeout: str, deadline: str, folder: str) -> None:
    """Connect, watch and walk."""
    faulthandler.dump_traceback_later(float(deadline), exit=True)
    dist.init_process_group("gloo", timeout=timedelta(seconds=float(deadline)))
    plan = compile_layout("E|t|t|L", pp=4)
    program = lower(make_schedule(plan, "1f1b", 6))
    transport = DistributedTransport(program.channels(), timeout=float(deadline), debug=False)
    if transport.rank != VICTIM:
        if sigterm == "ignored":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        Watchdog(transport.progress, transport.rank, float(timeout), signals=sigterm == "taken").start()
    elif sigterm == "taken":
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    walk(program, transport, fault, Path(folder))
    print("done")  # noqa: T201 -- what the test must not find


if __name__ == "__main__":
    main(*sys.argv[1:])
