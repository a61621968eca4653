"""Proof before launch: that a program is correct, and cannot deadlock, without running anything."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from ppdsl.proving.content import MOST_FAULTS, Content
from ppdsl.proving.execution import Execution
from ppdsl.proving.explaining import Explanation
from ppdsl.proving.faults import ProgramFault, Step, Verdict
from ppdsl.proving.statements import find_misfits
from ppdsl.schedules.checks import check_count

if TYPE_CHECKING:
    from ppdsl.lowering.program import Program

__all__ = ["ProgramFault", "Step", "Verdict", "verify"]


def verify(program: Program, *, queues: int | None = None, pairs: bool = False) -> Verdict:
    """Show that a program is complete, ordered, paired, free of deadlock and within its limits, or say what is wrong.

    A send is taken to be done only with its receive (rendezvous), and each channel to issue its transfers in program order. In time linear
    in the number of instructions.

    Args:
        program: Any program.
        queues: How many hardware queues the channels of a rank share, in issue order (CUDA_DEVICE_MAX_CONNECTIONS); None gives each channel
            its own.
        pairs: Whether the two directions between two ranks are one channel, as those of torch.distributed are.

    Raises:
        ValueError: The queues are no integer from 1.
    """
    if queues is not None:
        check_count("queues", queues)
    misfits = tuple(islice(find_misfits(program), MOST_FAULTS))
    if misfits:
        return Verdict(misfits, queues, pairs)
    content = Content(program)
    faults = content.faults
    if not any(fault.kind == "misplaced" for fault in faults):
        execution = Execution(program, content.events, queues, pairs=pairs)
        if not execution.run():
            explanation = Explanation(execution)
            faults += islice(explanation.find_unpaired(), MOST_FAULTS)
            faults.append(explanation.find_deadlock())
    return Verdict(tuple(faults), queues, pairs)
