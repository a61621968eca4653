"""What a shell script consists of: words made of segments, operators, heredocs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import TypeAlias

    from ppdsl.launch_files.texts import Text


@dataclass(frozen=True, slots=True)
class Characters:
    """Characters that stand for themselves, escapes undone."""

    text: Text
    quoted: bool = False


@dataclass(frozen=True, slots=True)
class Reference:
    """A variable that is used.

    Attributes:
        name: Its name, or the digit or sign of a special parameter.
        subscript: ``@``, ``*`` or an index where one element or all of an array are meant, else empty.
        operator: ``:-``, ``-``, ``:=``, ``=``, ``:+``, ``+``, ``:?``, ``?`` or empty.
        operand: What stands behind the operator.
        quoted: Whether it stands in double quotes.
        start: Offset in the file of the dollar sign.
        end: Offset behind it.
    """

    name: str
    subscript: str
    operator: str
    operand: tuple[Segment, ...]
    quoted: bool
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Opaque:
    """A part that is not worked out.

    Attributes:
        text: A text that is one hole.
        body: The script inside of a command substitution; None for anything else.
    """

    text: Text
    body: Text | None = None


Segment: TypeAlias = "Characters | Reference | Opaque"


@dataclass(frozen=True, slots=True)
class Word:
    """One word, before variables are put in.

    Attributes:
        segments: What it is made of.
        elements: The words between the parentheses of ``NAME=(…)``; None for any other word.
    """

    segments: tuple[Segment, ...]
    elements: tuple[Word, ...] | None = None

    @property
    def plain(self) -> str:
        """Its characters where none is quoted, escaped or put in, as reserved words and variable names must be; else empty."""
        if len(self.segments) == 1 and isinstance(self.segments[0], Characters) and not self.segments[0].quoted:
            return self.segments[0].text.chars
        return ""

    @property
    def lead(self) -> str:
        """The characters before the first part that is put in."""
        chars = ""
        for segment in self.segments:
            if not isinstance(segment, Characters):
                break
            chars += segment.text.chars
        return chars


@dataclass(frozen=True, slots=True)
class Operator:
    """A control or redirection operator; a line's end is ``;``."""

    kind: str


@dataclass(frozen=True, slots=True)
class Heredoc:
    """The lines that a command reads from its script."""

    segments: tuple[Segment, ...]


Token: TypeAlias = "Word | Operator | Heredoc"  # noqa: S105 -- a token of a language, not a password
