"""Diagnostics for other programs: one line each, GitHub's workflow commands, and JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ppdsl.rendering.characters import visible
from ppdsl.rendering.pages import is_file, open_page

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ppdsl.diagnostics import Diagnostic
    from ppdsl.rendering.pages import Page
    from ppdsl.source import Source, Span

COMMANDS = {"error": "error", "warning": "warning", "info": "notice"}


def render_concise(diagnostics: Iterable[Diagnostic], source: Source | None) -> str:
    """Render each diagnostic as ``name:line:col: error[PP302]: message``, with less in front where there is no span or no source."""
    page = None if source is None else open_page(source)
    lines = []
    for diagnostic in diagnostics:
        place: list[object] = []
        if page is not None:
            place.append(visible(page.source.name))
            if diagnostic.span is not None:
                place += page.place(page.bounds(diagnostic.span)[0])
        head = "".join(f"{part}:" for part in place) + " " * bool(place)
        lines.append(f"{head}{diagnostic.severity}[{diagnostic.code}]: {visible(diagnostic.message)}")
    return "\n".join(lines)


def render_github(diagnostics: Iterable[Diagnostic], source: Source | None) -> str:
    """Render each diagnostic as a workflow command of GitHub, which makes it an annotation of the line in a pull request.

    Columns count from 1, and ``endColumn`` is the one behind the last character. They are given only within one line, since
    GitHub refuses them otherwise.
    """
    page = None if source is None else open_page(source)
    lines = []
    for diagnostic in diagnostics:
        properties = {**_annotated(diagnostic, page), "title": diagnostic.code}
        listed = ",".join(f"{key}={_percent(str(value), ':,')}" for key, value in properties.items())
        lines.append(f"::{COMMANDS[diagnostic.severity]} {listed}::{_percent(diagnostic.message)}")
    return "\n".join(lines)


def _annotated(diagnostic: Diagnostic, page: Page | None) -> dict[str, object]:
    """Give the properties of an annotation that say where it is."""
    if page is None:
        return {}
    properties: dict[str, object] = {"file": page.source.name} if is_file(page.source) else {}
    if diagnostic.span is not None:
        (line, column), (end_line, end_column) = (page.place(at) for at in page.bounds(diagnostic.span))
        properties |= {"line": line, "endLine": end_line}
        if line == end_line:
            properties |= {"col": column, "endColumn": end_column}
    return properties


def _percent(text: str, others: str = "") -> str:
    """Escape a command's data, or with ``others`` a property of it, so that no text can end it or begin another."""
    escaped = {char: f"%{ord(char):02X}" for char in "%\r\n" + others}
    return "".join(escaped.get(char) or visible(char) for char in text)


def diagnostic_as_json(diagnostic: Diagnostic, source: Source | None) -> dict[str, object]:
    """Give a diagnostic as JSON's own types.

    Spans count in the source's text, lines and columns in its page. Strings are as they were given, lone surrogates included:
    print them with ``json.dumps`` and its default of ASCII.
    """
    page = None if source is None else open_page(source)
    return {
        "code": diagnostic.code,
        "severity": diagnostic.severity,
        "message": diagnostic.message,
        "span": _span_as_json(diagnostic.span, page),
        "label": diagnostic.label,
        "labels": [{"span": _span_as_json(label.span, page), "text": label.text} for label in diagnostic.labels],
        "notes": list(diagnostic.notes),
        "help": diagnostic.help,
        "fix": diagnostic.fix,
    }


def _span_as_json(span: Span | None, page: Page | None) -> dict[str, int] | None:
    if span is None or page is None:
        return None
    line, column = page.place(page.bounds(span)[0])
    return {"start": span.start, "end": span.end, "line": line, "column": column}
