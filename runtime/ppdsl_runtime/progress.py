"""Where a rank is in its program: written by the executor and the transport, read by the watchdog's thread."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ppdsl.lowering import Instruction
    from ppdsl_runtime.transport.messages import Message


class Progress:
    """Plain attributes, each written by one thread, so that a write costs next to nothing.

    Attributes:
        step: Number of the step, from 0; -1 before the first.
        position: How many instructions of the step are done.
        instruction: The one begun last; None outside a step, but for one that an error has ended.
        message: The message waited for, None while none is.
        peer: The rank at the message's other end; -1 while none is waited for.
        sending: Whether the rank waits for its peer to take the message, not for the message to come.
        phase: What the rank does outside its program, in words: ``connecting``, ``loading the data``.
    """

    __slots__ = ("instruction", "message", "peer", "phase", "position", "sending", "step")

    def __init__(self) -> None:
        self.step = -1
        self.position = 0
        self.instruction: Instruction | None = None
        self.message: Message | None = None
        self.peer = -1
        self.sending = False
        self.phase = "starting"

    def __str__(self) -> str:
        """Say where the rank is: ``in step 3 at 2F0, waiting for the activation of stage 1 for microbatch 0 from rank 1``."""
        instruction, message, peer = self.instruction, self.message, self.peer
        where = self.phase if instruction is None else f"in step {self.step} at {instruction}"
        if message is None:
            return where
        return f"{where}, waiting for rank {peer} to take {message}" if self.sending else f"{where}, waiting for {message} from rank {peer}"
