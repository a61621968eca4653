"""Where a text comes from: spans of characters, and their line and column."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence


class Span(NamedTuple):
    """A half-open range of characters ``[start, end)`` in a source's text, counted from 0."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Source:
    """A text to read, its name, and the file that it was found in.

    Attributes:
        text: What is read: one layout, or a whole file.
        name: What a diagnostic's arrow names: a path, ``<layout>`` or ``<stdin>``.
        file_text: The whole text of the file around ``text``; None when ``text`` stands alone.
        positions: For each offset of ``text`` from 0 to ``len(text)``, both included, its offset in ``file_text``. They never
            fall, but may jump: a launch file may hold escapes and line continuations that ``text`` does not.
    """

    text: str
    name: str = "<layout>"
    file_text: str | None = None
    positions: Sequence[int] | None = None

    @property
    def page(self) -> str:
        """The text whose lines a reader sees: the file's where there is one, else ``text``."""
        return self.text if self.file_text is None else self.file_text

    def position(self, offset: int) -> int:
        """Map an offset of ``text`` to an offset of ``page``."""
        return offset if self.positions is None else self.positions[offset]

    def line_starts(self) -> tuple[int, ...]:
        r"""Give the offset in ``page`` at which each line begins; lines end at ``\n``, ``\r\n`` or ``\r``."""
        return _line_starts(self.page)

    def line_column(self, offset: int) -> tuple[int, int]:
        """Give the line and column, both counted from 1, of an offset of ``text``, in ``page``."""
        at = self.position(offset)
        starts = self.line_starts()
        line = bisect_right(starts, at)
        return line, at - starts[line - 1] + 1


@lru_cache(maxsize=4)  # the layouts of one file all ask for the lines of the same page
def _line_starts(page: str) -> tuple[int, ...]:
    starts = [0]
    feed, carriage = page.find("\n"), page.find("\r")
    while feed >= 0 or carriage >= 0:
        end = min(at for at in (feed, carriage) if at >= 0)
        at = end + (2 if page.startswith("\r\n", end) else 1)
        starts.append(at)
        # Each is looked for again only behind its last find, so that the whole is linear.
        if 0 <= feed < at:
            feed = page.find("\n", at)
        if 0 <= carriage < at:
            carriage = page.find("\r", at)
    return tuple(starts)
