"""Texts that are no layout, or are one by chance: for parsers that must not fall over."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.extra.lark import from_lark

from ppdsl_grammar.building import build_parser

ALPHABET = "EtmNL|()*,@0123456789 \t\r\n"
"""The characters of the language."""

_WORDS = (*ALPHABET, *"\\'", "tt", "t|", "|E", "L|", "(t|)*3", "(tt|)*2", "|*2", "*2", "*3", "*0", ")*2", ")*0", "((", "))", "@0", "@1")
_SYMBOLS = ("t", "|", "E", "m", "N", "L", "\\|")
_GAPS = ("", "", "", "", ",", " ", ", ", "\n", "\t", "\r\n")


def alphabet_texts(*, max_size: int = 40, max_digits: int = 12) -> st.SearchStrategy[str]:
    """Draw raw text over the alphabet of the language, and rows of its usual pieces. Most of it is no layout.

    A parser that expands repeats should be given no more than two or three digits.

    Args:
        max_size: How many characters, or pieces, a text has at most.
        max_digits: How many digits stand in a row at most.
    """
    texts = st.one_of(
        st.text(ALPHABET, max_size=max_size),
        st.lists(st.sampled_from(_WORDS), max_size=max_size // 2).map("".join),
    )
    return texts.map(lambda text: _cut_numbers(text, max_digits))


def _cut_numbers(text: str, most: int) -> str:
    """Leave out the digits behind the first few of each number, whatever commas stand between them."""
    kept: list[str] = []
    digits = 0
    for char in text:
        if char.isdigit():
            digits += 1
        elif char != ",":
            digits = 0
        if digits <= most or not char.isdigit():
            kept.append(char)
    return "".join(kept)


def grammar_texts(*, max_count: int = 9) -> st.SearchStrategy[str]:
    """Draw text that the grammar file accepts, by ``hypothesis.extra.lark``.

    Not every one is a layout: two rules stand outside the grammar (PP109 on owners and PP112 on ``*0``), and the empty text is none.

    Args:
        max_count: The largest repeat count and the largest rank.
    """
    gaps, numbers = st.sampled_from(_GAPS), st.integers(0, max_count)
    explicit = {
        "SEPARATORS": gaps,
        "SYMBOLS": st.lists(st.sampled_from(_SYMBOLS), min_size=1, max_size=6).map("".join),
        "REPEAT": st.builds("{}*{}{}".format, st.sampled_from(("", "", "\\")), gaps, numbers),
        "OWNER": st.builds("@{}{}".format, gaps, numbers),
    }
    return from_lark(build_parser(), start="layout", explicit=explicit)
