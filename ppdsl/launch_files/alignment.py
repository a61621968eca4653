"""Where the characters of a value stand in the text that it was written as."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ppdsl.launch_files.texts import Text

if TYPE_CHECKING:
    from typing import TypeAlias

Escapes: TypeAlias = "re.Pattern[str] | None"

# One escape of the formats: all that stands for one character, or for none.
BACKSLASH = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|N\{[^}]*\}|[0-7]{1,3}"
    r"|\r?\n[ \t\r\n]*|.)",
    re.DOTALL,
)
DOUBLED_QUOTE = re.compile("''")


def align(value: str, raw: Text, escapes: Escapes = None) -> Text:
    """Find the place of each character of a value.

    The two are walked side by side. White space may have been folded, left out or put in, and escapes undone; where a character cannot
    be found in place, the place reached so far stands for it.

    Args:
        value: The value.
        raw: The text that it was written as, without quotes.
        escapes: What an escape looks like in it; None where there are none.

    Returns:
        The value, with its places and the holes of ``raw``.
    """
    if value == raw.chars:
        return raw
    at: list[int] = []
    holes = []
    place = 0
    for index, char in enumerate(value):
        place, length = _find(char, raw.chars, place, escapes)
        at.append(raw.at[place])
        unknown = raw.hole_at(place) if raw.holes else None
        if unknown is not None:
            holes.append((index, unknown))
        place += length
    at.append(raw.at[place])
    return Text(value, at, tuple(holes))


def _find(char: str, raw: str, place: int, escapes: Escapes) -> tuple[int, int]:
    """Give the place at which a character stands, and how many characters it is written with."""
    while place < len(raw):
        escape = escapes.match(raw, place) if escapes else None
        if escape is not None and escape[0][1] in "\r\n":
            place = escape.end()
        elif escape is not None:
            return place, len(escape[0])
        elif raw[place] == char:
            return place, 1
        elif char.isspace():
            end = place
            while end < len(raw) and raw[end].isspace():
                end += 1
            return place, end - place
        elif raw[place].isspace():
            place += 1
        else:
            break
    return place, 0
