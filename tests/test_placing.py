from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ppdsl.normal_form import normalize
from ppdsl.options import Limits
from ppdsl.parsing import parse
from ppdsl.placing import rank_cycle, rank_of, stage_of, sum_by_rank
from tests.oracles import expand

if TYPE_CHECKING:
    from ppdsl.normal_form import NormalForm
    from ppdsl.options import Placement

PLACEMENTS: st.SearchStrategy[Placement] = st.sampled_from(["loop", "v"])
STAGES = st.lists(st.tuples(st.sampled_from(["", "t", "tt", "t*3"]), st.integers(1, 9)), min_size=1, max_size=6)


def form_of(text: str) -> NormalForm:
    items = parse(text, Limits()).items
    assert items is not None
    return normalize(items, Limits())


@pytest.mark.parametrize(
    ("pp", "placement", "cycle"),
    [(1, "loop", (0,)), (3, "loop", (0, 1, 2)), (1, "v", (0, 0)), (3, "v", (0, 1, 2, 2, 1, 0))],
)
def test_the_ranks_of_the_first_stages(pp: int, placement: Placement, cycle: tuple[int, ...]) -> None:
    assert rank_cycle(pp, placement) == cycle
    assert tuple(rank_of(stage, pp, placement) for stage in range(len(cycle))) == cycle


@given(stage=st.integers(0, 10**6), pp=st.integers(1, 99), placement=PLACEMENTS)
def test_the_rank_of_a_stage_is_that_of_the_cycle(stage: int, pp: int, placement: Placement) -> None:
    cycle = rank_cycle(pp, placement)
    assert rank_of(stage, pp, placement) == cycle[stage % len(cycle)]


@given(rank=st.integers(0, 98), chunk=st.integers(0, 99), pp=st.integers(1, 99), placement=PLACEMENTS)
def test_a_stage_and_its_rank_find_each_other(rank: int, chunk: int, pp: int, placement: Placement) -> None:
    rank %= pp
    stage = stage_of(rank, chunk, pp, placement)
    assert stage // pp == chunk
    assert rank_of(stage, pp, placement) == rank


@given(runs=STAGES, pp=st.integers(1, 7), placement=PLACEMENTS)
def test_a_sum_by_rank_is_that_of_the_stages_one_by_one(runs: list[tuple[str, int]], pp: int, placement: Placement) -> None:
    text = "".join(f"({layers}|)*{count}" for layers, count in runs)
    text += "|" * (-(text.count("|") and len(expand(text))) % pp)
    stages = expand(text)
    sums = [0] * pp
    for number, stage in enumerate(stages):
        sums[rank_of(number, pp, placement)] += stage.layers.count("t")
    form = form_of(text)
    assert sum_by_rank(form, (stage.count("t") for stage in form.stages), pp, placement) == sums


@given(stages=st.lists(st.tuples(st.sampled_from(["", "t", "tt"]), st.integers(0, 3), st.integers(1, 5)), min_size=1, max_size=6))
def test_a_sum_by_owner_is_that_of_the_stages_one_by_one(stages: list[tuple[str, int, int]]) -> None:
    sums = [0] * 4
    for layers, owner, count in stages:
        sums[owner] += layers.count("t") * count
    form = form_of("".join(f"({layers}@{owner}|)*{count}" for layers, owner, count in stages) + "@0")
    assert sum_by_rank(form, [stage.count("t") for stage in form.stages], 4, None) == sums


def test_a_layout_that_is_not_listed_has_no_sums() -> None:
    items = parse("E(t|tt|)*9L", Limits()).items
    assert items is not None
    form = normalize(items, Limits(stages=3))
    assert sum_by_rank(form, [], 2, "loop") == sum_by_rank(form, [], 2, None) == [0, 0]
