"""Actions and schedules as data, with a text form that reads back exactly, and torch's schedule CSV."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeVar, cast

from ppdsl.schedules.checks import quote

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

Kind = Literal["F", "B", "I", "W"]
"""Forward, whole backward, input gradient, weight gradient."""

KINDS = frozenset({"F", "B", "I", "W"})
"""The kinds of action."""

Cell = TypeVar("Cell")

_OVERLAP = re.compile(r"\(([^();]+;[^();]+)\)OVERLAP_F_B")
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
        message = f"invalid action {quote(text)}: expected a stage, one of F B I W, and a microbatch, such as 2F0"
        raise ValueError(message)
    return Action(int(match[1]), cast("Kind", match[2]), int(match[3]))


def write_csv(ranks: Iterable[Iterable[Action]]) -> str:
    """Write actions as torch's compute-only schedule CSV: one line a rank, one cell an action."""
    return "".join(",".join(map(str, actions)) + "\n" for actions in ranks)


def read_csv(text: str) -> tuple[tuple[Action, ...], ...]:
    """Read torch's compute-only schedule CSV. Empty cells are idle slots and are dropped; ``(0F1;3B0)OVERLAP_F_B`` is its actions in turn.

    Raises:
        ValueError: A cell is not an action; the line and the cell are named.
    """
    return read_cells(text, read_action)


def read_schedule_csv(text: str, name: str = "csv") -> Schedule:
    """Read torch's compute-only schedule CSV as a schedule: each stage belongs on the rank that does its actions.

    Args:
        text: The CSV.
        name: A name for the schedule.

    Raises:
        ValueError: A cell is not an action, or a stage or a microbatch below the highest has none.
    """
    ranks = read_csv(text)
    _refuse_gaps("microbatch", {batch for actions in ranks for _, _, batch in actions})
    return Schedule(name, find_owners(ranks), count_microbatches(ranks), ranks)


def read_cells(text: str, read: Callable[[str], Cell]) -> tuple[tuple[Cell, ...], ...]:
    """Read a schedule CSV with a function that reads one cell.

    Raises:
        ValueError: That function did; the line and the cell are named.
    """
    lines = text.split("\n")
    if not lines[-1]:
        del lines[-1]
    return tuple(tuple(_read_line(line, number, read)) for number, line in enumerate(lines, start=1))


def _read_line(line: str, number: int, read: Callable[[str], Cell]) -> Iterator[Cell]:
    for cell, word in enumerate(line.split(","), start=1):
        bare = word.strip(" \t\r")
        together = _OVERLAP.fullmatch(bare)
        try:
            yield from map(read, together[1].split(";") if together else [bare] if bare else [])
        except ValueError as fault:
            message = f"line {number}, cell {cell}: {fault}"
            raise ValueError(message) from None


def find_owners(ranks: Iterable[Iterable[tuple[int, str, int]]]) -> tuple[int, ...]:
    """Give the rank that first does an action of each stage.

    Args:
        ranks: Stage, kind and microbatch of what each rank does; what is no action is passed over.

    Raises:
        ValueError: A stage below the highest has no action.
    """
    owners: dict[int, int] = {}
    for rank, rows in enumerate(ranks):
        for stage, kind, _ in rows:
            if kind in KINDS:
                owners.setdefault(stage, rank)
    _refuse_gaps("stage", owners)
    return tuple(owners[stage] for stage in range(len(owners)))


def _refuse_gaps(what: str, numbers: Collection[int]) -> None:
    """Raise ValueError where a number below the highest is not there. Only as many are looked at as there are."""
    for number in range(max(numbers, default=-1)):
        if number not in numbers:
            message = f"{what} {number} has no action"
            raise ValueError(message)


def count_microbatches(ranks: Iterable[Iterable[tuple[int, str, int]]]) -> int:
    """Give one more than the highest microbatch of what the ranks do, given as stage, kind and microbatch."""
    return max((batch for rows in ranks for _, _, batch in rows), default=-1) + 1
