"""Programs: what each rank does, in order, with every send, receive and wait written out."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, cast

from ppdsl.schedules.actions import KINDS
from ppdsl.schedules.checks import quote

if TYPE_CHECKING:
    from collections.abc import Callable

COMPUTE = KINDS
SENDS = frozenset({"SEND_F", "SEND_B"})
RECEIVES = frozenset({"RECV_F", "RECV_B"})
WAITS = frozenset({"WAIT_F", "WAIT_B"})
REDUCE = "REDUCE_GRAD"

_INSTRUCTION = re.compile(
    r"(0|[1-9][0-9]{0,8})(?:(REDUCE_GRAD)|(F|B|I|W|SEND_F|SEND_B|RECV_F|RECV_B|WAIT_F|WAIT_B)(0|[1-9][0-9]{0,8})(?:#(0|[1-9][0-9]{0,8}))?)"
)


class Instruction(NamedTuple):
    """One step of a rank's program.

    Attributes:
        stage: The rank's own stage: the one that computes, whose output is sent, or whose input is received.
        kind: A compute kind (F, B, I, W), ``SEND_F`` or ``SEND_B`` (activation or gradient), ``RECV_F`` or ``RECV_B``, ``WAIT_F`` or
            ``WAIT_B`` (until that receive is done), or ``REDUCE_GRAD`` (the stage's gradients are complete).
        microbatch: Number of the microbatch; -1 for ``REDUCE_GRAD``.
        slot: The receive buffer that a receive writes; -1 elsewhere.
    """

    stage: int
    kind: str
    microbatch: int
    slot: int = -1

    def __str__(self) -> str:
        """Write it: ``2F0``, ``0SEND_F3``, ``1RECV_F3#0``, ``2REDUCE_GRAD``."""
        if self.microbatch < 0:
            return f"{self.stage}{self.kind}"
        text = f"{self.stage}{self.kind}{self.microbatch}"
        return text if self.slot < 0 else f"{text}#{self.slot}"


make_instruction = cast("Callable[[tuple[int, str, int, int]], Instruction]", partial(tuple.__new__, Instruction))
"""Make an instruction of all its four fields: what ``Instruction._make`` does, in half the time, of which a large program takes seconds."""


def read_instruction(text: str) -> Instruction:
    """Read an instruction, strictly.

    Raises:
        ValueError: The text is not an instruction.
    """
    match = _INSTRUCTION.fullmatch(text)
    if match is None:
        message = f"invalid instruction {quote(text)}"
        raise ValueError(message)
    stage, reduce, kind, batch, slot = match.groups()
    if reduce:
        return Instruction(int(stage), reduce, -1)
    return Instruction(int(stage), kind, int(batch), -1 if slot is None else int(slot))


@dataclass(frozen=True, slots=True)
class Program:
    """What every rank executes; nothing is left to decide.

    Attributes:
        schedule: The name of the schedule that it came from.
        owners: The rank that owns each stage.
        microbatches: Number of microbatches in a step.
        depth: How many actions ahead of its use a receive is posted.
        ranks: The instructions of each rank.
        forward_slots: Receive buffers for activations, by rank.
        backward_slots: Receive buffers for gradients, by rank.
        in_flight: The most microbatches that a rank holds forwards of without their backward, counted over its chunks, by rank.
        send_slots: The most outputs that a rank has made and not yet begun to send, by rank.
    """

    schedule: str
    owners: tuple[int, ...]
    microbatches: int
    depth: int
    ranks: tuple[tuple[Instruction, ...], ...]
    forward_slots: tuple[int, ...]
    backward_slots: tuple[int, ...]
    in_flight: tuple[int, ...]
    send_slots: tuple[int, ...]

    @property
    def pp(self) -> int:
        """Number of pipeline ranks."""
        return len(self.ranks)

    def peer(self, instruction: Instruction) -> int:
        """Give the rank at the other end of a send or a receive."""
        step = 1 if instruction.kind in ("SEND_F", "RECV_B") else -1
        return self.owners[instruction.stage + step]

    def channels(self) -> tuple[tuple[int, int], ...]:
        """Give every (sender, receiver) pair that is used, sorted."""
        pairs = set()
        for before, after in zip(self.owners, self.owners[1:], strict=False):
            if before != after:
                pairs |= {(before, after), (after, before)}
        return tuple(sorted(pairs))
