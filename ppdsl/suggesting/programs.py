"""Amounts for the stages where layers may be parted anywhere, and how small they can make the largest of some cuts."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ppdsl.suggesting.tableaus import Tableau

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ppdsl.suggesting.budgets import Budget
    from ppdsl.suggesting.choices import Choice
    from ppdsl.suggesting.cuts import Cut
    from ppdsl.suggesting.stacks import Stack

_OFF = 1e-7
"""Rounding that has added up to more than this is done away with; and weights below this part of all are none."""
_LEAST_ROWS = 40


class Found(NamedTuple):
    """A solution.

    Attributes:
        value: No amounts that are allowed make all cuts smaller, which holds whatever the rounding; infinite where no amounts are.
        amounts: Amounts that come near it.
        weighed: The cuts that make the value, with their weights, which add up to 1.
    """

    value: float
    amounts: list[float]
    weighed: list[tuple[float, Cut]]


class Program:
    """Cuts and conditions on the amounts of stages."""

    __slots__ = ("_columns", "_cuts", "_low", "_next", "_room", "_rows", "_scale", "_tableau")

    def __init__(self, choice: Choice, stack: Stack, scale: float) -> None:
        """Begin without cuts.

        Args:
            choice: What the stages may have; each has its least.
            stack: The layers.
            scale: About what the value is going to be.
        """
        unit = min(stack.amounts, default=0.0)
        self._low = [unit * least for least in choice.least]
        self._room = max(stack.reached[-1] - sum(self._low), 0.0)
        self._columns = [stage for stage, most in enumerate(choice.most) if most] or [0]
        self._scale = scale or 1.0
        self._cuts: dict[int, Cut] = {}
        self._rows: dict[int, list[float]] = {}
        self._next = 0
        self._tableau = Tableau(len(self._columns))

    def copy(self) -> Program:
        """Give a program that goes its own way."""
        other = object.__new__(Program)
        for name in self.__slots__:
            setattr(other, name, getattr(self, name))
        other._cuts, other._rows, other._tableau = {**self._cuts}, {**self._rows}, self._tableau.copy()
        return other

    def add(self, cut: Cut) -> None:
        """Take in a cut."""
        base = cut.bound(self._low) / self._scale + 1.0  # which makes the value positive
        slope = self._room / self._scale
        self._cuts[self._next] = cut
        self._enter([base + slope * cut.slopes[stage] for stage in self._columns], 1.0)

    def limit(self, stages: Sequence[int], amount: float, sign: int) -> None:
        """Take in that some stages have an amount at most, or, with a sign of -1, at least."""
        if self._room:
            rest = (amount - sum(self._low[stage] for stage in stages)) / self._room
            own = {*stages}
            self._enter([sign * ((stage in own) - rest) for stage in self._columns], 0.0)

    def _enter(self, row: list[float], limit: float) -> None:
        self._rows[self._next] = row
        self._tableau.add(self._next, row, limit)
        self._next += 1

    def solve(self, budget: Budget, enough: float = float("inf")) -> Found:
        """Give the value for the cuts and conditions so far.

        Args:
            budget: What may be spent.
            enough: A value that need not be exceeded.

        Raises:
            ExhaustedError: The budget is spent.
        """
        self._run(budget, enough)
        found, off = self._read()
        if off > _OFF:  # rounding has added up
            self._tableau = Tableau(len(self._columns))
            for name, row in self._rows.items():
                self._tableau.add(name, row, float(name in self._cuts))
            self._run(budget, enough)
            found, _ = self._read()
        self._tidy()
        return found

    def _run(self, budget: Budget, enough: float) -> None:
        pivots = self._tableau.solve((1 - _OFF) / (enough / self._scale + 1.0))
        budget.spend((pivots + 2) * len(self._rows) * len(self._columns) // 2)

    def _read(self) -> tuple[Found, float]:
        """Give the solution, and how far the table is from what the rows say."""
        tableau = self._tableau
        weights = tableau.weigh_rows()
        total = sum(weight for name, weight in weights.items() if name in self._cuts)
        possible = total > _OFF * sum(weights.values())  # else it is the conditions alone that leave no room for shares
        scale = total if possible else sum(weights.values()) or 1.0
        sums = [0.0] * len(self._columns)
        for name, weight in weights.items():
            share = weight / scale
            sums = [value + share * own for value, own in zip(sums, self._rows[name], strict=True)]
        least = min(sums)
        value = max(least - 1.0, 0.0) * self._scale if possible else float("inf") if least > _OFF else 0.0
        weighed = [(weight / scale, self._cuts[name]) for name, weight in weights.items() if name in self._cuts]
        return Found(value, self._share_out(), weighed), abs(least * tableau.goal[-1] - 1.0) if possible else 0.0

    def _share_out(self) -> list[float]:
        """Give the amounts that the shares of the table come to."""
        tableau, amounts = self._tableau, [*self._low]
        shares = {variable: max(line[-1], 0.0) for variable, line in zip(tableau.basis, tableau.lines, strict=True) if variable >= 0}
        whole = sum(shares.values())
        for column, share in shares.items():
            amounts[self._columns[column]] += self._room * share / whole if whole else 0.0
        return amounts

    def _tidy(self) -> None:
        """Leave out the oldest rows that bound nothing, where there are many."""
        slack = sorted(~variable for variable in self._tableau.basis if variable < 0)
        many = len(self._rows) - len(self._columns) - _LEAST_ROWS
        names = {*slack[: max(many, 0)]}
        if names:
            self._tableau.drop(names)
            for name in names:
                del self._rows[name]
                self._cuts.pop(name, None)
