"""Lower bounds: linear programs, totals of whole units, mixtures of paths, and all of it against every layout there is."""

from __future__ import annotations

from contextlib import suppress
from itertools import combinations, product
from random import Random
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ppdsl.schedules.naming import make_named
from ppdsl.suggesting.branching import branch
from ppdsl.suggesting.budgets import Budget, ExhaustedError
from ppdsl.suggesting.choices import list_choices
from ppdsl.suggesting.cuts import Cut
from ppdsl.suggesting.graphs import Graph
from ppdsl.suggesting.ordering import prepare
from ppdsl.suggesting.problem import Problem
from ppdsl.suggesting.programs import Program
from ppdsl.suggesting.stacks import Stack
from ppdsl.suggesting.totals import Totals
from tests.random_schedules import random_schedules
from tests.suggest_cases import draw_problem, weigh

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ppdsl.schedules.actions import Schedule
    from ppdsl.suggesting.choices import Choice
    from ppdsl.suggesting.searches import Search

SAME = 1e-9
STEPS = 8
EIGHTHS = [shares for shares in product(range(STEPS + 1), repeat=3) if sum(shares) == STEPS]
"""Shares of three columns that add up to one, in eighths."""
MOST_LAYOUTS = 400

THIRDS = Problem(weigh(t=0.2), 1, 3, 3, min_layers=0)
"""One unit on three ranks, of which forward, backward, and the halves of that come to 1."""
ROWS = st.lists(st.lists(st.integers(0, 9), min_size=3, max_size=3), min_size=1, max_size=6)


@given(ROWS, st.lists(st.integers(0, 8), min_size=3, max_size=3))
def test_no_shares_make_the_largest_row_smaller(rows: list[list[int]], most: list[int]) -> None:
    """Each row is a cut, each share has a most, in eighths; what is said holds for all shares and is nearly reached by those given."""
    if sum(most) < STEPS:
        return
    (choice, *_), stack = list_choices(THIRDS), Stack(THIRDS)
    program = Program(choice._replace(least=(0, 0, 0)), stack, 1.0)
    for row in rows:
        program.add(Cut(0.0, tuple(map(float, row))))
    for stage, share in enumerate(most):
        program.limit((stage,), share / STEPS, 1)
    found = program.solve(Budget(10**9))
    allowed = [shares for shares in EIGHTHS if all(a <= b for a, b in zip(shares, most, strict=True))]
    least = min(max(sum(a * b for a, b in zip(row, shares, strict=True)) for row in rows) for shares in allowed) / STEPS
    assert found.value <= least + SAME
    assert found.value == pytest.approx(max(sum(a * b for a, b in zip(row, found.amounts, strict=True)) for row in rows), abs=1e-6)
    assert sum(found.amounts) == pytest.approx(1)
    assert all(amount <= share / STEPS + 1e-6 for amount, share in zip(found.amounts, most, strict=True))
    assert sum(weight for weight, _ in found.weighed) == pytest.approx(1)


def test_conditions_that_nothing_keeps_to_leave_nothing_small() -> None:
    (choice, *_), stack = list_choices(THIRDS), Stack(THIRDS)
    program = Program(choice._replace(least=(0, 0, 0)), stack, 1.0)
    program.add(Cut(0.0, (1.0, 2.0, 3.0)))
    program.solve(Budget(10**9))
    for stage in range(3):
        program.limit((stage,), 0.3, 1)
    assert program.solve(Budget(10**9)).value > 10


@given(st.lists(st.sampled_from([0.0, 0.7, 1.0, 1.1, 2.5, 3.25]), min_size=1, max_size=8), st.floats(0, 1))
def test_no_units_come_to_what_is_in_a_gap(amounts: list[float], share: float) -> None:
    sums = [sum(chosen) for number in range(len(amounts) + 1) for chosen in combinations(amounts, number)]
    total = share * sum(amounts)
    gap = Totals(amounts).find_gap(total)
    if gap is None:
        return
    assert gap.below < total < gap.above
    assert not [each for each in sums if gap.below < each < gap.above]


def test_many_units_of_few_kinds_have_the_gaps_of_their_sums() -> None:
    totals = Totals([1.0] * 90 + [0.5] * 3)
    assert totals.find_gap(7.0) is None
    gap = totals.find_gap(7.2)
    assert gap == pytest.approx((7.0, 7.5))


