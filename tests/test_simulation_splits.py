"""The best split of layers over stages, found by simulating every split: what a search has to find."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

import pytest

from ppdsl import compile_layout
from ppdsl.costs import read_costs
from ppdsl.schedules import Durations, make_schedule, time_schedule
from ppdsl.schedules.naming import make_named
from ppdsl.simulation import simulate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ppdsl.costs import Costs


class Case(NamedTuple):
    pp: int
    vpp: int
    layers: int
    loss: float
    microbatches: int
    delay: float
    best: float


CASES = [
    Case(2, 2, 9, 2.4, 4, 0.0, 74.10),
    Case(2, 3, 9, 1.2, 4, 0.05, 66.45),
    Case(4, 2, 12, 2.4, 8, 0.0, 112.20),
    Case(4, 1, 10, 2.4, 4, 0.0, 63.45),
]


def splits(layers: int, stages: int) -> Iterator[tuple[int, ...]]:
    """Give every way to deal the layers; the first stage and the last, which have E and L, may get none."""
    for cuts in combinations(range(1, layers + 2), stages - 1):
        counts = [after - before for before, after in zip((0, *cuts), (*cuts, layers + 2), strict=True)]
        yield (counts[0] - 1, *counts[1:-1], counts[-1] - 1)


def forward_times(split: tuple[int, ...], embedding: float, loss: float) -> tuple[float, ...]:
    times = [float(count) for count in split]
    times[0] += embedding
    times[-1] += loss
    return tuple(times)


def step_times(case: Case, embedding: float = 0.05) -> dict[tuple[int, ...], float]:
    owners = tuple(range(case.pp)) * case.vpp
    schedule = make_named("interleaved_1f1b", owners, case.pp, case.microbatches)
    times = {}
    for split in splits(case.layers, len(owners)):
        forward = forward_times(split, embedding, case.loss)
        durations = Durations(forward, tuple(2 * time for time in forward), forward, forward, case.delay)
        times[split] = time_schedule(schedule, durations).makespan
    return times


def heaviest(case: Case, split: tuple[int, ...]) -> float:
    """Give the forward time of the heaviest rank."""
    times = forward_times(split, 0.05, case.loss)
    return round(max(sum(times[rank :: case.pp]) for rank in range(case.pp)), 9)


def write_layout(split: tuple[int, ...]) -> str:
    return "E" + "|".join("t" * count for count in split) + "L"


def costs_of(case: Case, embedding: float = 0.05) -> Costs:
    kinds = {"E": {"forward": embedding}, "t": {"forward": 1.0}, "L": {"forward": case.loss}}
    return read_costs({"kinds": kinds, "p2p_ms": case.delay})


@pytest.mark.parametrize("case", CASES)
def test_the_best_split_takes_the_known_time(case: Case) -> None:
    times = step_times(case)
    best = min(times, key=times.__getitem__)
    assert round(times[best], 9) == case.best
    plan = compile_layout(write_layout(best), pp=case.pp)
    report = simulate(plan, make_schedule(plan, None, case.microbatches), costs_of(case))
    assert report.makespan == pytest.approx(case.best, abs=1e-9)


def test_splits_of_one_load_differ_in_time() -> None:
    times = step_times(CASES[0])
    least = min(heaviest(CASES[0], split) for split in times)
    assert round(max(time for split, time in times.items() if heaviest(CASES[0], split) == least), 9) == 92.10


@pytest.mark.parametrize(("case", "load", "least"), [(CASES[2], 4.05, 4.00), (CASES[3], 4.05, 3.40)])
def test_the_best_split_need_not_have_the_least_load(case: Case, load: float, least: float) -> None:
    times = step_times(case)
    assert min(heaviest(case, split) for split in times) == least
    best = min(times.values())
    assert min(heaviest(case, split) for split, time in times.items() if time <= best + 1e-9) == load
    assert min(time for split, time in times.items() if heaviest(case, split) == least) > best + 1e-9


@pytest.mark.parametrize(("embedding", "loss", "expected"), [(0.05, 0.3, (14, 13)), (0.3, 0.05, (13, 14))])
def test_an_odd_number_of_layers_leans_towards_the_lighter_end(embedding: float, loss: float, expected: tuple[int, ...]) -> None:
    case = Case(2, 1, 27, loss, 8, 0.0, 0.0)
    times = step_times(case, embedding)
    best = min(times, key=times.__getitem__)
    assert best == expected
    layout = "Et*14|t*13NL" if expected == (14, 13) else "Et*13|t*14NL"
    plan = compile_layout(layout, pp=2)
    assert simulate(plan, make_schedule(plan, None, 8), costs_of(case, embedding)).makespan == pytest.approx(times[best])
