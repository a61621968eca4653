"""Listing the stages of a layout in run-length form, each distinct stage with the place where it is written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from ppdsl.nodes import Group, Item, Owner, Run, fold
from ppdsl.source import Span

if TYPE_CHECKING:
    from collections.abc import Sequence

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

    @property
    def content(self) -> tuple[tuple[tuple[str, int], ...], int | None]:
        """What two stages must share to be equal."""
        return self.runs, self.owner


Piece: TypeAlias = Run | Owner


class TooManyError(Exception):
    """The layout has more stages, or more pieces in a stage, than may be listed."""


class _Stretch:
    """Items in a row: the part of a stage before the first bar, whole stages, and the part after the last bar."""

    __slots__ = ("first_bar", "head", "last_bar", "stages", "tail")

    def __init__(self, head: list[Piece], stages: list[tuple[int, int]], tail: list[Piece], first_bar: Run | None, last_bar: Run | None) -> None:
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
        whole = fold(items, self._leaf, self._join, self._power)
        order: list[tuple[int, int]] = []
        if whole.first_bar is None:
            self._extend(order, [(self._stage(whole.head, None, None), 1)])
            return order
        self._extend(order, [(self._stage(whole.head, None, whole.first_bar), 1)])
        self._extend(order, whole.stages)
        self._extend(order, [(self._stage(whole.tail, whole.last_bar, None), 1)])
        return order

    def _leaf(self, item: Piece) -> _Stretch:
        if not isinstance(item, Run) or item.kind != "|":
            return _Stretch([item], [], [], None, None)
        if item.count == 0:
            return _Stretch([], [], [], None, None)
        inner = [(self._stage([], item, item), item.count - 1)] if item.count > 1 else []
        return _Stretch([], inner, [], item, item)

    def _join(self, parts: list[_Stretch]) -> _Stretch:
        if len(parts) == 1:
            return parts[0]
        whole = _Stretch([], [], [], None, None)
        for part in parts:
            if whole.first_bar is None:
                whole.head += part.head
                whole.stages, whole.tail = part.stages, part.tail
                whole.first_bar, whole.last_bar = part.first_bar, part.last_bar
            elif part.first_bar is None:
                whole.tail += part.head
            else:
                self._extend(whole.stages, [(self._stage(whole.tail + part.head, whole.last_bar, part.first_bar), 1)])
                self._extend(whole.stages, part.stages)
                whole.tail, whole.last_bar = part.tail, part.last_bar
        return whole

    def _power(self, part: _Stretch, group: Group) -> _Stretch:
        times = group.count
        if times == 0:
            return _Stretch([], [], [], None, None)
        if times == 1:
            return part
        if part.first_bar is None:
            return _Stretch(self._repeat_pieces(part.head, group, times), [], [], None, None)
        cycle = [*part.stages]
        self._extend(cycle, [(self._stage(part.tail + part.head, part.last_bar, part.first_bar), 1)])
        if len(cycle) == 1:
            stages = [(cycle[0][0], cycle[0][1] * (times - 1))]
        elif len(cycle) * times > self._most_runs:
            raise TooManyError
        else:
            stages = cycle * (times - 1)
        self._extend(stages, part.stages)
        return _Stretch([*part.head], stages, part.tail, part.first_bar, part.last_bar)

    def _repeat_pieces(self, pieces: list[Piece], group: Group, times: int) -> list[Piece]:
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

    def _extend(self, order: list[tuple[int, int]], more: Sequence[tuple[int, int]]) -> None:
        """Append runs of stages; where the first continues the last with equal stages, the two become one."""
        if order and more:
            (before, count), (after, further) = order[-1], more[0]
            if before == after or self.stages[before].content == self.stages[after].content:
                order[-1] = (before, count + further)
                more = more[1:]
        order += more
        if len(order) > self._most_runs:
            raise TooManyError

    def _stage(self, pieces: list[Piece], opening: Run | None, closing: Run | None) -> int:
        """Make a stage and give its index."""
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
        return len(self.stages) - 1


def _place(pieces: list[Piece], opening: Run | None, closing: Run | None) -> Span:
    if pieces:
        start, end = pieces[0].start, pieces[-1].end
        return Span(start, end) if start < end else pieces[0].span
    around = [bar for bar in (opening, closing) if bar is not None]
    if not around:
        return Span(0, 0)
    start, end = around[0].start, around[-1].end
    return Span(start, end) if start < end else around[-1].span
