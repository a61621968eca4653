"""One line with its marks: carets, labels and windows; whole texts, worked out by hand."""

from __future__ import annotations

from time import perf_counter

import pytest

from ppdsl.diagnostics import Diagnostic, Label
from ppdsl.rendering import render_text
from ppdsl.source import Source, Span

MIB = 1 << 20
DIGITS = "0123456789" * 10


def fault(start: int, end: int, label: str = "", *labels: tuple[int, int, str]) -> Diagnostic:
    return Diagnostic("PP302", "error", "wrong", Span(start, end), label, tuple(Label(Span(*span), text) for *span, text in labels))


def rows(diagnostic: Diagnostic, source: Source | str, width: int | None = None) -> list[str]:
    """What stands under the arrow and the empty row behind it."""
    source = Source(source) if isinstance(source, str) else source
    return render_text([diagnostic], source, width=width).split("\n")[3:]


@pytest.mark.parametrize(
    ("text", "at", "expected"),
    [
        ("", 0, [" 1 |", "   | ^ empty"]),
        ("EtL", 3, [" 1 | EtL", "   |    ^ empty"]),
        ("EtL", 1, [" 1 | EtL", "   |  ^ empty"]),
        ("EtL\n", 3, [" 1 | EtL", "   |    ^ empty"]),
        ("EtL\n", 4, [" 2 |", "   | ^ empty"]),
    ],
)
def test_an_empty_span_gets_one_caret(text: str, at: int, expected: list[str]) -> None:
    assert rows(fault(at, at, "empty"), text) == expected


@pytest.mark.parametrize(
    ("diagnostic", "expected"),
    [
        # one inside the other: the longer one's label hangs lower
        (fault(2, 8, "bars", (3, 4, "layer")), ["  ^-^^^^", "  ||", "  |layer", "  bars"]),
        (fault(3, 4, "layer", (2, 8, "bars")), ["  -^----", "  ||", "  |layer", "  bars"]),
        (fault(3, 4, "layer", (2, 8, "")), ["  -^----", "   |", "   layer"]),
        (fault(3, 4, "", (2, 8, "bars")), ["  -^---- bars"]),
        # half over one another
        (fault(1, 4, "left", (3, 6, "")), [" ^^^--", " |", " left"]),
        (fault(3, 6, "right", (1, 4, "left")), [" --^^^", " | |", " | right", " left"]),
        # the same place twice
        (fault(3, 6, "first", (3, 6, "second")), ["   ^^^", "   |", "   first", "   second"]),
        (fault(3, 6, "only", (3, 6, "")), ["   ^^^ only"]),
        (fault(3, 6, "", (3, 6, "only")), ["   ^^^", "   |", "   only"]),
        # side by side
        (fault(0, 1, "a", (1, 2, "b")), ["^- b", "|", "a"]),
        (fault(0, 1, "", (8, 9, "b")), ["^       - b"]),
        (fault(0, 1, "", (3, 4, "")), ["^  -"]),
        # there is room for both labels, two columns apart, or not quite
        (fault(8, 9, "b", (0, 2, "abc")), ["-- abc  ^ b"]),
        (fault(8, 9, "b", (0, 2, "abcd")), ["--      ^ b", "|", "abcd"]),
        (fault(8, 9, "d", (0, 1, "a"), (3, 4, "b"), (5, 6, "c")), ["-  - -  ^ d", "|  | |", "|  | c", "|  b", "a"]),
        (fault(8, 9, "c", (5, 6, "b"), (4, 5, ""), (0, 1, "aa")), ["-   --  ^ c", "|    |", "|    b", "aa"]),
    ],
)
def test_marks_of_one_line(diagnostic: Diagnostic, expected: list[str]) -> None:
    assert rows(diagnostic, "Et(t|)*3L") == [" 1 | Et(t|)*3L", *("   | " + row for row in expected)]


@pytest.mark.parametrize(
    ("text", "span", "shown", "under"),
    [
        ("E界t*3", (1, 2), "E界t*3", " ^^"),
        ("E界t*3", (2, 3), "E界t*3", "   ^"),
        ("t*\uff13L", (2, 3), "t*\uff13L", "  ^^"),
        ("Ee\u0301tL", (3, 4), "Ee\u0301tL", "  ^"),
        ("Ee\u0301tL", (1, 3), "Ee\u0301tL", " ^"),
        ("Ee\u0301tL", (2, 3), "Ee\u0301tL", " ^"),
        ("\u0301tL", (0, 1), "\u0301tL", "^"),
        ("한\u1161L", (2, 3), "한\u1161L", "  ^"),
        ("E\tt\tL", (1, 2), "E   t   L", " ^^^"),
        ("E\tt\tL", (4, 5), "E   t   L", "        ^"),
        ("\tE", (0, 2), "    E", "^^^^^"),
        ("Et\u202eL", (2, 3), r"Et\u{202e}L", "  ^^^^^^^^"),
        ("Et\x1b[31mL", (7, 8), r"Et\u{1b}[31mL", "            ^"),
        ("Et\u200bL", (3, 4), r"Et\u{200b}L", "          ^"),
        ("Et\xa0L", (2, 3), r"Et\u{a0}L", "  ^^^^^^"),
        ("\ud800L", (0, 1), r"\u{d800}L", "^^^^^^^^"),
        ("Et\U0010ffffL", (3, 4), r"Et\u{10ffff}L", "            ^"),
    ],
)
def test_carets_line_up_under_any_character(text: str, span: tuple[int, int], shown: str, under: str) -> None:
    assert rows(fault(*span), text) == [f" 1 | {shown}", f"   | {under}"]


