"""The split whose heaviest stage weighs least, against every split there is."""

from __future__ import annotations

import time
from itertools import pairwise, product
from math import inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ppdsl import splitting
from ppdsl.splitting import split_evenly


def every_split(layers: int, parts: int, least: int) -> list[tuple[int, ...]]:
    """List every way to share layers out in a row."""
    ends = [(0, *cuts, layers) for cuts in product(range(layers + 1), repeat=parts - 1)]
    return [counts for each in ends if min(counts := tuple(b - a for a, b in pairwise(each))) >= least]


def weigh(costs: list[int], counts: tuple[int, ...], first: int, last: int) -> list[int]:
    weights, start = [], 0
    for count in counts:
        weights.append(sum(costs[start : start + count]))
        start += count
    weights[0] += first
    weights[-1] += last
    return weights


@given(st.lists(st.integers(0, 5), max_size=8), st.integers(1, 4), st.integers(0, 4), st.integers(0, 9), st.integers(0, 1))
def test_no_split_is_better(costs: list[int], parts: int, first: int, last: int, least: int) -> None:
    """The least heaviest stage, then the smallest variance, then more layers in earlier stages."""
    splits = every_split(len(costs), parts, least)
    if not splits:
        with pytest.raises(ValueError, match=rf"^{len(costs)} layers cannot fill {parts} stages$"):
            split_evenly(costs, parts, first=first, last=last, min_layers=least)
        return

    def rate(counts: tuple[int, ...]) -> tuple[int, int, tuple[int, ...]]:
        weights = weigh(costs, counts, first, last)
        return max(weights), sum(weight**2 for weight in weights), tuple(-count for count in counts)

    assert split_evenly(costs, parts, first=first, last=last, min_layers=least) == min(splits, key=rate)


@pytest.mark.parametrize(
    ("costs", "parts", "last", "counts"),
    [
        ([10, 1, 1, 1, 1, 1], 2, 0.0, (1, 5)),
        ([1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2], 2, 0.0, (7, 5)),
        ([1] * 8, 2, 2.0, (5, 3)),
        ([1] * 8, 2, 4.5, (6, 2)),
        ([1] * 8, 2, 10.9, (7, 1)),
    ],
)
def test_known_answers(costs: list[float], parts: int, last: float, counts: tuple[int, ...]) -> None:
    assert split_evenly(costs, parts, last=last) == counts


def test_the_heaviest_layer_is_alone_or_light_enough() -> None:
    costs = [1, 1, 1, 1, 4, 1, 1, 1]
    assert max(weigh(costs, split_evenly(costs, 4), 0, 0)) == 4


def test_decimals_are_taken_as_they_are_written() -> None:
    """0.1 + 0.2 is not 0.3 in binary, and the first split would be the only best."""
    assert split_evenly([0.1, 0.2, 0.3], 2) == (2, 1)
    assert split_evenly([0.3, 0.1, 0.2, 0.3], 3, min_layers=1) == (1, 2, 1)


def test_a_thousand_layers_are_split() -> None:
    counts = split_evenly([1 + layer % 7 / 10 for layer in range(1000)], 256, first=0.3, last=5.0)
    assert sum(counts) == 1000
    assert len(counts) == 256


@given(st.lists(st.integers(0, 9), min_size=1, max_size=30), st.data())
def test_the_heaviest_stage_is_as_light_where_the_spread_is_looked_for_near_even_alone(costs: list[int], data: st.DataObject) -> None:
    parts, least = data.draw(st.integers(1, len(costs))), data.draw(st.integers(0, 1))
    first, last = data.draw(st.integers(0, 30)), data.draw(st.integers(0, 30))
    exact = split_evenly(costs, parts, first=first, last=last, min_layers=least)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(splitting, "MOST_CELLS", 0)
        found = split_evenly(costs, parts, first=first, last=last, min_layers=least)
    assert (len(found), sum(found)) == (parts, len(costs))
    assert min(found) >= least
    loads, others = weigh(costs, exact, first, last), weigh(costs, found, first, last)
    assert max(others) == max(loads)
    assert sum(load**2 for load in others) >= sum(load**2 for load in loads)


@pytest.mark.slow
def test_thousands_of_stages_are_split_within_seconds() -> None:
    begun = time.process_time()
    counts = split_evenly([1 + layer % 7 / 10 for layer in range(10_000)], 5_000, first=0.3, last=5.0)
    assert time.process_time() - begun < 40
    assert (sum(counts), len(counts), min(counts)) == (10_000, 5_000, 1)


@pytest.mark.parametrize(
    ("costs", "parts", "least", "message"),
    [
        ([1], 0, 1, "0 stages, there is at least one"),
        ([1], 1, 2, "min_layers is 2, not 0 or 1"),
        ([1], 2, 1, "1 layers cannot fill 2 stages"),
        ([nan], 1, 1, "a layer weighs nan, not a finite number from 0"),
        ([inf], 1, 1, "a layer weighs inf, not a finite number from 0"),
        ([-1], 1, 1, "a layer weighs -1, not a finite number from 0"),
    ],
)
def test_what_cannot_be_split_is_refused(costs: list[float], parts: int, least: int, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}$"):
        split_evenly(costs, parts, min_layers=least)
