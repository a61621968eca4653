"""The search for the best layout of one choice."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from ppdsl.suggesting.branching import branch
from ppdsl.suggesting.budgets import ExhaustedError
from ppdsl.suggesting.moves import apply, improve, list_moves, rate
from ppdsl.suggesting.proofs import look_through
from ppdsl.suggesting.starts import list_blocks

if TYPE_CHECKING:
    from ppdsl.suggesting.searches import Search

_MOST_STARTS = 3
_MOST_KICKS = 4
_FEW_STAGES = 12
"""Stages up to which going through all layouts has good prospects."""
_PAUSE = 200
"""What a kick costs at least, so that going in circles comes to an end."""


def settle(search: Search, *, thorough: bool) -> None:
    """Search until the budget of the clock is spent, or nothing better can be found.

    Args:
        search: What is known; afterwards it knows the best.
        thorough: Whether to go on behind the first layouts that no single step improves: with a proof, and from other starts.
    """
    try:
        starts = search.begin()
        with search.clock.using(1 / 2 if thorough else 1):
            for start in starts[:_MOST_STARTS]:
                if not search.settled:
                    improve(search, start)
            if thorough and not search.settled:
                try_blocks(search)
        if search.settled or not thorough:
            return
        if search.ordered:
            prove(search, few=len(starts[0]) <= _FEW_STAGES)
        wander(search)
    except ExhaustedError:
        pass


def try_blocks(search: Search) -> None:
    """Try even layouts with the remainder in various places, and step to better ones from the best of them.

    Raises:
        ExhaustedError: The budget is spent.
    """
    blocks = [counts for counts in list_blocks(search.clock.choice, search.clock.stack.units) if not search.rules_out(counts, search.time)]
    for start in sorted(blocks, key=lambda counts: search.try_out(counts)[:2])[:_MOST_STARTS]:
        if not search.settled:
            improve(search, start)


def wander(search: Search) -> None:
    """Leave the best layout by a few moves, step to better ones from there, and go on from what is not worse.

    Raises:
        ExhaustedError: The budget is spent.
    """
    random = Random(0)  # noqa: S311 -- the same question has the same answer
    counts = search.best or search.begin()[0]
    rating = rate(search, counts)
    while not search.settled:
        search.clock.budget.spend(_PAUSE)
        kicked = counts
        for _ in range(random.randint(1, _MOST_KICKS)):
            moves = list_moves(search, kicked)
            if not moves:
                return
            kicked = apply(kicked, moves[int(len(moves) * random.random() ** 2)])
        found = improve(search, kicked)
        new = rate(search, found)
        if not rating.beats(new):
            counts, rating = found, new


def prove(search: Search, *, few: bool) -> None:
    """Bound the layouts in whole units; where they have few stages, go through all of them."""
    if not search.settled:
        with search.clock.using(2 / 3):
            branch(search)
    if few and not search.settled:
        with search.clock.using(1 / 2):
            look_through(search)
