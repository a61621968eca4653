"""One layout, written in any of the ways in which it can be written."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import cycle
from typing import TYPE_CHECKING, Literal, TypeVar

from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Sequence

Dialect = Literal["ppdsl", "megatron"]
Option = TypeVar("Option")

_LONGEST_BLOCK = 6
_DEEPEST = 3
_QUOTES = ("", "", "'", '"', "' \"", "\"\n'", '""')
_NO_GAPS = ("",)
_COMMAS = ("", "", ",")
_BLANKS = ("", "", " ", "\n")
_ALL_GAPS = ("", "", "", ",", " ", ", ", "\t,", "\r\n")
_BYTES = st.binary(min_size=16, max_size=64)


@dataclass(frozen=True, slots=True)
class Style:
    """What a spelling may use.

    Attributes:
        dialect: ``megatron`` has neither nested groups, groups without a count, white space, quotes nor backslashes.
        removals: Whether units with ``*0`` behind them may be strewn in.
    """

    dialect: Dialect = "ppdsl"
    removals: bool = False

    @property
    def deepest(self) -> int:
        """How many groups may stand inside one another."""
        return 1 if self.dialect == "megatron" else _DEEPEST


class Choices:
    """A row of choices, drawn at once since a spelling needs hundreds; behind its end it starts anew."""

    def __init__(self, draw: st.DrawFn) -> None:
        self._bytes = cycle(draw(_BYTES))

    def pick(self, options: Sequence[Option]) -> Option:
        """Choose one of the options; the first is the simplest."""
        return options[next(self._bytes) % len(options)]


def symbols_of(stages: Sequence[str], owners: Sequence[int] | None) -> list[str]:
    """Give a layout's symbols one by one: layers, bars, and owners such as ``@3`` where they are to be written."""
    symbols: list[str] = []
    for number, stage in enumerate(stages):
        symbols += stage
        if owners is not None:
            symbols.append(f"@{owners[number]}")
        symbols.append("|")
    return symbols[:-1]


def write_tokens(choices: Choices, symbols: Sequence[str], style: Style, depth: int = 0) -> list[str]:
    """Write symbols as tokens, with repeats and groups at random.

    Args:
        choices: Where the chances come from.
        symbols: What the tokens stand for.
        style: What they may use.
        depth: How many groups are open.

    Returns:
        Symbols, parentheses, ``*``, ``@`` and numbers. A symbol that is removed is one token, ``t*0``.
    """
    tokens: list[str] = []
    at = 0
    while at < len(symbols):
        symbol = symbols[at]
        if style.removals:
            tokens += _write_removal(choices, style, depth)
        way = choices.pick(("plain", "plain", "repeat", "group"))
        if way == "group" and depth < style.deepest:
            size, times = _pick_block(choices, symbols, at)
            inner = write_tokens(choices, symbols[at : at + size], style, depth + 1)
            tokens += ["(", *inner, ")"]
            if times > 1 or style.dialect == "megatron" or choices.pick((True, False)):
                tokens += ["*", _write_number(choices, times)]
            at += size * times
        elif symbol.startswith("@"):
            tokens += ["@", _write_number(choices, int(symbol[1:]))]
            at += 1
        elif way == "plain":
            tokens.append(symbol)
            at += 1
        else:
            times = choices.pick(range(_copies(symbols, at, 1), 0, -1))
            tokens += [symbol, "*", _write_number(choices, times)]
            at += times
    return tokens


def _pick_block(choices: Choices, symbols: Sequence[str], at: int) -> tuple[int, int]:
    """Choose how many symbols a group holds, and how often it stands there; most often a block that recurs."""
    sizes = range(1, min(_LONGEST_BLOCK, len(symbols) - at) + 1)
    recurring = [size for size in sizes if _copies(symbols, at, size) > 1]
    size = choices.pick(choices.pick((recurring or sizes, recurring or sizes, sizes)))
    return size, choices.pick(range(_copies(symbols, at, size), 0, -1))


def _copies(symbols: Sequence[str], at: int, size: int) -> int:
    """Count how often the block of ``size`` symbols at ``at`` stands there in a row."""
    block = symbols[at : at + size]
    times = 1
    while symbols[at + size * times : at + size * (times + 1)] == block:
        times += 1
    return times


def _write_number(choices: Choices, number: int) -> str:
    return choices.pick(("", "", "", "0")) + str(number)


def _write_removal(choices: Choices, style: Style, depth: int) -> list[str]:
    kinds = "EtmL|" if style.dialect == "megatron" else "EtmL|N"
    what = choices.pick(("nothing",) * 6 + ("symbol", "group"))
    if what == "nothing":
        return []
    if what == "symbol" or depth == style.deepest:
        return [choices.pick(kinds) + choices.pick(("*0", "*00"))]
    return ["(", *[choices.pick(kinds) for _ in range(choices.pick((1, 2, 3)))], ")", "*", "0"]


def join_tokens(choices: Choices, tokens: Sequence[str], style: Style) -> str:
    """Join tokens to a text, with separators, backslashes and quotes at random."""
    megatron = style.dialect == "megatron"
    gaps = choices.pick((_NO_GAPS, _COMMAS) if megatron else (_NO_GAPS, _COMMAS, _BLANKS, _ALL_GAPS))
    escape = "" if megatron else choices.pick(("", "", "", "\\"))
    parts = [choices.pick(gaps)]
    for token in tokens:
        parts += [escape + token if token[0] in "|()*" else token, choices.pick(gaps)]
    quotes = "" if megatron else choices.pick(_QUOTES)
    return quotes + "".join(parts) + quotes[::-1]


def spell(draw: st.DrawFn, stages: Sequence[str], owners: Sequence[int] | None, style: Style) -> str:
    """Write a layout at random.

    Args:
        draw: Hypothesis's draw function.
        stages: The symbols of each stage.
        owners: The rank of each stage; None where it is not to be written.
        style: What the spelling may use.
    """
    choices = Choices(draw)
    return join_tokens(choices, write_tokens(choices, symbols_of(stages, owners), style), style)
