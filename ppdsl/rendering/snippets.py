"""A line of a page with its marks: the part of it that is shown, the underlines, and the labels that hang from them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ppdsl.rendering.characters import cells, visible, width

if TYPE_CHECKING:
    from collections.abc import Sequence

TAB = 4
DOTS = "..."
Row = list[tuple[str, bool | None]]
"""The cells of a row, each with whether it belongs to a primary mark; None for a blank."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A half-open stretch of a line to underline, in offsets of the page or in columns of a view, and what is said of it."""

    start: int
    end: int
    label: str
    primary: bool


@dataclass(frozen=True, slots=True)
class View:
    """The part of a line that is shown.

    Attributes:
        start: The offset in the page of the first character that is shown.
        shown: Each character as it is shown.
        columns: The column at which each character begins, and the one behind the last.
        before: What stands for the characters that are cut off on the left.
        after: What stands for the characters that are cut off on the right.
    """

    start: int
    shown: Sequence[str]
    columns: Sequence[int]
    before: str = ""
    after: str = ""

    @property
    def text(self) -> str:
        """The line as it is printed."""
        return self.before + "".join(self.shown) + self.after

    def holds(self, mark: Mark) -> bool:
        """Tell whether any of a mark, in offsets of the page, is shown."""
        last = self.start + len(self.shown)
        if mark.start == mark.end:
            return self.start <= mark.start <= last
        return max(mark.start, self.start) < min(mark.end, last)

    def place(self, mark: Mark) -> Mark:
        """Turn a mark's offsets of the page into columns: at least one, and none but those that are shown."""
        last = len(self.shown)
        start, end = (self.columns[min(max(at - self.start, 0), last)] for at in (mark.start, mark.end))
        if start == end:
            # What only combines is drawn on the character before it, so that is where its caret goes.
            start -= mark.start < mark.end and start > len(self.before)
            end = start + 1
        return Mark(start, end, mark.label, mark.primary)


def _lay_out(text: str, start: int, stop: int) -> View:
    """Show a stretch of a page as it is."""
    shown, columns = [], [0]
    for char in text[start:stop]:
        at = columns[-1]
        piece = " " * (TAB - at % TAB) if char == "\t" else visible(char)
        shown.append(piece)
        columns.append(at + (width(piece) if len(piece) == 1 else len(piece)))
    return View(start, shown, columns)


def view_line(text: str, line: tuple[int, int], marks: Sequence[Mark], room: int) -> View:
    """Choose what to show of a line: all of it, or a window around its first mark and those others that fit.

    Only characters near the first mark are looked at, so that a long line costs no more than a short one.

    Args:
        text: The page.
        line: The half-open offsets of the line in it.
        marks: The line's marks, in offsets of the page.
        room: The columns there are, at least 20.
    """
    focus = marks[0]
    start, stop = max(line[0], focus.start - 2 * room), min(line[1], focus.start + 2 * room)
    near = _lay_out(text, start, stop)
    if (start, stop) == line and near.columns[-1] <= room:
        return near
    inner = room - 2 * len(DOTS)
    first, *others = (near.place(mark) for mark in marks)
    left, right = first.start, first.end
    for other in others:
        if max(right, other.end) - min(left, other.start) <= inner:
            left, right = min(left, other.start), max(right, other.end)
    if right - left <= inner:
        left = (left + right - inner) // 2
    left = max(0, min(left, max(near.columns[-1], right) - inner))
    return _cut(near, left, left + inner, outside=(start > line[0], stop < line[1]))


def _cut(near: View, left: int, right: int, outside: tuple[bool, bool]) -> View:
    """Keep the characters of a view that stand wholly between two columns; ``outside``: whether the line goes on on either side."""
    first, last = bisect_left(near.columns, left), bisect_right(near.columns, right) - 1
    before = DOTS if outside[0] or first > 0 else ""
    if before:  # what combines has lost the character that it belongs to
        first = bisect_right(near.columns, near.columns[first]) - 1
    after = DOTS if outside[1] or last < len(near.shown) else ""
    shift = len(before) - near.columns[first]
    return View(near.start + first, near.shown[first:last], [at + shift for at in near.columns[first : last + 1]], before, after)


def draw_marks(marks: Sequence[Mark]) -> list[Row]:
    """Draw the rows under a line, as rustc does: underlines, then the labels, from right to left, each lower than the last.

    Args:
        marks: The marks, in columns.
    """
    order = sorted(marks, key=lambda mark: (-mark.start, not mark.primary))
    hung = [(mark, depth) for mark, depth in zip(order, _depths(order), strict=True) if mark.label]
    deepest = max((depth for _, depth in hung), default=0)
    rows: list[Row] = [[] for _ in range(deepest + 2 if deepest else 1)]
    for mark in sorted(marks, key=lambda mark: (mark.start - mark.end, mark.primary)):  # the longest first, so that none is hidden
        _put(rows[0], mark.start, ("^" if mark.primary else "-") * (mark.end - mark.start), primary=mark.primary)
    for mark, depth in hung:
        for row in rows[1 : depth + 1]:
            _put(row, mark.start, "|", primary=mark.primary)
    for mark, depth in hung:
        row, column = (rows[depth + 1], mark.start) if depth else (rows[0], mark.end + 1)
        _put(row, column, mark.label, primary=mark.primary)
    return rows


def _depths(order: Sequence[Mark]) -> list[int]:
    """Give each mark, from right to left, the depth of its label: 0 is beside its underline, n hangs from n connectors.

    A label that has room beside its underline, with two columns between it and the mark before, stands in the same row.
    """
    depths, depth = [], 0
    for i, mark in enumerate(order):
        lefts = order[i + 1 :]
        if mark.label and not depth:
            depth += any(left.end > mark.start and (left.label or (left.start, left.end) != (mark.start, mark.end)) for left in lefts)
        depths.append(depth)
        depth += any(
            left.label and left.end + len(cells(left.label)) + 3 > mark.start and (mark.label or (not depth and left.end <= mark.end))
            for left in lefts
        )
    return depths


def _put(row: Row, column: int, text: str, *, primary: bool) -> None:
    """Write visible text over a row, from a column on."""
    pieces = cells(text)
    row.extend([(" ", None)] * (column + len(pieces) - len(row)))
    row[column : column + len(pieces)] = [(piece, primary) for piece in pieces]