def test_labels_with_wide_characters_leave_the_columns_right() -> None:
    assert rows(fault(8, 9, "b", (0, 2, "界")), "Et(t|)*3L")[1:] == ["   | -- 界   ^ b"]
    assert rows(fault(8, 9, "b", (0, 2, "界e\u0301e")), "Et(t|)*3L")[1:] == ["   | --      ^ b", "   | |", "   | 界e\u0301e"]
    assert rows(fault(8, 9, "b", (0, 2, "\u0301")), "Et(t|)*3L")[1:] == ["   | --  \u0301    ^ b"]


@pytest.mark.parametrize(
    ("diagnostic", "expected"),
    [
        (fault(50, 53, "here"), [" 1 | ...2345678901234567890...", "   |            ^^^ here"]),
        (fault(97, 100), [" 1 | ...1234567890123456789", "   |                    ^^^"]),
        (fault(100, 100), [" 1 | ...234567890123456789", "   |                      ^"]),
        (fault(2, 4), [" 1 | 0123456789012345678...", "   |   ^^"]),
        (fault(10, 90), [" 1 | ...0123456789012345678...", "   |    ^^^^^^^^^^^^^^^^^^^"]),
        (fault(95, 100, "", (0, 5, "")), [" 1 | ...1234567890123456789", "   |                  ^^^^^", "   = note: also at 1:1"]),
        (
            fault(50, 53, "here", (44, 46, "near"), (5, 6, "far"), (7, 8, "")),
            [
                " 1 | ...9012345678901234567...",
                "   |         --    ^^^ here",
                "   |         |",
                "   |         near",
                "   = note: far at 1:6",
                "   = note: also at 1:8",
            ],
        ),
        # the window holds both where it can
        (fault(50, 53, "", (40, 41, "left")), [" 1 | ...7890123456789012345...", "   |       - left    ^^^"]),
        # a mark that is cut off keeps what is in sight
        (
            fault(50, 53, "here", (58, 70, "tail")),
            [" 1 | ...2345678901234567890...", "   |            ^^^     --- tail", "   |            |", "   |            here"],
        ),
        # of the others those that fit decide, in the order given
        (
            fault(50, 53, "", (40, 42, "head"), (61, 63, "tail"), (41, 41, "in")),
            [
                " 1 | ...7890123456789012345...",
                "   |       --        ^^^",
                "   |       ||",
                "   |       |in",
                "   |       head",
                "   = note: tail at 1:62",
            ],
        ),
        (fault(50, 53, "", (34, 35, "head"), (53, 53, "end")), [" 1 | ...4567890123456789012...", "   |    - head          ^^^- end"]),
    ],
)
def test_a_long_line_is_cut_to_a_window(diagnostic: Diagnostic, expected: list[str]) -> None:
    assert rows(diagnostic, DIGITS, width=30) == expected


def test_blanks_at_the_end_of_a_line_are_not_printed() -> None:
    assert rows(fault(3, 4), "Et  ") == [" 1 | Et", "   |    ^"]


def test_a_line_that_just_fits_is_not_cut() -> None:
    assert rows(fault(0, 1), "t" * 95)[0] == " 1 | " + "t" * 95
    assert rows(fault(0, 1), "t" * 96)[0] == " 1 | " + "t" * 89 + "..."


def test_a_window_never_starts_with_half_a_character() -> None:
    wide = "界" * 50
    assert rows(fault(25, 26), wide, width=30) == [" 1 | ..." + "界" * 9 + "...", "   |            ^^"]
    combined = "e\u0301" * 50
    assert rows(fault(50, 51), combined, width=30)[0].startswith(" 1 | ...e\u0301")
    assert rows(fault(300, 301), "\u0301" * 300 + "t", width=30) == [" 1 | ...t", "   |    ^"]
    assert rows(fault(300, 301), "\u0301" * 600, width=30) == [" 1 | ......", "   |    ^"]


def test_every_line_has_a_window_of_its_own_and_a_narrow_terminal_still_shows_something() -> None:
    text = DIGITS + "\n" + DIGITS
    shown = rows(fault(50, 53, "", (198, 199, "last")), text, width=1)
    assert shown == [" 1 | ...45678901234567...", "   |          ^^^", " 2 | ...67890123456789", "   |               - last"]


def test_of_many_labels_out_of_sight_twenty_are_listed() -> None:
    text = "t" * 10_000
    labels = [(at, at + 1, "t") for at in range(5_000, 5_030)]
    shown = rows(fault(0, 1, "", *labels), text)
    assert shown[2:] == [f"   = note: t at 1:{at}" for at in range(5_001, 5_021)] + ["   = note: and 10 more places"]


@pytest.mark.parametrize("char", ["t", "界", "\u0301", "\t", "\x00"])
def test_a_line_of_a_mebibyte_takes_no_time(char: str) -> None:
    source = Source(char * MIB)
    begun = perf_counter()
    assert "^" in render_text([fault(MIB // 2, MIB // 2 + 1, "here", (0, 1, "far"))] * 20, source)
    assert perf_counter() - begun < 1


def test_many_labels_in_a_long_line_take_little_time() -> None:
    source = Source("t|" * 8_192)
    labels = [(at, at + 1, "1 layer") for at in range(0, 16_384, 2)]
    begun = perf_counter()
    assert render_text([fault(0, 16_384, "", *labels)], source).endswith("more places")
    assert perf_counter() - begun < 1
