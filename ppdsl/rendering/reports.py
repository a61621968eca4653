"""Diagnostics for a reader: rustc's manner, with carets under the text."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from ppdsl.rendering.characters import visible
from ppdsl.rendering.pages import open_page
from ppdsl.rendering.snippets import DOTS, Mark, draw_marks, view_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ppdsl.diagnostics import Diagnostic
    from ppdsl.rendering.pages import Page
    from ppdsl.source import Source

WIDTH = 100
LEAST_ROOM = 20
MOST_UNSEEN = 20
TONES = {"error": "1;31", "warning": "1;33", "info": "1;36"}
BOLD, BLUE, CYAN = "1", "1;34", "1;36"


def render_text(
    diagnostics: Iterable[Diagnostic],
    source: Source | None,
    *,
    width: int | None = None,
    color: bool = False,
    verbose: bool = True,
) -> str:
    """Render diagnostics in the order given, a blank line between two; there is no line end behind the last.

    Args:
        diagnostics: What was found.
        source: The text that the spans count in; without it no place is shown.
        width: Columns of the terminal, 100 by default. Of a longer line a window around the primary span is shown, and labels
            outside of it become notes. A window is never narrower than 20 columns.
        color: Whether to colour with ANSI escapes.
        verbose: Whether to show infos too.
    """
    page = None if source is None else open_page(source)
    wanted = (each for each in diagnostics if verbose or each.severity != "info")
    return "\n\n".join("\n".join(_report(each, page, WIDTH if width is None else width, color=color)) for each in wanted)


def render_summary(diagnostics: Iterable[Diagnostic]) -> str:
    """Sum up in one line: ``valid``, ``valid: 2 warnings`` or ``invalid: 1 error, 2 warnings``."""
    severities = [each.severity for each in diagnostics]
    errors, warnings = severities.count("error"), severities.count("warning")
    counts = [f"{count} {word}{'s' * (count > 1)}" for count, word in ((errors, "error"), (warnings, "warning")) if count]
    verdict = "invalid" if errors else "valid"
    return f"{verdict}: {', '.join(counts)}" if counts else verdict


@dataclass(frozen=True, slots=True)
class _Frame:
    """What the lines of one diagnostic share: its severity's tone, the columns of its line numbers, and whether to colour."""

    tone: str
    gutter: int
    color: bool

    def paint(self, text: str, tone: str | None) -> str:
        return f"\x1b[{tone}m{text}\x1b[0m" if self.color and tone else text

    def row(self, text: str, sign: str = "|", number: int | str = "") -> str:
        """Put a line behind the gutter."""
        return self.paint(f" {number:>{self.gutter}} {sign}", BLUE) + (text and f" {text}")

    def remark(self, head: str, text: str) -> Iterator[str]:
        """Give the lines of a note or a help; what follows the first stands under it."""
        first, *others = (visible(line) for line in text.split("\n"))
        yield self.row(f"{self.paint(head, CYAN)}: {first}", "=")
        indent = " " * (self.gutter + len("  = ") + len(f"{head}: "))
        yield from ((indent + line).rstrip(" ") for line in others)


def _report(diagnostic: Diagnostic, page: Page | None, width: int, *, color: bool) -> Iterator[str]:
    """Give the lines of one diagnostic."""
    lines = {} if page is None else _mark_lines(diagnostic, page)
    frame = _Frame(TONES[diagnostic.severity], len(str(max(lines, default=1))), color)
    title = frame.paint(f": {visible(diagnostic.message)}", BOLD)
    yield frame.paint(f"{diagnostic.severity}[{diagnostic.code}]", frame.tone) + title
    unseen: list[str] = []
    if page is not None and diagnostic.span is not None:
        line, column = page.place(page.bounds(diagnostic.span)[0])
        arrow = frame.paint(" " * frame.gutter + " -->", BLUE)
        yield f"{arrow} {visible(page.source.name)}:{line}:{column}"
        yield frame.row("")
        for number in sorted(lines):
            if number > min(lines) and number - 1 not in lines:
                yield frame.paint(DOTS, BLUE)
            rows, left_out = _snippet(page, number, lines[number], width, frame)
            yield from rows
            unseen += left_out
    if len(unseen) > MOST_UNSEEN:
        unseen[MOST_UNSEEN:] = [f"and {len(unseen) - MOST_UNSEEN} more places"]
    for note in (*unseen, *diagnostic.notes):
        yield from frame.remark("note", note)
    if diagnostic.help is not None:
        yield from frame.remark("help", diagnostic.help)


def _snippet(page: Page, number: int, marks: list[Mark], width: int, frame: _Frame) -> tuple[list[str], list[str]]:
    """Draw one line of the page with its marks; give the notes for the labels that are out of sight, too."""
    room = max(LEAST_ROOM, width - frame.gutter - len("  | "))
    view = view_line(page.text, page.line(number), marks, room)
    drawn = [view.place(mark) for mark in marks if mark is marks[0] or view.holds(mark)]
    rows = [frame.row(view.text.rstrip(" "), number=number)]
    for row in draw_marks(drawn):
        pieces = groupby(row, key=lambda cell: cell[1])
        tones = {None: None, True: frame.tone, False: BLUE}
        rows.append(frame.row("".join(frame.paint("".join(text for text, _ in group), tones[flag]) for flag, group in pieces)))
    hidden = [mark for mark in marks[1:] if not view.holds(mark)]
    return rows, ["{} at {}:{}".format(mark.label or "also", *page.place(mark.start)) for mark in hidden]


def _mark_lines(diagnostic: Diagnostic, page: Page) -> dict[int, list[Mark]]:
    """Give the marks of each line that has any, in offsets of the page; the primary mark is the very first."""
    lines: dict[int, list[Mark]] = {}
    if diagnostic.span is None:
        return lines
    spots = [(diagnostic.span, diagnostic.label), *((label.span, label.text) for label in diagnostic.labels)]
    for i, (span, text) in enumerate(spots):
        start, end = page.bounds(span)
        number, _ = page.place(start)
        stop = page.line(number)[1]
        lines.setdefault(number, []).append(Mark(min(start, stop), min(end, stop), visible(text), primary=i == 0))
    return lines
