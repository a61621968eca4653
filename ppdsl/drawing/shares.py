"""What takes how much of each column's time, where actions are narrower than a column."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Key = TypeVar("Key")


def share_columns(
    keys: Iterable[Key], starts: Sequence[float], ends: Sequence[float], columns: int, scale: float
) -> list[dict[Key, float]]:
    """Cut a rank's time into columns of equal width, and sum up for each what its time goes to.

    Args:
        keys: What each action counts as.
        starts: When it starts.
        ends: When it ends.
        columns: How many columns there are.
        scale: Columns for each unit of time.

    Returns:
        For each column, the share that each key takes, up to 1 all together; what is missing is idle time.
    """
    shares: list[dict[Key, float]] = [{} for _ in range(columns)]
    for key, start, end in zip(keys, starts, ends, strict=True):
        first, behind = start * scale, end * scale
        for column in range(int(first), min(ceil(behind), columns)):
            share = min(behind, column + 1) - max(first, column)
            if share > 0:
                shares[column][key] = shares[column].get(key, 0.0) + share
    return shares
