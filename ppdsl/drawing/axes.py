"""Times on an axis: where it is marked, and how a time is written."""

from __future__ import annotations

from math import floor, log10

_STEPS = (1, 2, 5, 10)
_FOUR_DIGITS = 1000


def say_time(time: float) -> str:
    """Write a time with four digits, or all those before the point."""
    return f"{time:.0f}" if time >= _FOUR_DIGITS else f"{time:.4g}"


def choose_ticks(total: float, most: int) -> list[float]:
    """Give times from 0 to a total, equally far apart by a step that is easy to read: 1, 2 or 5, or ten times as much, and so on.

    Args:
        total: The end of the axis.
        most: How many parts it may have; one at least.
    """
    if total <= 0:
        return [0.0]
    wanted = total / max(most, 1)
    power = 10.0 ** floor(log10(wanted))
    step = power * next((size for size in _STEPS if size * power >= wanted), _STEPS[-1])
    return [step * number for number in range(int(total / step) + 1)]
