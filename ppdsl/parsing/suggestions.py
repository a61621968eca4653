"""Did you mean: the symbols that people write for others, and what they mean by them."""

from __future__ import annotations

_MEANT = {
    # the wrong case, a word's first letter, another dialect's letters
    "l": "L",
    "e": "E",
    "T": "t",
    "d": "t",
    "D": "t",
    "M": "m",
    "n": "N",
    "F": "N",
    "H": "L",
    # letters of other scripts that look alike
    "Е": "E",  # noqa: RUF001 -- Cyrillic
    "Ε": "E",  # noqa: RUF001 -- Greek
    "Ｅ": "E",  # noqa: RUF001 -- full width
    "т": "t",
    "Т": "t",  # noqa: RUF001 -- Cyrillic
    "τ": "t",
    "ｔ": "t",  # noqa: RUF001 -- full width
    "м": "m",
    "ｍ": "m",  # noqa: RUF001 -- full width
    "Ν": "N",  # noqa: RUF001 -- Greek
    "Ｎ": "N",  # noqa: RUF001 -- full width
    "Ｌ": "L",  # noqa: RUF001 -- full width
    # repeats
    "×": "*",  # noqa: RUF001 -- multiplication sign
    "x": "*",
    "X": "*",
    "✕": "*",
    "∗": "*",  # noqa: RUF001 -- asterisk operator
    "＊": "*",  # noqa: RUF001 -- full width
    "·": "*",
    "⋅": "*",
    "^": "*",
    # bars
    "/": "|",
    "¦": "|",
    "│": "|",
    "∣": "|",  # noqa: RUF001 -- divides
    "ǀ": "|",  # noqa: RUF001 -- dental click
    "｜": "|",  # noqa: RUF001 -- full width
    # parentheses
    "[": "(",
    "{": "(",
    "<": "(",
    "（": "(",  # noqa: RUF001 -- full width
    "]": ")",
    "}": ")",
    ">": ")",
    "）": ")",  # noqa: RUF001 -- full width
    # separators
    "，": ",",  # noqa: RUF001 -- full width
    "\u00a0": " ",
    "\u3000": " ",
    "\u2009": " ",
    "\ufeff": "",
    "\u200b": "",
    ";": "",
    "\\": "",
    "'": "",
    '"': "",
    "`": "",
}


def meant_by(char: str) -> str | None:
    """Give what is likely meant by a character that the language does not have.

    Args:
        char: One character.

    Returns:
        A symbol of the language; the empty string where the character should simply go; None where nothing is likely.
    """
    return _MEANT.get(char)


def ascii_digits(text: str) -> str | None:
    """Give the ASCII form of a number written in any script's decimal digits; None when it is not such a number."""
    import unicodedata  # noqa: PLC0415 -- needed only in faulty layouts

    if not text or not all(char.isdecimal() for char in text):
        return None
    return "".join(str(unicodedata.decimal(char)) for char in text)
