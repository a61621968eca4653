"""What the kinds of layer cost, from what whole stages take."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    _Matrix = list[list[Fraction]]


def fit_kinds(counts: Sequence[Sequence[int]], totals: Sequence[float]) -> tuple[float, ...] | None:
    """Fit by least squares what one of each kind costs, none of them less than nothing.

    Args:
        counts: How many of each kind a stage has, by stage.
        totals: What each stage takes.

    Returns:
        The cost of each kind; None where the stages do not tell the kinds apart. Whether they do is found in whole numbers, without a
        tolerance. A kind that would come out below 0 costs nothing, and the others are fitted again.

    Example:
        >>> fit_kinds([(1, 2, 0), (0, 2, 0), (0, 2, 1)], [2.5, 2.0, 4.0])
        (0.5, 1.0, 2.0)
    """
    kinds = [*range(len(counts[0]))] if counts else []
    exact = [*map(Fraction, totals)]
    fitted = [Fraction(0)] * len(kinds)
    while kinds:
        rows = [[row[kind] for kind in kinds] for row in counts]
        solved = _solve(rows, exact)
        if solved is None:
            return None
        least = min(solved)
        if least >= 0:
            for kind, cost in zip(kinds, solved, strict=True):
                fitted[kind] = cost
            break
        del kinds[solved.index(least)]
    return tuple(map(float, fitted))


def _solve(rows: list[list[int]], totals: list[Fraction]) -> list[Fraction] | None:
    """Solve the normal equations by elimination; None where they have no single solution."""
    size = len(rows[0])
    matrix: _Matrix = [
        [
            *(Fraction(sum(row[first] * row[second] for row in rows)) for second in range(size)),
            sum((row[first] * total for row, total in zip(rows, totals, strict=True)), Fraction(0)),
        ]
        for first in range(size)
    ]
    for column in range(size):
        pivot = next((row for row in range(column, size) if matrix[row][column]), None)
        if pivot is None:
            return None
        matrix[column], matrix[pivot] = matrix[pivot], matrix[column]
        head = matrix[column] = [value / matrix[column][column] for value in matrix[column]]
        for row in range(size):
            if row != column and matrix[row][column]:
                matrix[row] = [value - matrix[row][column] * above for value, above in zip(matrix[row], head, strict=True)]
    return [row[-1] for row in matrix]
