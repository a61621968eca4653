"""What a caller gives to a schedule's functions, checked: each error is one short line."""

from __future__ import annotations

_MOST_SHOWN = 40


def check_count(what: str, count: object, least: int = 1) -> None:
    """Refuse what is no whole number, or too small a one.

    Args:
        what: What it counts.
        count: The number.
        least: The smallest that is taken.

    Raises:
        ValueError: It is something else.
    """
    if isinstance(count, bool) or not isinstance(count, int) or count < least:
        raise ValueError(f"{what} is {str(count)[:_MOST_SHOWN]!a}, not an integer from {least}")


def quote(text: str) -> str:
    """Write a text of any length and any script in one short line of ASCII."""
    return ascii(text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}...")
