"""Diagnostics as a reader sees them: whole texts, worked out by hand."""

from __future__ import annotations

import pytest

from ppdsl.diagnostics import Diagnostic, Label, LayoutError, Severity
from ppdsl.rendering import render_summary, render_text
from ppdsl.source import Source, Span


def fault(start: int, end: int, label: str = "", *labels: tuple[int, int, str]) -> Diagnostic:
    return Diagnostic("PP302", "error", "wrong", Span(start, end), label, tuple(Label(Span(*span), text) for *span, text in labels))


def rows(diagnostic: Diagnostic, source: Source | str, width: int | None = None) -> list[str]:
    """What stands under the arrow and the empty row behind it."""
    source = Source(source) if isinstance(source, str) else source
    return render_text([diagnostic], source, width=width).split("\n")[3:]


def test_the_example_of_the_reference() -> None:
    diagnostic = Diagnostic(
        "PP302",
        "error",
        "layout has 12 decoder layers, --num-layers says 13",
        Span(10, 13),
        "6 layers",
        (Label(Span(1, 4), "3 layers"), Label(Span(6, 9), "3 layers")),
        help="`t*4` in stage 2 gives 13: Et*3||t*4|t*6NL",
        fix="Et*3||t*4|t*6NL",
    )
    source = Source("Et*3||t*3|t*6NL")
    expected = """\
error[PP302]: layout has 12 decoder layers, --num-layers says 13
  --> <layout>:1:11
   |
 1 | Et*3||t*3|t*6NL
   |  ---  --- ^^^ 6 layers
   |  |    |
   |  |    3 layers
   |  3 layers
   = help: `t*4` in stage 2 gives 13: Et*3||t*4|t*6NL"""
    assert render_text([diagnostic], source) == expected
    assert str(LayoutError([diagnostic], source)) == expected


def test_several_diagnostics_stand_in_the_order_given_a_blank_line_apart() -> None:
    found = [
        Diagnostic("PP606", "warning", "`*0` removes what it repeats", Span(1, 4), "removed"),
        Diagnostic("PP110", "error", "no item is written"),
        Diagnostic("PP603", "info", "vpp was not stated", notes=("4 stages over 2 ranks imply vpp = 2", "so be it"), help="--vpp 2"),
    ]
    source = Source("Et*0L", "jobs/run.sh")
    text = """\
warning[PP606]: `*0` removes what it repeats
  --> jobs/run.sh:1:2
   |
 1 | Et*0L
   |  ^^^ removed

error[PP110]: no item is written"""
    info = """

info[PP603]: vpp was not stated
   = note: 4 stages over 2 ranks imply vpp = 2
   = note: so be it
   = help: --vpp 2"""
    assert render_text(found, source, verbose=False) == text
    assert render_text(found, source) == text + info
    assert render_text(found[2:], source, verbose=False) == ""
    assert render_text([], source) == ""


def test_without_a_source_no_place_is_shown() -> None:
    assert render_text([fault(1, 2, "here", (0, 1, "there"))], None) == "error[PP302]: wrong"


def test_what_follows_in_a_remark_stands_under_its_first_line() -> None:
    found = Diagnostic("PP301", "error", "wrong", notes=("first\nsecond",), help="one of\n  Et|tL\n\nEt|t|tL")
    expected = """\
error[PP301]: wrong
   = note: first
           second
   = help: one of
             Et|tL

           Et|t|tL"""
    assert render_text([found], None) == expected


def test_a_span_over_several_lines_is_shown_to_the_end_of_its_first() -> None:
    text = "Et|\nt*3\n|tL"
    assert rows(fault(1, 9, "here"), text) == [" 1 | Et|", "   |  ^^ here"]
    assert rows(fault(3, 9, "here"), text) == [" 1 | Et|", "   |    ^ here"]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_labels_on_other_lines_get_lines_of_their_own(end: str) -> None:
    text = end.join(["E", "t*1", "t*2", "", "t*4", "tL"])
    one, two, four = (text.index(unit) for unit in ("t*1", "t*2", "t*4"))
    diagnostic = fault(two, two + 3, "too many", (one, one + 3, "one"), (four, four + 1, "four"), (four + 2, four + 3, ""))
    assert render_text([diagnostic], Source(text)).split("\n") == [
        "error[PP302]: wrong",
        "  --> <layout>:3:1",
        "   |",
        " 2 | t*1",
        "   | --- one",
        " 3 | t*2",
        "   | ^^^ too many",
        "...",
        " 5 | t*4",
        "   | - -",
        "   | |",
        "   | four",
    ]


