"""Limits of a layout's text, and texts made to be slow, large or deep."""

from __future__ import annotations

import re
import sys
import tracemalloc
from time import process_time

import pytest

from ppdsl import check_layout
from ppdsl.options import Limits
from ppdsl.parsing import parse
from ppdsl.source import Span

LIMITS = Limits()
SECONDS = 2.0
"""Of processor time, for 64 KiB of any kind; they take 0.1 to 0.85 where nothing else runs and the paced loop takes ``PACE``."""
PACE = 0.06
"""Seconds of the loop by which a slower, or busier, machine is known."""
TRACED = 5.0
"""How many times slower than that a run may be that is watched for coverage."""
TRIES = 3
"""Of which the fastest counts."""

MIB = 1 << 20


def codes(text: str, limits: Limits = LIMITS) -> list[str]:
    return [diagnostic.code for diagnostic in parse(text, limits).diagnostics]


def test_a_text_at_the_limit_is_read_and_a_longer_one_is_not() -> None:
    limits = Limits(text=10)
    assert codes("E" + "t" * 8 + "L", limits) == []
    (fault,) = parse("E" + "t" * 9 + "L", limits).diagnostics
    assert (fault.code, fault.span, fault.message) == ("PP403", Span(10, 11), "layout has 11 characters, the limit is 10")


def test_groups_at_the_limit_are_read_and_deeper_ones_are_not() -> None:
    assert codes("(" * 200 + "t" + ")" * 200) == []
    (fault,) = parse("(" * 201 + "t" + ")" * 201, LIMITS).diagnostics
    assert (fault.code, fault.span) == ("PP402", Span(200, 201))
    assert codes("(t)" * 1_000) == []


TRAPS = {
    "a huge count": ("Et*1000000000L", set()),
    "a huge number of stages": ("E(t|)*999999999L", {"PP401"}),
    "sixty repeats of repeats": ("E" + "(" * 60 + "t" + "*9)" * 60 + "L", {"PP404"}),
    "sixty repeats of stages": ("E" + "(" * 60 + "t|" + ")*9" * 60 + "L", {"PP401", "PP404"}),
    "sixty repeats of two stages": ("E" + "(t|" * 60 + "m|" + ")*9" * 60 + "L", {"PP401", "PP404"}),
    "ten thousand parentheses": ("E" + "(" * 10_000 + "t" + ")" * 10_000 + "L", {"PP402"}),
    "a product of too many digits": ("Et" + "*9" * 9_000 + "L", {"PP105"}),
}


@pytest.mark.parametrize(("text", "expected"), TRAPS.values(), ids=TRAPS)
def test_a_trap_gets_its_answer_at_once_and_in_little_memory(text: str, expected: set[str]) -> None:
    check_layout("Elt")  # loads what is loaded once
    tracemalloc.start()
    try:
        begin = process_time()
        result = check_layout(text)
        seconds, (_, peak) = process_time() - begin, tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    found = {diagnostic.code for diagnostic in result.diagnostics if diagnostic.severity == "error"}
    assert found >= expected
    assert bool(found) is bool(expected)
    assert seconds < TRACED * allowed(SECONDS)  # memory is traced
    assert peak < 32 * MIB


def allowed(seconds: float) -> float:
    """Scale a bound by how fast this machine is now, and by what watching for coverage costs."""
    begin = process_time()
    assert len([(Span(match.start(), match.end()), match[0]) for match in re.finditer("[()t]", "(t)" * 15_000)]) == 45_000
    return seconds * max(1.0, (process_time() - begin) / PACE) * (1.0 if sys.gettrace() is None else TRACED)


