"""Linear programs whose rows can be added to one by one: the simplex method on a table of what is not in the basis."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

TINY = 1e-9
_MOST_PIVOTS = 2_000
"""After how many steps the search for the largest sum ends."""


class Tableau:
    """Shares of some columns, none negative, that add up to as much as rows allow: each bounds a sum of shares, weighed, by 1 or 0.

    A variable is a share, named by its column, or what is left of a row, named by the complement (``~``) of the row's name. Each line of
    the table says what a variable of the basis is: its last number less the others times the variables outside.

    Attributes:
        outside: The variables outside of the basis, by column of the table.
        basis: Those in it, by line.
        lines: The table.
        goal: What the sum of all shares is, written the same way.
    """

    __slots__ = ("basis", "goal", "lines", "outside")

    def __init__(self, width: int) -> None:
        """Begin without rows.

        Args:
            width: Number of shares.
        """
        self.outside = [*range(width)]
        self.basis: list[int] = []
        self.lines: list[list[float]] = []
        self.goal = [*[-1.0] * width, 0.0]

    def copy(self) -> Tableau:
        """Give a table that goes its own way."""
        other = Tableau(0)
        other.outside, other.basis, other.lines, other.goal = [*self.outside], [*self.basis], [*self.lines], self.goal
        return other

    def add(self, name: int, row: Sequence[float], limit: float) -> None:
        """Add a row.

        Args:
            name: Its name, from 0.
            row: The weight of each share.
            limit: 1 or 0.
        """
        line = [*(row[variable] if variable >= 0 else 0.0 for variable in self.outside), limit]
        for variable, other in zip(self.basis, self.lines, strict=True):
            weight = row[variable] if variable >= 0 else 0.0
            if weight:
                line = [value - weight * own for value, own in zip(line, other, strict=True)]
        self.basis.append(~name)
        self.lines.append(line)

    def drop(self, names: set[int]) -> None:
        """Leave out rows of which something is left."""
        kept = [at for at, variable in enumerate(self.basis) if ~variable not in names]
        self.basis = [self.basis[at] for at in kept]
        self.lines = [self.lines[at] for at in kept]

    def solve(self, enough: float = 0.0) -> int:
        """Make the sum as large as it can be, up to rounding; give the number of steps.

        Args:
            enough: Where the sum is known to come to no more than this, the search ends.
        """
        for pivots in range(_MOST_PIVOTS):
            chosen = self._choose(enough)
            if chosen is None:
                return pivots
            self._pivot(*chosen)
        return _MOST_PIVOTS

    def weigh_rows(self) -> dict[int, float]:
        """Give the weight of each row that bears on the sum, by name."""
        return {~variable: goal for variable, goal in zip(self.outside, self.goal, strict=False) if variable < 0 and goal > TINY / 100}

    def _find_shortest(self) -> int:
        """Give the line whose variable is the least, or most below 0."""
        return min(range(len(self.lines)), key=lambda at: self.lines[at][-1])

    def _choose(self, enough: float) -> tuple[int, int] | None:
        """Give the line and the column of the next step: of the dual method where a line is short, else of the primal one."""
        line = self._find_shortest()
        column = min(range(len(self.outside)), key=self.goal.__getitem__)
        if self.lines[line][-1] < -TINY:
            if self.goal[column] >= -TINY and self.goal[-1] <= enough:
                return None
            pairs = zip(self.goal[:-1], self.lines[line], strict=False)
            ratios = [(max(goal, 0.0) / -own, own, at) for at, (goal, own) in enumerate(pairs) if own < -TINY]
            return (line, min(ratios)[2]) if ratios else None
        if self.goal[column] >= -TINY:
            return None
        limits = [(other[-1] / other[column], -other[column], at) for at, other in enumerate(self.lines) if other[column] > TINY]
        return (min(limits)[2], column) if limits else None

    def _pivot(self, chosen: int, column: int) -> None:
        """Let a variable of the basis and one outside change places."""
        factor = self.lines[chosen][column]
        line = [value / factor for value in self.lines[chosen]]
        line[column] = 1.0 / factor
        self.lines = [other if at != chosen else line for at, other in enumerate(self.lines)]
        for at, other in enumerate(self.lines):
            if at != chosen and other[column]:
                self.lines[at] = _reduce(other, line, column, factor)
        if self.goal[column]:
            self.goal = _reduce(self.goal, line, column, factor)
        self.basis[chosen], self.outside[column] = self.outside[column], self.basis[chosen]


def _reduce(line: list[float], by: list[float], column: int, factor: float) -> list[float]:
    share = line[column]
    reduced = [value - share * own for value, own in zip(line, by, strict=True)]
    reduced[column] = -share / factor
    return reduced
