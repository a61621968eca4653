"""Matrix games: the best mixture of rows against the best mixture of columns, by the simplex method."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

_TINY = 1e-9


class Solution(NamedTuple):
    """A solution, up to rounding.

    Attributes:
        value: The least that the rows' weights make of every column: what is said holds whatever the rounding.
        weights: Weight of each row; they add up to 1.
        mixture: Share of each column; they add up to 1.
        pivots: How many steps it took.
    """

    value: float
    weights: list[float]
    mixture: list[float]
    pivots: int


def solve_game(rows: Sequence[Sequence[float]], most_pivots: int = 400) -> Solution:
    """Weigh rows so that the smallest column of their sum is as large as possible.

    Args:
        rows: The matrix, at least one row and one column, nothing negative.
        most_pivots: After how many steps the weights so far are taken.
    """
    scale = max(max(row) for row in rows) or 1.0
    height, width = len(rows), len(rows[0])
    # The value is made positive; then the mixture times its inverse is what adds up to most under "every row at most 1".
    table = [[*(value / scale + 1.0 for value in row), *(float(at == own) for at in range(height)), 1.0] for own, row in enumerate(rows)]
    goal = [*[-1.0] * width, *[0.0] * (height + 1)]
    basis = [width + own for own in range(height)]
    pivots = 0
    while pivots < most_pivots:
        column = min(range(width + height), key=goal.__getitem__)
        if goal[column] >= -_TINY:
            break
        ratios = [(line[-1] / line[column], at) for at, line in enumerate(table) if line[column] > _TINY]
        if not ratios:
            break
        _, chosen = min(ratios)
        goal = _pivot(table, goal, chosen, column)
        basis[chosen] = column
        pivots += 1
    weights = _normalize(goal[width : width + height])
    mixture = [0.0] * width
    for at, variable in enumerate(basis):
        if variable < width:
            mixture[variable] = table[at][-1]
    value = min(sum(weight * row[at] for weight, row in zip(weights, rows, strict=True) if weight) for at in range(width))
    return Solution(value, weights, _normalize(mixture), pivots)


def _pivot(table: list[list[float]], goal: list[float], chosen: int, column: int) -> list[float]:
    factor = table[chosen][column]
    pivot = table[chosen] = [value / factor for value in table[chosen]]
    for at, line in enumerate(table):
        share = line[column]
        if at != chosen and share:
            table[at] = [value - share * own for value, own in zip(line, pivot, strict=True)]
    share = goal[column]
    return [value - share * own for value, own in zip(goal, pivot, strict=True)]


def _normalize(values: Sequence[float]) -> list[float]:
    positive = [max(value, 0.0) for value in values]
    total = sum(positive)
    return [value / total for value in positive] if total else [1.0 / len(positive)] * len(positive)
