"""How a character is shown, and how many columns of a terminal it takes."""

from __future__ import annotations

from functools import lru_cache


def visible(text: str) -> str:
    r"""Escape each character that a reader could not see, or that could drive a terminal, as ``\u{202e}``.

    These are the characters that are not printable in Python's sense: controls (line ends and tabs too), bidi controls, zero-width
    format characters, white space other than the ASCII space, private and unassigned characters, and lone surrogates. What is
    left can always be encoded.
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else f"\\u{{{ord(char):x}}}" for char in text)


@lru_cache(maxsize=4096)
def width(char: str) -> int:
    """Give the columns that a printable character takes: 2 if East Asian wide, 0 if it combines with the one before it, else 1."""
    if char.isascii():
        return 1
    from unicodedata import category, east_asian_width  # noqa: PLC0415 -- nearly every layout is ASCII

    if category(char) in {"Mn", "Me"} or "\u1160" <= char <= "\u11ff":  # the latter: the parts of Hangul that join the one before
        return 0
    return 2 if east_asian_width(char) in {"W", "F"} else 1


def cells(text: str) -> list[str]:
    """Cut visible text into its columns; what combines stands with its base, and the second half of a wide character is empty."""
    found: list[str] = []
    for char in text:
        columns = width(char)
        if columns:
            found += (char, "")[:columns]
        elif found:
            found[-1] += char
        else:
            found.append(" " + char)
    return found
