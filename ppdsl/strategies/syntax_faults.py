"""What breaks the syntax of a layout: each takes the tokens of a valid one, and gives those of one with a certain fault."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Callable

Tokens = list[str]

_SYMBOLS = "EtmNL|"
_STRANGE = st.characters(exclude_categories=["Cs", "Nd"], exclude_characters="EtmNL|()*,@ \t\r\n\\'\"")
_BAD_COUNTS = ("", "\u0663", "\uff13", "1\u0663", "1234567890123", "-1", "*3")


def _insert(tokens: Tokens, at: int, *more: str) -> Tokens:
    return [*tokens[:at], *more, *tokens[at:]]


def _before_unit(draw: st.DrawFn, tokens: Tokens) -> int:
    """Choose an index at which a unit begins."""
    return draw(st.sampled_from([at for at, token in enumerate(tokens) if token in (*_SYMBOLS, "(")]))


def _behind_symbol(draw: st.DrawFn, tokens: Tokens) -> int:
    """Choose an index right behind a symbol, so that what is inserted there belongs to it."""
    return draw(st.sampled_from([at for at, token in enumerate(tokens, 1) if token in _SYMBOLS]))


def _with_repeat(draw: st.DrawFn, tokens: Tokens) -> tuple[Tokens, int]:
    """Choose a symbol, and see to it that it is repeated; give the index of its count."""
    at = _behind_symbol(draw, tokens)
    return (tokens if tokens[at : at + 1] == ["*"] else _insert(tokens, at, "*", "1")), at + 1


def _unknown_symbol(draw: st.DrawFn, tokens: Tokens) -> Tokens:
    return _insert(tokens, _before_unit(draw, tokens), draw(_STRANGE))


def _no_symbol(draw: st.DrawFn, tokens: Tokens) -> Tokens:
    number = str(draw(st.integers(0, 99)))
    if draw(st.booleans()):
        return _insert(tokens, 0, *draw(st.sampled_from(((number,), (number, "*"), ("*",), ("*", number)))))
    places = [at for at, token in enumerate(tokens, 1) if token in _SYMBOLS and tokens[at : at + 1] != ["*"]]
    return _insert(tokens, draw(st.sampled_from([0, *places])), number)


def _unclosed(draw: st.DrawFn, tokens: Tokens) -> Tokens:
    return _insert(tokens, _before_unit(draw, tokens), "(")


def _unopened(draw: st.DrawFn, tokens: Tokens) -> Tokens:
    return _insert(tokens, draw(st.sampled_from([_behind_symbol(draw, tokens), len(tokens)])), ")")


def _repeated_repeat(draw: st.DrawFn, tokens: Tokens) -> Tokens:
    tokens, at = _with_repeat(draw, tokens)
    return _insert(tokens, at + 1, "*", str(draw(st.integers(0, 99))))


def _bad_count(draw: st.DrawFn, tokens: Tokens) -> Tokens:
    tokens, at = _with_repeat(draw, tokens)
    return [*tokens[:at], draw(st.sampled_from(_BAD_COUNTS)) or ",", *tokens[at + 1 :]]


def _split_number(draw: st.DrawFn, tokens: Tokens) -> Tokens:
    tokens, at = _with_repeat(draw, tokens)
    gap = draw(st.sampled_from((",", " ", ", ", "\n")))
    return _insert(tokens, at + 1, gap + str(draw(st.integers(0, 99))))


def _empty_group(draw: st.DrawFn, tokens: Tokens) -> Tokens:
    more = draw(st.sampled_from((("(", ")"), ("(", ")", "*", "2"), ("(", ")", "*", "0"), ("(", "(", ")", ")"))))
    return _insert(tokens, _before_unit(draw, tokens), *more)


def _misplaced_owner(draw: st.DrawFn, tokens: Tokens) -> Tokens:
    rank = str(draw(st.integers(0, 9)))
    if "@" in tokens:
        at = draw(st.sampled_from([at for at, token in enumerate(tokens) if token == "@"]))  # noqa: S105 -- a token of the language
        return _insert(tokens, at + 2, *draw(st.sampled_from((("t",), ("@", rank)))))
    return _insert(tokens, 0, "@", rank)


def _bad_removal(draw: st.DrawFn, tokens: Tokens) -> Tokens:
    if draw(st.booleans()):
        return _insert(tokens, _before_unit(draw, tokens), "(", "(", "t", ")", "*", "2", ")", "*", "0")
    gap = draw(st.sampled_from((" ", "\t", "\r\n", " ,", "\\", ", ")))
    return _insert(tokens, _before_unit(draw, tokens), f"t{gap}*0")


def _too_many_stages(draw: st.DrawFn, tokens: Tokens) -> Tokens:
    return _insert(tokens, _before_unit(draw, tokens), "|", "*", str(draw(st.integers(1_048_576, 999_999_999_999))))


def _too_deep(draw: st.DrawFn, tokens: Tokens) -> Tokens:
    return _insert(tokens, _before_unit(draw, tokens), *"(" * 201, "t", *")" * 201)


def _too_long(draw: st.DrawFn, tokens: Tokens) -> Tokens:
    return _insert(tokens, _before_unit(draw, tokens), draw(st.sampled_from((",", " ", "t"))) * 65_537)


def _too_many_layers(draw: st.DrawFn, tokens: Tokens) -> Tokens:
    kind = draw(st.sampled_from("EtmNL"))
    return _insert(tokens, _before_unit(draw, tokens), "(", kind, "*", "999999999999", ")", "*", "2")


SYNTAX_FAULTS: dict[str, Callable[[st.DrawFn, Tokens], Tokens]] = {
    "PP101": _unknown_symbol,
    "PP102": _no_symbol,
    "PP103": _unclosed,
    "PP104": _unopened,
    "PP105": _repeated_repeat,
    "PP106": _bad_count,
    "PP107": _split_number,
    "PP108": _empty_group,
    "PP109": _misplaced_owner,
    "PP112": _bad_removal,
    "PP401": _too_many_stages,
    "PP402": _too_deep,
    "PP403": _too_long,
    "PP404": _too_many_layers,
}

_HYBRID_LETTERS = "MGD+-/"

WHOLE_TEXTS: dict[str, st.SearchStrategy[str]] = {
    "PP110": st.builds("{0}{1}{0}".format, st.sampled_from(("", "'", '"')), st.text(", \t\r\n", max_size=9)),
    "PP111": st.builds("{}{}{}".format, *[st.text(_HYBRID_LETTERS + "*E|", max_size=9)] * 2, st.sampled_from(_HYBRID_LETTERS)),
}
"""The codes of faults that a whole text has, and such texts."""
