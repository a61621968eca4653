"""What holds for every diagnostic in every text."""

from __future__ import annotations

import json
import re
from itertools import accumulate

from hypothesis import assume, given
from hypothesis import strategies as st

from ppdsl.diagnostics import Diagnostic, Label, Rule
from ppdsl.rendering import diagnostic_as_json, render_concise, render_github, render_text, sarif
from ppdsl.source import Source, Span

RULE = Rule("PP101", "error", "unknown symbol", "why", "check x", "check EL")

# Characters with what is shown for them and its columns, by hand; the two that combine take none.
SHOWN = {
    "t": ("t", 1),
    "|": ("|", 1),
    "é": ("é", 1),
    "界": ("界", 2),
    "\uff13": ("\uff13", 2),
    "\u0301": ("\u0301", 0),
    "\u20dd": ("\u20dd", 0),
    "\x1b": (r"\u{1b}", 6),
    "\u200b": (r"\u{200b}", 8),
    "\ud800": (r"\u{d800}", 8),
    "\U000e0041": (r"\u{e0041}", 9),
}
COMBINING = str.maketrans("", "", "\u0301\u20dd")

any_text = st.text(st.characters(exclude_categories=()) | st.sampled_from("Etm|*()\r\n\t\u202e\u0301界\x1b\ud800"))
any_line = st.text(st.characters(exclude_categories=()) | st.sampled_from("\t\u202e\u0301界\x1b\ud800"))


@st.composite
def spans(draw: st.DrawFn, length: int) -> Span:
    start, end = sorted((draw(st.integers(0, length)), draw(st.integers(0, length))))
    return Span(start, end)


@st.composite
def sources(draw: st.DrawFn) -> Source:
    """Give a text alone, in a straight piece of a file, or spread over one."""
    text = draw(any_text) * draw(st.sampled_from([1, 1, 9]))
    name = draw(st.sampled_from(["<layout>", "run.sh"]) | any_text)
    match draw(st.integers(0, 2)):
        case 0:
            return Source(text, name)
        case 1:
            before, after = draw(any_text), draw(any_text)
            return Source(text, name, before + text + after, range(len(before), len(before) + len(text) + 1))
        case _:
            jumps = draw(st.lists(st.integers(0, 3), min_size=len(text) + 1, max_size=len(text) + 1))
            positions = list(accumulate(jumps))
            page = draw(st.text("Et|\\\r\n界", min_size=positions[-1], max_size=positions[-1]))
            return Source(text, name, page, positions)


@st.composite
def cases(draw: st.DrawFn) -> tuple[Diagnostic, Source]:
    source = draw(sources())
    span = spans(len(source.text))
    diagnostic = Diagnostic(
        "PP101",
        draw(st.sampled_from(["error", "warning", "info"])),
        draw(any_text),
        draw(st.none() | span),
        draw(any_line),
        tuple(draw(st.lists(st.builds(Label, span, any_line), max_size=4))),
        tuple(draw(st.lists(any_text, max_size=2))),
        draw(st.none() | any_text),
        draw(st.none() | st.just("EL")),
    )
    return diagnostic, source


@given(cases(), st.none() | st.integers(-5, 200))
def test_text_is_printable_and_can_be_encoded_whatever_it_quotes(case: tuple[Diagnostic, Source], width: int | None) -> None:
    diagnostic, source = case
    text = render_text([diagnostic, diagnostic], source, width=width)
    assert all(line.isprintable() for line in text.split("\n"))
    assert text.encode()


@given(cases(), st.none() | st.integers(-5, 200))
def test_colour_adds_nothing_but_escapes(case: tuple[Diagnostic, Source], width: int | None) -> None:
    diagnostic, source = case
    colored = render_text([diagnostic], source, width=width, color=True)
    assert colored.startswith("\x1b[")
    assert re.sub(r"\x1b\[[0-9;]*m", "", colored) == render_text([diagnostic], source, width=width)


@given(cases(), st.integers(1, 3))
def test_formats_for_tools_give_one_clean_line_for_each_diagnostic(case: tuple[Diagnostic, Source], count: int) -> None:
    diagnostic, source = case
    found = [diagnostic] * count
    for text in (render_concise(found, source), render_github(found, source)):
        lines = text.split("\n")
        assert len(lines) == len(found)
        assert all(line.isprintable() for line in lines)
    assert all(line.startswith("::") for line in render_github(found, source).split("\n"))


@given(cases())
def test_json_can_be_encoded_and_read_back(case: tuple[Diagnostic, Source]) -> None:
    diagnostic, source = case
    value = diagnostic_as_json(diagnostic, source)
    assert json.loads(json.dumps(value).encode("ascii")) == value
    log = sarif([(source, [diagnostic])], [RULE], "1")
    assert json.loads(json.dumps(log, ensure_ascii=False).encode()) == log


def columns_of(row: str) -> list[str]:
    """Cut a printed row into its columns, by the table above."""
    cells = [""]
    for char in row:
        wide = SHOWN.get(char, ("", 1))[1]
        cells[-1] += char if not wide else ""
        cells += [char, *[""] * (wide - 1)] if wide else []
    return cells[1:]


@given(st.data())
def test_what_stands_over_the_carets_is_the_span(data: st.DataObject) -> None:
    text = data.draw(st.text(st.sampled_from(sorted(SHOWN)), min_size=1, max_size=30)) * data.draw(st.integers(1, 12))
    span = data.draw(spans(len(text)))
    expected = "".join(SHOWN[char][0] for char in text[span.start : span.end]).translate(COMBINING)
    assume(expected)
    width = data.draw(st.integers(25, 200))
    row, under = render_text([Diagnostic("PP1", "error", "m", span)], Source(text), width=width).split("\n")[3:]
    start, stop = under.index("^"), len(under)
    above = "".join(columns_of(row)[start:stop]).translate(COMBINING)
    assert len(columns_of(row)) <= width
    assert under == "   |" + " " * (start - 4) + "^" * (stop - start)
    if above != expected:
        assert above
        assert expected.startswith(above)
        assert "".join(columns_of(row)[stop:]).translate(COMBINING) == "..."


@given(st.data())
def test_every_label_is_shown_once_under_the_text_or_in_a_note(data: st.DataObject) -> None:
    text = data.draw(st.text("t|界\t\n\x1b", max_size=12)) * data.draw(st.integers(1, 9))
    labels = [Label(data.draw(spans(len(text))), f"label{i}") for i in range(data.draw(st.integers(0, 6)))]
    diagnostic = Diagnostic("PP1", "error", "m", data.draw(spans(len(text))), "primary", tuple(labels))
    shown = render_text([diagnostic], Source(text), width=data.draw(st.integers(10, 120)))
    for word in ("primary", *(label.text for label in labels)):
        assert shown.count(word) == 1, word
