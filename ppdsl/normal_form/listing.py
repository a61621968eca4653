"""Listing the stages of a layout in run-length form, each distinct stage with the place where it is written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from ppdsl.nodes import Group, Item, Owner, Run, fold
from ppdsl.source import Span

MOST_PIECES = 65_536
"""Pieces that repeats inside one stage may be written out to. More of them are two or more symbols in turn, which no rule allows."""


@dataclass(frozen=True, slots=True)
class Stage:
    """What stands between two bars.

    Attributes:
        runs: Its layers in order, as (symbol, count); neighbours differ and no count is 0.
        owner: The rank written with ``@``; None where none is.
        pieces: The runs of the text that it is made of.
        span: Where it is written; an empty stage is shown by its bars.
    """

    runs: tuple[tuple[str, int], ...]
    owner: int | None
    pieces: tuple[Run, ...]
    span: Span

    def count(self, kind: str) -> int:
        """How many layers of a kind it holds."""
        total = 0
        for symbol, count in self.runs:
            if symbol == kind:
                total += count
        return total


Piece: TypeAlias = Run | Owner


class TooManyError(Exception):
    """The layout has more stages, or more pieces in a stage, than may be listed."""


class _Stretch:
    """Items in a row: the part of a stage before the first bar, whole stages, and the part after the last bar."""

    __slots__ = ("first_bar", "head", "last_bar", "stages", "tail")

    def __init__(
        self, head: list[Piece], stages: list[tuple[int, int]], tail: list[Piece], first_bar: Run | None, last_bar: Run | None
    ) -> None:
        self.head = head
        self.stages = stages
        self.tail = tail
        self.first_bar = first_bar
        self.last_bar = last_bar


class Listing:
    """The fold that lists stages.

    Attributes:
        stages: Each distinct place where a stage is written, in no order.
        most_runs: How many runs of equal stages may be listed.
    """

    def __init__(self, most_runs: int) -> None:
        self.stages: list[Stage] = []
        self._most_runs = most_runs
        self._pieces_left = MOST_PIECES

    def run(self, items: tuple[Item, ...]) -> list[tuple[int, int]]:
        """List a layout.

        Returns:
            (index into ``stages``, how many of it in a row), in forward order.

        Raises:
            TooManyError: There are more runs, or pieces, than the limits.
        """
        whole = fold(items, self._join, self._power)
        order: list[tuple[int, int]] = []
        self._append(order, self._stage(whole.head, None, whole.first_bar), 1)
        if whole.first_bar is not None:
            self._extend(order, whole.stages)
            self._append(order, self._stage(whole.tail, whole.last_bar, None), 1)
        return order

    def _join(self, parts: list[Piece | _Stretch]) -> _Stretch:
        if len(parts) == 1 and isinstance(parts[0], _Stretch):
            return parts[0]
        whole = _Stretch([], [], [], None, None)
        pieces = whole.head  # those of the stage that is open: the head until the first bar, then the tail
        for part in parts:
            if isinstance(part, _Stretch):
                pieces += part.head
                if part.first_bar is not None:
                    self._close(whole, part.first_bar)
                    self._extend(whole.stages, part.stages)
                    pieces = whole.tail = [*part.tail]
                    whole.last_bar = part.last_bar
            elif isinstance(part, Owner) or part.kind != "|":
                pieces.append(part)
            elif part.count:
                self._close(whole, part)
                if part.count > 1:
                    self._append(whole.stages, self._stage([], part, part), part.count - 1)
                pieces = whole.tail = []
                whole.last_bar = part
        return whole

    def _close(self, whole: _Stretch, bar: Run) -> None:
        """End the open stage with a bar."""
        if whole.first_bar is None:
            whole.first_bar = bar
        else:
            self._append(whole.stages, self._stage(whole.tail, whole.last_bar, bar), 1)

    def _power(self, part: _Stretch, group: Group) -> _Stretch:
        times = group.count
        if times <= 1:
            return part
        if part.first_bar is None:
            return _Stretch(self._repeat_pieces(part.head, group, times), [], [], None, None)
        cycle = [*part.stages]
        self._append(cycle, self._stage(part.tail + part.head, part.last_bar, part.first_bar), 1)
        stages = self._repeat_stages(cycle, times - 1)
        self._extend(stages, part.stages)
        return _Stretch(part.head, stages, part.tail, part.first_bar, part.last_bar)

    def _repeat_stages(self, cycle: list[tuple[int, int]], times: int) -> list[tuple[int, int]]:
        (first, count), (last, further) = cycle[0], cycle[-1]
        if len(cycle) == 1:
            return [(first, count * times)]
        if len(cycle) * times > self._most_runs:
            raise TooManyError
        if not self._are_equal(first, last):
            return cycle * times
        seam = (last, further + count)
        return [*cycle[:-1], *[seam, *cycle[1:-1]] * (times - 1), cycle[-1]]

    def _repeat_pieces(self, pieces: list[Piece], group: Group, times: int) -> list[Piece]:
        pieces = [piece for piece in pieces if isinstance(piece, Owner) or piece.count] or pieces[:1]
        if not pieces:
            return []
        kinds = {piece.kind if isinstance(piece, Run) else "@" for piece in pieces}
        if len(kinds) == 1 and "@" not in kinds:
            count = sum(piece.count for piece in pieces if isinstance(piece, Run)) * times
            return [Run(kinds.pop(), count, group.start, group.end, group.repeat)]
        self._pieces_left -= len(pieces) * times
        if self._pieces_left < 0:
            raise TooManyError
        return pieces * times

    def _extend(self, order: list[tuple[int, int]], more: list[tuple[int, int]]) -> None:
        """Append runs of stages."""
        if more:
            self._append(order, *more[0])
            order += more[1:]
            self._bound(order)

    def _append(self, order: list[tuple[int, int]], stage: int, count: int) -> None:
        """Append a run of stages; where it continues the last with equal stages, the two become one."""
        if order:
            last, before = order[-1]
            if last == stage or self._are_equal(last, stage):
                order[-1] = (last, before + count)
                return
        order.append((stage, count))
        self._bound(order)

    def _are_equal(self, one: int, other: int) -> bool:
        first, second = self.stages[one], self.stages[other]
        return first.runs == second.runs and first.owner == second.owner

    def _bound(self, order: list[tuple[int, int]]) -> None:
        if len(order) > self._most_runs:
            raise TooManyError

    def _stage(self, pieces: list[Piece], opening: Run | None, closing: Run | None) -> int:
        """Make a stage and give its index."""
        number = len(self.stages)
        if len(pieces) == 1 and isinstance(only := pieces[0], Run) and only.count:
            # what most stages are; the rest of this function would give the same, more slowly
            self.stages.append(Stage(((only.kind, only.count),), None, (only,), Span(only.start, only.end)))
            return number
        runs: list[tuple[str, int]] = []
        owner = None
        written: list[Run] = []
        for piece in pieces:
            if isinstance(piece, Owner):
                owner = piece.rank
            elif piece.count:
                written.append(piece)
                if runs and runs[-1][0] == piece.kind:
                    runs[-1] = (piece.kind, runs[-1][1] + piece.count)
                else:
                    runs.append((piece.kind, piece.count))
        self.stages.append(Stage(tuple(runs), owner, tuple(written), _place(pieces, opening, closing)))
        return number


def _place(pieces: list[Piece], opening: Run | None, closing: Run | None) -> Span:
    """Give the place of a stage: of its layers, as far as they are written one behind the other; else of its bars."""
    shown = [piece for piece in pieces if isinstance(piece, Owner) or piece.count] or pieces[:1]
    if not shown:
        shown = [bar for bar in (opening, closing) if bar is not None]
    if not shown:
        return Span(0, 0)
    start, end = shown[0].start, shown[0].end
    for piece in shown[1:]:
        if piece.start < end:  # the stage goes on at the beginning of a group that is repeated
            break
        end = piece.end
    return Span(start, end)
