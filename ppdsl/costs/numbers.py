"""Values of a costs file, checked: each error is one line that names the path."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

MOST = 10**18
"""The largest time and the largest size; with it no sum becomes infinite."""
_LEAST = 1e-30
"""What is smaller counts as nothing, so that no quotient becomes infinite either."""
_MOST_SHOWN = 40


def take_object(value: object, path: str) -> Mapping[str, object]:
    """Give an object as it is.

    Raises:
        ValueError: It is something else.
    """
    if not isinstance(value, Mapping):
        raise ValueError(f"{path} is {show(value)}, not an object")  # noqa: TRY004 -- the data is at fault, not the call
    return value


def take_number(value: object, path: str, *, least: float = 0) -> float:
    """Give a number as it is, or 0 for one that is next to nothing.

    Args:
        value: What stands at the path.
        path: Where it stands.
        least: The smallest number that is taken.

    Raises:
        ValueError: It is no number, smaller, not finite, or huge.
    """
    wanted = f"a number from {least:g}"
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError(f"{path} is {show(value)}, not {wanted}")  # noqa: TRY004 -- the same
    if not value >= least:
        raise ValueError(f"{path} is {show(value)}, not {wanted}")
    if value > MOST:
        raise ValueError(f"{path} is {show(value)}, more than 1e18")
    return value if value > _LEAST else 0


def refuse_unknown(data: Mapping[str, object], path: str, what: str, known: Iterable[str]) -> None:
    """Raise ValueError where an object has a key that nobody reads.

    Args:
        data: The object.
        path: Where it stands, with the dot behind it; empty at the top.
        what: What a key is: a ``field`` or a ``kind``.
        known: The keys that are read.
    """
    names = [*known]
    for key in data:
        if key not in names:
            text = str(key)
            shown = text if text.isascii() and text.isidentifier() and len(text) <= _MOST_SHOWN else show(text)
            raise ValueError(f"{path}{shown} is an unknown {what}; there are {', '.join(names)}")


def show(value: object) -> str:
    """Write a value of any size in a few characters and one line."""
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    if isinstance(value, int):
        return str(value) if abs(value) < MOST * 100 else "a huge integer"
    if isinstance(value, float):
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}.get(str(value), str(value))
    if isinstance(value, str):
        return ascii(value if len(value) <= _MOST_SHOWN else value[:_MOST_SHOWN] + "…")
    return "an object" if isinstance(value, Mapping) else "a list" if isinstance(value, list) else f"of type {type(value).__name__}"
