"""What a proof finds wrong with a program, as data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from ppdsl.lowering.program import Instruction

FaultKind = Literal["missing", "repeated", "misplaced", "unready", "unpaired", "deadlock", "buffer", "limit"]


@dataclass(frozen=True, slots=True)
class Step:
    """A place in a program.

    Attributes:
        rank: The rank.
        index: The place among its instructions; their number, for its end.
        instruction: What stands there; None at the end.
    """

    rank: int
    index: int
    instruction: Instruction | None


@dataclass(frozen=True, slots=True)
class ProgramFault:
    """One fault of a program.

    Attributes:
        kind: ``missing`` or ``repeated`` work, work ``misplaced`` on a rank that does not own it, an input that is ``unready`` when it is
            used, an ``unpaired`` send or receive, a ``deadlock``, a ``buffer`` that is overwritten, a stated ``limit`` that is exceeded.
        message: What is wrong.
        steps: Where; for a deadlock the cycle, each step waiting for the next, and the last for the first.
    """

    kind: FaultKind
    message: str
    steps: tuple[Step, ...] = ()


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a proof gave.

    Attributes:
        faults: Everything found, at most 20 of a kind; empty when the program is correct.
        queues: How many hardware queues the proof assumed that the channels of a rank share; None for one queue a channel.
        pairs: Whether it took the two directions between two ranks to be one channel.
    """

    faults: tuple[ProgramFault, ...]
    queues: int | None
    pairs: bool = False

    @property
    def proved(self) -> bool:
        """Whether nothing was found."""
        return not self.faults

    def __str__(self) -> str:
        """Write the faults, one a line."""
        return "\n".join(f"{fault.kind}: {fault.message}" for fault in self.faults) or "proved"