def fill(piece: str, size: int, head: str = "", tail: str = "") -> str:
    """Repeat a piece between a head and a tail as often as fits."""
    return head + piece * ((size - len(head) - len(tail)) // len(piece)) + tail


ADVERSARIES = {
    "stages": "t|",
    "groups": "(t)",
    "repeated groups": "(t|)*3",
    "repeats": "t*3m*2",
    "two in turn": "(tm)*2",
    "spaced": "t ",
    "lines": "t|\n",
    "owned stages": "t@1|",
    "removed": "t*0",
    "removed bars": "|*0",
    "blanks": " ",
    "commas": ",",
    "stars": "*",
    "digits": "3",
    "opened": "(",
    "closed": ")",
    "empty groups": "()",
    "unclosed by turns": "(t*3)(",
    "missing counts": "t*",
    "split numbers": "t*1,0",
    "digits apart": "1,",
    "counts first": "3*",
    "counts before groups": "3*(",
    "repeats first": "*3",
    "repeats of repeats": "t*2*3",
    "other digits": "t*\u0663",
    "strange": "?",
    "strange by turns": "?!",
    "strange repeats": "tx3",
    "crosses": "\u00d73",
    "brackets": "[",
    "words": "abc|",
    "lone surrogates": "\ud800",
    "astral": "\U0001f642",
    "owners": "@1",
    "owners twice": "t@1",
    "no ranks": "@",
    "quotes": "'",
    "backslashes": "\\",
    "removed from afar": "t *0",
    "removed groups": "((t)*0)*0",
    "hybrid": "M-",
}
SURROUNDINGS = {"alone": ("", ""), "in deep groups": ("E" + "(t" * 90, ")*2" * 90 + "L"), "in a repeated group": ("'E(", ")*9L'")}


@pytest.mark.parametrize("piece", ADVERSARIES.values(), ids=ADVERSARIES)
@pytest.mark.parametrize(("head", "tail"), SURROUNDINGS.values(), ids=SURROUNDINGS)
def test_a_text_of_any_kind_is_answered_in_time_that_grows_with_its_length(piece: str, head: str, tail: str) -> None:
    # 8 KiB here and 64 KiB below; of so short a text two remedies are checked too.
    _answer_in_time(fill(piece, LIMITS.text // 8, head, tail), SECONDS / 2)


@pytest.mark.slow
@pytest.mark.parametrize("piece", ADVERSARIES.values(), ids=ADVERSARIES)
@pytest.mark.parametrize(("head", "tail"), SURROUNDINGS.values(), ids=SURROUNDINGS)
def test_64_kib_of_any_kind_are_answered_in_about_a_second(piece: str, head: str, tail: str) -> None:
    _answer_in_time(fill(piece, LIMITS.text, head, tail), SECONDS)


@pytest.mark.parametrize("name", ["groups", "repeated groups", "two in turn", "owned stages", "owners twice", "removed groups"])
def test_64_kib_of_the_worst_kinds_are_answered_in_about_a_second(name: str) -> None:
    _answer_in_time(fill(ADVERSARIES[name], LIMITS.text), SECONDS)


def _answer_in_time(text: str, most: float) -> None:
    check_layout("Elt")  # loads what is loaded once
    assert any(_time_answer(text) < allowed(most) for _ in range(TRIES))


def _time_answer(text: str) -> float:
    begin = process_time()
    result = check_layout(text, pp=4, num_layers=61)
    seconds = process_time() - begin
    assert len(result.diagnostics) <= 200
    assert all(len(diagnostic.message) < 200 for diagnostic in result.diagnostics)
    return seconds


@pytest.mark.parametrize("name", ["stages", "groups", "strange by turns", "removed groups"])
def test_64_kib_take_little_memory(name: str) -> None:
    text = fill(ADVERSARIES[name], LIMITS.text)
    parse("Et*3x", LIMITS)  # loads what is loaded once
    tracemalloc.start()
    try:
        parse(text, LIMITS)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 64 * MIB


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["stages", "repeated groups", "two in turn", "strange by turns", "owners twice", "opened", "removed groups"]
)
def test_a_mebibyte_is_answered_in_seconds_when_the_limit_is_raised(name: str) -> None:
    limits = Limits(text=MIB)
    begin = process_time()
    check_layout(fill(ADVERSARIES[name], MIB), pp=4, limits=limits)
    assert process_time() - begin < allowed(25 * SECONDS)
