"""Actions and schedules as data, with a text form that reads back exactly, and torch's schedule CSV."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, cast

if TYPE_CHECKING:
    from collections.abc import Iterable

Kind = Literal["F", "B", "I", "W"]
"""Forward, whole backward, input gradient, weight gradient."""

_ACTION = re.compile(r"(0|[1-9][0-9]{0,8})([FBIW])(0|[1-9][0-9]{0,8})")


class Action(NamedTuple):
    """One piece of work: a stage does its forward or backward of one microbatch.

    Attributes:
        stage: Number of the stage.
        kind: ``F`` forward, ``B`` whole backward, or ``I`` and ``W``, its two halves: input and weight gradient.
        microbatch: Number of the microbatch.
    """

    stage: int
    kind: Kind
    microbatch: int

    def __str__(self) -> str:
        """Write it in the notation of torch.distributed.pipelining: ``2F0``."""
        return f"{self.stage}{self.kind}{self.microbatch}"


@dataclass(frozen=True, slots=True)
class Schedule:
    """The order in which each rank does its actions.

    Attributes:
        name: How it was made: ``gpipe``, ``1f1b``, …
        owners: The rank that owns each stage, by stage.
        microbatches: Number of microbatches in a step.
        ranks: The actions of each rank, in order.
    """

    name: str
    owners: tuple[int, ...]
    microbatches: int
    ranks: tuple[tuple[Action, ...], ...]

    @property
    def pp(self) -> int:
        """Number of pipeline ranks."""
        return len(self.ranks)

    @property
    def stages(self) -> int:
        """Number of stages."""
        return len(self.owners)

    def stages_of(self, rank: int) -> tuple[int, ...]:
        """Give the stages that a rank owns, in forward order."""
        return tuple(stage for stage, owner in enumerate(self.owners) if owner == rank)


def read_action(text: str) -> Action:
    """Read an action, strictly: ``0F0junk`` and ``00F0`` are refused.

    Raises:
        ValueError: The text is not an action.
    """
    match = _ACTION.fullmatch(text)
    if match is None:
        message = f"invalid action {text!r}: expected a stage, one of F B I W, and a microbatch, such as 2F0"
        raise ValueError(message)
    return Action(int(match[1]), cast("Kind", match[2]), int(match[3]))


def write_csv(ranks: Iterable[Iterable[Action]]) -> str:
    """Write actions as torch's compute-only schedule CSV: one line a rank, one cell an action."""
    return "".join(",".join(map(str, actions)) + "\n" for actions in ranks)


def read_csv(text: str) -> tuple[tuple[Action, ...], ...]:
    """Read torch's compute-only schedule CSV; empty cells are idle slots and are dropped.

    Raises:
        ValueError: A cell is not an action; the line and the cell are named.
    """
    ranks = []
    for number, line in enumerate(text.splitlines(), start=1):
        actions = []
        for cell, word in enumerate(line.split(","), start=1):
            if word.strip():
                try:
                    actions.append(read_action(word.strip()))
                except ValueError as fault:
                    message = f"line {number}, cell {cell}: {fault}"
                    raise ValueError(message) from None
        ranks.append(tuple(actions))
    return tuple(ranks)
