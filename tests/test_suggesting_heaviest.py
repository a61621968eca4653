"""The lightest heaviest rank, against every layout there is."""

from __future__ import annotations

from itertools import combinations_with_replacement, pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ppdsl.costs import Costs, LayerCosts
from ppdsl.suggesting import Problem, heaviest, suggest
from ppdsl.suggesting.budgets import Budget
from ppdsl.suggesting.choices import Choice
from ppdsl.suggesting.heaviest import balance

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Case = tuple[Choice, list[int], list[int]]
"""What may be chosen; what each rank bears; what each unit takes. In tenths."""


@st.composite
def cases(draw: Callable[[st.SearchStrategy[int]], int]) -> Case:
    """Up to three ranks with up to three stages each."""
    pp = draw(st.integers(1, 3))
    stages = pp * draw(st.integers(1, 3))
    units = draw(st.integers(0, 7))
    most = tuple(units * draw(st.integers(0, 1)) for _ in range(stages))
    least = tuple(min(limit, draw(st.integers(0, 1))) for limit in most)
    owners = tuple(stage % pp for stage in range(stages))
    bases, works = ([draw(st.integers(0, 30)) for _ in range(number)] for number in (pp, units))
    return Choice(owners, "loop", "interleaved_1f1b", None, stages - 1, least, most), bases, works


def weigh(case: Case, counts: Sequence[int]) -> int:
    choice, bases, works = case
    loads, start = [*bases], 0
    for owner, count in zip(choice.owners, counts, strict=True):
        loads[owner] += sum(works[start : start + count])
        start += count
    return max(loads)


def lightest(case: Case) -> int | None:
    choice, _, works = case
    ends = ((0, *cuts, len(works)) for cuts in combinations_with_replacement(range(len(works) + 1), len(choice.owners) - 1))
    layouts = ([end - start for start, end in pairwise(each)] for each in ends)
    allowed = (each for each in layouts if all(a <= b <= c for a, b, c in zip(choice.least, each, choice.most, strict=True)))
    return min((weigh(case, each) for each in allowed), default=None)


@given(cases())
def test_no_layout_has_a_lighter_heaviest_rank(case: Case) -> None:
    choice, bases, works = case
    found = balance(choice, [base / 10 for base in bases], [work / 10 for work in works], Budget(10**9))
    wanted = lightest(case)
    if wanted is None:
        assert found.counts is None
    else:
        assert found.counts is not None
        assert weigh(case, found.counts) == wanted
        assert found.bound == wanted / 10


@given(cases(), st.integers(0, 2_000), st.integers(0, 20))
def test_a_search_that_is_cut_short_bounds_every_layout(case: Case, steps: int, visits: int) -> None:
    choice, bases, works = case
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(heaviest, "_MOST_VISITS", visits)
        found = balance(choice, [*map(float, bases)], [*map(float, works)], Budget(steps))
    wanted = lightest(case)
    assert wanted is None or found.bound <= wanted
    assert found.counts is None or weigh(case, found.counts) >= found.bound


def test_units_that_differ_a_little_are_counted() -> None:
    """One of two ranks has five of nine units, which take 5.1 at least; the mean is 4.72, and no visit tells more."""
    works = [1.0 + number / 100 for number in range(1, 10)]
    choice = Choice((0, 1, 0, 1), "loop", "interleaved_1f1b", None, 3, (0, 0, 0, 0), (9, 9, 9, 9))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(heaviest, "_MOST_VISITS", 0)
        assert balance(choice, [0.0, 0.0], works, Budget(10**9)).bound == pytest.approx(5.15)


def test_a_search_begins_with_it_where_layers_differ() -> None:
    """Two ranks share 33 in whole layers, so that one has 17 at least, which the mean does not tell."""
    layers = {layer: LayerCosts.of(time, time, time) for layer, time in ((1, 4.0), (5, 7.0), (6, 7.0), (8, 7.0))}
    problem = Problem(Costs({"t": LayerCosts.of(1.0, 1.0, 1.0)}, layers), 12, 2, 32, vpp=2)
    answer = suggest(problem, effort=30_000)
    assert 32 * 3 * 17 * (1 - 1e-9) <= answer.bound <= answer.time
