"""Counting without expanding: how many of each symbol a layout has, and which come first and last."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ppdsl.nodes import Group, Item, Owner, Run, fold

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


@dataclass(frozen=True, slots=True)
class Tally:
    """What a layout, or a part of it, holds.

    Attributes:
        counts: Number of each symbol that stands at least once, bars included; exact, however large.
        marks: Runs in the order of the layout: of each layer symbol the first and the last (one run where they are the same). Whether
            some ``a`` stands before some ``b`` can be read from them alone.
        removed: What a ``*0`` removes.
    """

    counts: dict[str, int]
    marks: tuple[Run, ...]
    removed: tuple[Run | Group, ...] = ()

    def count(self, kind: str) -> int:
        """How many of a symbol there are."""
        return self.counts.get(kind, 0)

    @property
    def stages(self) -> int:
        """How many stages there are; one more than bars."""
        return self.counts.get("|", 0) + 1

    def first(self, kind: str) -> Run | None:
        """The first run of a layer symbol; None where it does not occur."""
        return next((run for run in self.marks if run.kind == kind), None)

    def last(self, kind: str) -> Run | None:
        """The last run of a layer symbol; None where it does not occur."""
        return next((run for run in reversed(self.marks) if run.kind == kind), None)

    def before(self, kind: str, others: str) -> tuple[Run, Run] | None:
        """Find a ``kind`` that stands before one of ``others``: that one, and the first ``kind``; None where there is none."""
        first = None
        for run in self.marks:
            if first is None and run.kind == kind:
                first = run
            elif first is not None and run.kind in others:
                return run, first
        return None


_ENOUGH_MARKS = 10
"""First and last of five layer symbols."""


def tally(items: tuple[Item, ...]) -> Tally:
    """Count a layout."""
    return fold(items, _join, _power)


def _join(parts: Sequence[Run | Owner | Tally]) -> Tally:
    counts: dict[str, int] = {}
    marks: list[Run] = []
    removed: list[Run | Group] = []
    for part in parts:
        if isinstance(part, Run):
            if part.count:
                counts[part.kind] = counts.get(part.kind, 0) + part.count
                if part.kind != "|":
                    marks.append(part)
            if part.repeat == 0:
                removed.append(part)
        elif isinstance(part, Tally):
            for kind, count in part.counts.items():
                counts[kind] = counts.get(kind, 0) + count
            marks += part.marks
            removed += part.removed
    return Tally(counts, _outermost(marks), tuple(removed))


def _power(part: Tally, group: Group) -> Tally:
    times = group.count
    if times == 1:
        return part
    if times == 0:
        return Tally({}, (), (group,))
    counts = {kind: count * times for kind, count in part.counts.items()}
    return Tally(counts, _outermost(part.marks * 2), part.removed)


def _outermost(marks: Iterable[Run]) -> tuple[Run, ...]:
    """Keep the first and the last run of each symbol."""
    marks = tuple(marks)
    if len(marks) <= _ENOUGH_MARKS:
        return marks
    first = {run.kind: at for at, run in reversed([*enumerate(marks)])}
    last = {run.kind: at for at, run in enumerate(marks)}
    return tuple(marks[at] for at in sorted({*first.values(), *last.values()}))
