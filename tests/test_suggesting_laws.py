"""The search against one that looks at every layout, on small random problems."""

from __future__ import annotations

from itertools import count, islice
from random import Random
from typing import TYPE_CHECKING

import pytest

from ppdsl.schedules import find_obstacle
from ppdsl.suggesting import NoLayoutError, Problem, suggest
from ppdsl.suggesting.choices import list_choices
from tests.naive_search import find_best, list_layouts, place
from tests.suggest_cases import draw_problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ppdsl.options import Placement

SAME = 1e-9
MOST_LAYOUTS = 300
MOST_STAGES = 8
WHOLE: tuple[tuple[str, int, Placement], ...] = (("gpipe", 2, "v"), ("1f1b", 1, "loop"), ("interleaved_1f1b", 2, "loop"))
SPLIT: tuple[tuple[str, int, Placement], ...] = (("zb_h1", 1, "loop"), ("zb_h2", 1, "loop"), ("zb_v", 2, "v"))


def draw_cases(start: int, shapes: tuple[tuple[str, int, Placement], ...]) -> Iterator[Problem]:
    """Give random problems whose layouts can all be looked at."""
    for seed in count(start):
        random = Random(seed)  # noqa: S311 -- the same cases each time
        schedule, vpp, placement = random.choice(shapes)
        problem = draw_problem(random, schedule=schedule, vpp=vpp, placement=placement)
        owners = place(problem.pp, vpp, placement)
        if find_obstacle(schedule, owners, problem.pp, problem.microbatches) is not None:
            continue
        if 0 < len([*islice(list_layouts(problem, owners), MOST_LAYOUTS + 1)]) <= MOST_LAYOUTS:
            yield problem


def judge(problem: Problem) -> str:
    """Compare the search with looking at every layout; say how it came out."""
    best = find_best(problem, vpp=problem.vpp or 1, placement="v" if problem.placement == "v" else "loop")
    try:
        answer = suggest(problem, effort=500_000)
    except NoLayoutError:
        assert best is None
        return "none fits"
    assert best is not None
    assert answer.time >= best.time * (1 - SAME), answer.plan.layout
    assert answer.bound <= best.time * (1 + SAME), best.layout
    assert answer.bound <= answer.time
    if answer.optimal:
        assert answer.time <= best.time * (1 + SAME), best.layout
        assert answer.bound == answer.time
        return "proved"
    return "equal" if answer.time <= best.time * (1 + SAME) else "worse"


@pytest.mark.parametrize("shapes", [WHOLE, SPLIT], ids=["whole backwards", "split backwards"])
def test_no_layout_is_better_than_one_that_is_called_optimal(shapes: tuple[tuple[str, int, Placement], ...]) -> None:
    found = [judge(problem) for problem in islice(draw_cases(0, shapes), 40)]
    assert found.count("proved") >= 25
    assert found.count("none fits") >= 2
    assert found.count("worse") == 0


@pytest.mark.slow
@pytest.mark.parametrize("shapes", [WHOLE, SPLIT], ids=["whole backwards", "split backwards"])
def test_that_holds_for_many(shapes: tuple[tuple[str, int, Placement], ...]) -> None:
    found = [judge(problem) for problem in islice(draw_cases(10_000, shapes), 600)]
    assert found.count("proved") >= 400
    assert found.count("worse") == 0


def test_a_bound_over_several_choices_holds_for_each() -> None:
    for seed in range(12):
        problem = draw_problem(Random(seed), pp=2, microbatches=4, vpp=None, placement="auto", group=None)  # noqa: S311 -- the same cases each time
        try:
            answer = suggest(problem, effort=2_000_000)
        except NoLayoutError:
            continue
        for choice in list_choices(problem):
            if len(choice.owners) > MOST_STAGES:  # too many layouts to look at them all
                continue
            placement: Placement = "v" if choice.placement == "v" else "loop"
            if len([*islice(list_layouts(problem, [*choice.owners]), MOST_LAYOUTS)]) < MOST_LAYOUTS:
                best = find_best(problem, vpp=choice.vpp, placement=placement, schedule=choice.schedule)
                assert best is None or answer.bound <= best.time * (1 + SAME)
                assert best is None or not answer.optimal or answer.time <= best.time * (1 + SAME)
