"""What whole units can come to: the amounts that a stage or a rank can have, and the gaps between them."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from itertools import accumulate, product
from math import prod
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

_MOST_SUMS = 5_000
"""How many sums are listed one by one; where there are more, they are taken for ranges, one for each number of units."""
_NEAR = 1e-7
"""A total nearer to a sum than this part of the whole is not in a gap."""
_ROUNDING = 1e-13


class Gap(NamedTuple):
    """Two amounts between which there is none that whole units come to."""

    below: float
    above: float


class Totals:
    """The amounts that some units can come to, whichever they are, as ranges in order."""

    __slots__ = ("_ends", "_near", "_starts")

    def __init__(self, amounts: Sequence[float]) -> None:
        """Note the amounts.

        Args:
            amounts: That of each unit.
        """
        whole = sum(amounts)
        self._near = _NEAR * whole
        self._starts: list[float] = []
        self._ends: list[float] = []
        for start, end in sorted(_list_ranges(amounts)):
            if self._ends and start <= self._ends[-1] + 2 * self._near:
                self._ends[-1] = max(self._ends[-1], end + _ROUNDING * whole)
            else:
                self._starts.append(start - _ROUNDING * whole)
                self._ends.append(end + _ROUNDING * whole)

    @property
    def gaps(self) -> list[Gap]:
        """All gaps, in order."""
        return [*map(Gap, self._ends, self._starts[1:])]

    def find_gap(self, total: float) -> Gap | None:
        """Give the gap that a total lies in; None where it is not in one."""
        at = bisect_right(self._starts, total + self._near)
        if not 0 < at < len(self._starts) or total <= self._ends[at - 1] + self._near:
            return None
        return Gap(self._ends[at - 1], self._starts[at])


def _list_ranges(amounts: Sequence[float]) -> list[tuple[float, float]]:
    kinds = Counter(amounts)
    if prod(count + 1 for count in kinds.values()) <= _MOST_SUMS:
        shares = product(*(range(count + 1) for count in kinds.values()))
        sums = [sum(count * amount for count, amount in zip(share, kinds, strict=True)) for share in shares]
        return [(each, each) for each in sums]
    rising = sorted(amounts)
    return [(0.0, 0.0), *zip(accumulate(rising), accumulate(reversed(rising)), strict=True)]
