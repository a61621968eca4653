"""The lines of a source's page, found once for all diagnostics in it."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ppdsl.source import Source, Span


@dataclass(frozen=True, slots=True)
class Page:
    """The text whose lines a reader sees.

    Attributes:
        source: What the spans count in.
        text: The source's page.
        starts: The offset in ``text`` at which each line begins.
    """

    source: Source
    text: str
    starts: Sequence[int]

    def bounds(self, span: Span) -> tuple[int, int]:
        """Map a span of the source to half-open offsets of the page."""
        start = self.source.position(span.start)
        return start, start if span.end == span.start else self.source.position(span.end - 1) + 1

    def place(self, at: int) -> tuple[int, int]:
        """Give the line and column, both counted from 1, of an offset of the page."""
        line = bisect_right(self.starts, at)
        return line, at - self.starts[line - 1] + 1

    def line(self, number: int) -> tuple[int, int]:
        """Give the half-open offsets of a line, counted from 1, without its line end."""
        start = self.starts[number - 1]
        stop = self.starts[number] if number < len(self.starts) else len(self.text)
        if self.text.endswith("\n", start, stop):
            stop -= 1
        if self.text.endswith("\r", start, stop):
            stop -= 1
        return start, stop


def open_page(source: Source) -> Page:
    """Find the lines of a source's page."""
    return Page(source, source.page, source.line_starts())


def is_file(source: Source) -> bool:
    """Tell whether a source's name is a path, and not one like ``<layout>`` or ``<stdin>``."""
    return bool(source.name) and not (source.name.startswith("<") and source.name.endswith(">"))
