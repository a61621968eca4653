"""Texts put together from pieces of a file, each character with its place in it, and holes for what only a run would tell."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

from ppdsl.source import Source, Span

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import TypeAlias

# Which way each conditional before a place went, outermost first: (number of the conditional, number of its branch).
Branch: TypeAlias = "tuple[tuple[int, int], ...]"

# Stands in a text for a part that is not known. A noncharacter, so that it is no letter, space or operator to any reader; whether one
# of them is a hole is told by the text's holes, so that a file that holds this character confuses nobody.
HOLE = "\ufdd0"


@dataclass(frozen=True, slots=True)
class Unknown:
    """A part of a value that cannot be told without running the file.

    Attributes:
        start: Offset in the file at which the reference to it begins.
        end: Offset behind it.
        reason: Why it is not known, to stand behind the carets.
        external: Whether it comes from outside of the file: an argument of the script, the environment.
        choices: The values that it may have, where it depends on which branch runs.
    """

    start: int
    end: int
    reason: str
    external: bool = False
    choices: tuple[Choice, ...] = ()


@dataclass(frozen=True, slots=True)
class Choice:
    """A value that holds where a branch runs; None where that branch assigns nothing."""

    branch: Branch
    text: Text | None


@dataclass(frozen=True, slots=True)
class Text:
    """Characters with their places.

    Attributes:
        chars: The characters.
        at: For each offset of ``chars`` from 0 to its length, both included, the offset in the file. Unlike those of a
            ``Source``, they may fall: ``"$B$A"`` with A assigned first.
        holes: The offsets in ``chars`` that hold no character but something unknown, in order.
    """

    chars: str
    at: Sequence[int]
    holes: tuple[tuple[int, Unknown], ...] = ()

    def cut(self, start: int, end: int) -> Text:
        """Give the characters ``[start, end)``."""
        holes = self.holes
        if holes:
            first, last = bisect_left(holes, start, key=_offset), bisect_left(holes, end, key=_offset)
            holes = tuple((offset - start, unknown) for offset, unknown in holes[first:last])
        return Text(self.chars[start:end], self.at[start : end + 1], holes)

    def hole_at(self, offset: int) -> Unknown | None:
        """Tell what is unknown at an offset; None where a real character stands there."""
        index = bisect_left(self.holes, offset, key=_offset)
        return self.holes[index][1] if index < len(self.holes) and self.holes[index][0] == offset else None

    @property
    def choice(self) -> Unknown | None:
        """The one hole that this text consists of, where its possible values are known."""
        if len(self.chars) == 1 and self.holes and self.holes[0][1].choices:
            return self.holes[0][1]
        return None

    @property
    def span(self) -> Span:
        """From the first to the last place in the file."""
        return Span(min(self.at), max(self.at))


def _offset(hole: tuple[int, Unknown]) -> int:
    return hole[0]


def whole(text: str) -> Text:
    """Give a file's text."""
    return Text(text, range(len(text) + 1))


def hole(unknown: Unknown) -> Text:
    """Give a text that is nothing but unknown."""
    return Text(HOLE, (unknown.start, unknown.end), ((0, unknown),))


def join(parts: Sequence[Text]) -> Text:
    """Put texts behind one another.

    Args:
        parts: At least one text.

    Returns:
        Their characters in a row, each with its place.
    """
    if len(parts) == 1:
        return parts[0]
    at: list[int] = []
    holes: list[tuple[int, Unknown]] = []
    for part in parts:
        holes += ((offset + len(at), unknown) for offset, unknown in part.holes)
        at += part.at[:-1]
    at.append(parts[-1].at[-1])
    return Text("".join(part.chars for part in parts), at, tuple(holes))


def spaced(parts: Iterable[Text]) -> list[Text]:
    """Put a space between texts, placed where the one before it ends."""
    result: list[Text] = []
    for part in parts:
        if result:
            end = result[-1].at[-1]
            result.append(Text(" ", (end, end)))
        result.append(part)
    return result


def source_of(text: Text, file: Source) -> Source:
    """Make the source of a value found in a file.

    Args:
        text: The value.
        file: The whole file.

    Returns:
        A source whose positions never fall: where the value goes back to an earlier line, the place before stands for it.
    """
    positions = text.at if isinstance(text.at, range) else tuple(accumulate(text.at, max))
    return Source(text.chars, file.name, file.text, positions)