def test_units_that_all_differ_a_little_leave_gaps_between_their_numbers() -> None:
    totals = Totals([1 + layer / 1000 for layer in range(61)])
    gap = totals.find_gap(7.7)
    assert gap == pytest.approx((sum(1 + layer / 1000 for layer in range(54, 61)), sum(1 + layer / 1000 for layer in range(8))))
    assert totals.find_gap(30.5) is None


@given(random_schedules(), st.randoms(use_true_random=False), st.booleans())
def test_a_mixture_of_paths_is_never_longer_than_the_schedule(schedule: Schedule, random: Random, linked: bool) -> None:  # noqa: FBT001 -- drawn
    busy = tuple(float(random.randint(1, 3)) for _ in schedule.owners[1:]) if linked else ()
    graph = Graph(schedule, 0.5, busy)
    count = 4 * len(schedule.owners) + len(busy)
    first, other = ([float(random.randint(0, 4)) for _ in range(count)] for _ in range(2))
    for width in (1e-9, 2.0):
        shares, lags = graph.share_back(graph.time(first), count, width)
        for durations in (first, other):
            length = lags + sum(share * duration for share, duration in zip(shares, durations, strict=True))
            assert length <= graph.makespan(graph.time(durations)) * (1 + SAME)
    shares, lags = graph.share_back(graph.time(first), count, 1e-9)
    assert lags + sum(a * b for a, b in zip(shares, first, strict=True)) == pytest.approx(graph.makespan(graph.time(first)))


def list_counts(choice: Choice, units: int) -> Iterator[tuple[int, ...]]:
    """List the layouts of a choice."""
    ranges = [range(least, min(most, units) + 1) for least, most in zip(choice.least, choice.most, strict=True)]
    return (counts for counts in product(*ranges) if sum(counts) == units)


def make_search(problem: Problem, choice: Choice, steps: int) -> Search:
    """Begin to search a choice."""
    schedule = make_named(choice.schedule, choice.owners, problem.pp, problem.microbatches, choice.group)
    return prepare(problem, choice, Stack(problem), schedule, Budget(steps), lambda _: None)


def check_bounds(problem: Problem, steps: int) -> list[str]:
    """Bound the layouts of each choice, without looking for good ones; compare with all of them."""
    verdicts = []
    for choice in list_choices(problem):
        if sum(1 for _ in zip(range(MOST_LAYOUTS + 1), list_counts(choice, problem.units), strict=False)) > MOST_LAYOUTS:
            continue
        search = make_search(problem, choice, steps)
        try:
            search.begin()
            assert search.bound <= find_least(problem, choice) * (1 + SAME)
            branch(search)
        except ExhaustedError:
            pass
        least = find_least(problem, choice)
        assert search.bound <= least * (1 + SAME)
        if search.exhausted:
            assert search.time == pytest.approx(least, rel=SAME)
        verdicts.append("proved" if search.exhausted else "tight" if search.bound >= least * 0.999 else "loose")
    return verdicts


def find_least(problem: Problem, choice: Choice) -> float:
    """Time all layouts of a choice; infinite where none fits the memory limit."""
    search = make_search(problem, choice, 10**9)
    layouts = list_counts(choice, problem.units)
    return min((search.clock.time(counts)[0] for counts in layouts if not search.memory.excess(counts)), default=float("inf"))


SHAPES = (
    ("gpipe", 2, "v"),
    ("1f1b", 1, "loop"),
    ("interleaved_1f1b", 2, "loop"),
    ("interleaved_1f1b", 3, "loop"),
    ("zb_h1", 1, "loop"),
    ("zb_v", 2, "v"),
)


def draw(seed: int) -> Problem:
    """A small problem with any costs."""
    random = Random(seed)  # noqa: S311 -- the same cases each time
    schedule, vpp, placement = random.choice(SHAPES)
    return draw_problem(random, schedule=schedule, vpp=vpp, placement=placement)


def check_seeds(seeds: range) -> list[str]:
    verdicts = []
    for seed in seeds:
        with suppress(ValueError):  # nothing that can be scheduled
            verdicts += check_bounds(draw(seed), Random(seed).choice((30_000, 3_000_000)))  # noqa: S311 -- the same
    return verdicts


def test_no_layout_is_below_the_bound() -> None:
    verdicts = check_seeds(range(120))
    assert len(verdicts) > 60
    assert verdicts.count("proved") > 20


@pytest.mark.slow
def test_no_layout_of_many_problems_is_below_the_bound() -> None:
    assert len(check_seeds(range(1_000, 4_000))) > 1_500