def test_the_gutter_is_as_wide_as_the_largest_number() -> None:
    text = "\n" * 7 + "E\nt\nx\nL"
    one_digit = """\
error[PP302]: wrong
  --> <layout>:9:1
   |
 8 | E
   | - E
 9 | t
   | ^ no"""
    two_digits = """\
error[PP302]: wrong
   --> <layout>:10:1
    |
  8 | E
    | -
  9 | t
    | - t
 10 | x
    | ^ no"""
    assert render_text([fault(9, 10, "no", (7, 8, "E"))], Source(text)) == one_digit
    assert render_text([fault(11, 12, "no", (9, 10, "t"), (7, 8, ""))], Source(text)) == two_digits


def test_nothing_drives_the_terminal() -> None:
    bad = "\x1b[2J\r\n\u2066\ud800"
    diagnostic = Diagnostic("PP101", "error", bad, Span(0, 1), bad, (Label(Span(1, 2), bad),), (bad,), bad)
    shown = r"\u{1b}[2J\u{d}\u{a}\u{2066}\u{d800}"
    assert render_text([diagnostic], Source("ab", bad)).split("\n") == [
        f"error[PP101]: {shown}",
        f"  --> {shown}:1:1",
        "   |",
        " 1 | ab",
        f"   | ^- {shown}",
        "   | |",
        f"   | {shown}",
        r"   = note: \u{1b}[2J\u{d}",
        r"           \u{2066}\u{d800}",
        r"   = help: \u{1b}[2J\u{d}",
        r"           \u{2066}\u{d800}",
    ]


def test_carets_stand_in_the_lines_of_the_file() -> None:
    file_text = "torchrun \\\n  --layout 'EtxtL' \\\n  train.py\n"
    at = file_text.index("E")
    source = Source("EtxtL", "run.sh", file_text, range(at, at + 6))
    assert render_text([fault(2, 3, "unknown", (5, 5, "end"))], source).split("\n")[1:] == [
        "  --> run.sh:2:15",
        "   |",
        " 2 |   --layout 'EtxtL' \\",
        "   |               ^  - end",
        "   |               |",
        "   |               unknown",
    ]


def test_carets_span_what_the_text_has_left_out_of_the_file() -> None:
    escaped = Source("Et|tL", "run.sh", "--layout=Et\\|tL\n", [9, 10, 12, 13, 14, 15])
    assert rows(fault(0, 3), escaped) == [" 1 | --layout=Et\\|tL", "   |          ^^^^"]
    assert rows(fault(1, 2), escaped)[1:] == ["   |           ^"]
    continued = Source("Et|tL", "run.sh", "Et|\\\ntL", [0, 1, 2, 5, 6, 7])
    assert rows(fault(2, 4, "", (4, 5, "L")), continued) == [" 1 | Et|\\", "   |   ^^", " 2 | tL", "   |  - L"]


def test_colours_are_those_of_rustc() -> None:
    diagnostic = Diagnostic("PP302", "error", "wrong", Span(1, 2), "here", (Label(Span(0, 1), "E"),), ("so",), "do")
    expected = """\
{red}error[PP302]{off}{bold}: wrong{off}
{blue}  -->{off} <layout>:1:2
{blue}   |{off}
{blue} 1 |{off} EtL
{blue}   |{off} {blue}-{off}{red}^{off} {red}here{off}
{blue}   |{off} {blue}|{off}
{blue}   |{off} {blue}E{off}
{blue}   ={off} {cyan}note{off}: so
{blue}   ={off} {cyan}help{off}: do"""
    codes = {"red": "\x1b[1;31m", "blue": "\x1b[1;34m", "cyan": "\x1b[1;36m", "bold": "\x1b[1m", "off": "\x1b[0m"}
    assert render_text([diagnostic], Source("EtL"), color=True) == expected.format(**codes)


@pytest.mark.parametrize(("severity", "code"), [("error", "1;31"), ("warning", "1;33"), ("info", "1;36")])
def test_each_severity_has_its_colour(severity: Severity, code: str) -> None:
    assert render_text([Diagnostic("PP1", severity, "m")], None, color=True) == f"\x1b[{code}m{severity}[PP1]\x1b[0m\x1b[1m: m\x1b[0m"


@pytest.mark.parametrize(
    ("severities", "expected"),
    [
        ([], "valid"),
        (["info"], "valid"),
        (["warning", "info"], "valid: 1 warning"),
        (["warning", "warning"], "valid: 2 warnings"),
        (["error"], "invalid: 1 error"),
        (["error", "warning", "error", "warning", "info"], "invalid: 2 errors, 2 warnings"),
    ],
)
def test_the_summary_counts_errors_and_warnings(severities: list[Severity], expected: str) -> None:
    assert render_summary(Diagnostic("PP1", severity, "m") for severity in severities) == expected
