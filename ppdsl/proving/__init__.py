"""Proof before launch: that a program is correct, and cannot deadlock, without running anything."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from ppdsl.proving.content import MOST_FAULTS, check_buffers, check_channels, check_completeness, check_inputs, check_reductions
from ppdsl.proving.execution import Execution
from ppdsl.proving.faults import ProgramFault, Step, Verdict

if TYPE_CHECKING:
    from ppdsl.lowering.program import Program

__all__ = ["ProgramFault", "Step", "Verdict", "verify"]


def verify(program: Program, *, queues: int | None = None) -> Verdict:
    """Show that a program is complete, ordered, paired, free of deadlock and within its limits, or say what is wrong.

    A send is taken to be done only with its receive (rendezvous), and each channel to issue its transfers in program order.

    Args:
        program: Any program.
        queues: How many hardware queues the channels of a rank share, in issue order (CUDA_DEVICE_MAX_CONNECTIONS); None gives each channel
            its own.
    """
    checks = (check_completeness, check_inputs, check_channels, check_buffers, check_reductions)
    faults = [fault for check in checks for fault in islice(check(program), MOST_FAULTS)]
    if not any(fault.kind == "misplaced" for fault in faults):
        deadlock = Execution(program, queues).run()
        faults += [] if deadlock is None else [deadlock]
    return Verdict(tuple(faults), queues)
