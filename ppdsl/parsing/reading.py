"""The Lark parser of layouts: built once, on first use, with tokens turned into run-length nodes as they are reduced."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from ppdsl.nodes import SEPARATORS, Group, Item, Owner, Run

if TYPE_CHECKING:
    import re

    from lark import Lark, Token

_BEFORE_DIGITS = "\\*@" + SEPARATORS


def count_of(token: Token) -> int:
    """Read the number of a ``* 3`` or ``@ 3`` token; the grammar bounds its digits."""
    return int(token.lstrip(_BEFORE_DIGITS))


def _split(symbols: Token) -> list[Run]:
    """Split layers and bars into runs of equal symbols."""
    start = symbols.start_pos or 0
    runs = []
    for match in _equal_symbols().finditer(symbols):
        text = match[0]
        kind = text[-1]
        runs.append(Run(kind, text.count(kind), start + match.start(), start + match.end()))  # a bar may have a backslash
    return runs


@cache
def _equal_symbols() -> re.Pattern[str]:
    import re  # noqa: PLC0415 -- the package loads it only when a layout is read

    return re.compile(r"E+|t+|m+|N+|L+|(?:\\?\|)+")


def _flatten(children: list[Item | list[Run]]) -> tuple[Item, ...]:
    items: list[Item] = []
    for child in children:
        if isinstance(child, list):
            items += child
        else:
            items.append(child)
    return tuple(items)


def _start(token: Token) -> int:
    return token.start_pos or 0


def _end(token: Token) -> int:
    return token.end_pos or 0


class _Build:
    """The callbacks that Lark runs as it reduces, one a rule; children are tokens and nodes made before."""

    @staticmethod
    def layout(children: list[Item | list[Run]]) -> tuple[Item, ...]:
        return _flatten(children)

    @staticmethod
    def symbols(children: list[Token]) -> list[Run]:
        runs = _split(children[0])
        if len(children) > 1 and runs:
            repeat, last = children[1], runs.pop()
            runs.append(Run(last.kind, last.count - 1 + count_of(repeat), last.start, _end(repeat), count_of(repeat)))
        return runs

    @staticmethod
    def owner(children: list[Token]) -> Owner:
        return Owner(count_of(children[0]), _start(children[0]), _end(children[0]))

    @staticmethod
    def group(children: list[Any]) -> Group:
        opening: Token = children[0]
        last: Token = children[-1]
        if last.type == "REPEAT":
            return Group(_flatten(children[1:-2]), count_of(last), _start(opening), _end(last))
        return Group(_flatten(children[1:-1]), None, _start(opening), _end(last))


@cache
def layout_parser() -> Lark:
    """Open the LALR parser, once a process."""
    from ppdsl_grammar.building import open_parser  # noqa: PLC0415 -- the package loads lark only when a layout is read

    return open_parser(_Build())
