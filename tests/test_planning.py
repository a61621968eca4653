"""The plan of a layout: what it says, and how it is written, drawn and remapped."""

from __future__ import annotations

import dataclasses
import re
import sys
from typing import TYPE_CHECKING, Any

import pytest

from ppdsl import compile_layout
from ppdsl.planning import LayerMove, Plan
from ppdsl.planning.tables import table_as_json, table_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

GPT2 = "Et*3||t*3|t*6NL"
DEEPSEEK = "Et*3|(tt|)*29,m|L"
UNIT_CASE = "E|t|t*2|t||(t|)*2,t*2,L"
UNEVEN = "Ett|tt|tt|t|tt|tt|tt|tL"
OWNED = "Et*3@0|t*3@1|t*3@1|t*3NL@0"


def test_the_unit_case_of_megatron_has_its_golden_layers() -> None:
    plan = compile_layout(UNIT_CASE, pp=4)
    counted_from_1 = [[[layer + 1 for layer in plan.layer_ids(rank, number)] for number in (0, 1)] for rank in range(4)]
    assert counted_from_1 == [[[], []], [[1], [5]], [[2, 3], [6]], [[4], [7, 8]]]


def test_the_uneven_case_of_megatron_has_its_golden_offsets() -> None:
    plan = compile_layout(UNEVEN, pp=4)
    assert [[plan.layer_offset(rank, number) for rank in range(4)] for number in (0, 1)] == [[0, 2, 4, 6], [7, 9, 11, 13]]


@pytest.fixture(scope="module")
def peer() -> Iterator[Callable[[str, int], Any]]:
    if sys.version_info < (3, 11):
        pytest.skip("megatron-core needs Python 3.11")
    from megatron.core import parallel_state  # noqa: PLC0415 -- it takes seconds to load
    from megatron.core.transformer.pipeline_parallel_layer_layout import PipelineParallelLayerLayout  # noqa: PLC0415 -- the same

    parallel_state.set_virtual_pipeline_model_parallel_world_size(2)
    yield PipelineParallelLayerLayout
    parallel_state.set_virtual_pipeline_model_parallel_world_size(None)


@pytest.mark.peer
@pytest.mark.parametrize(
    ("layout", "pp"),
    [(UNIT_CASE, 4), (UNEVEN, 4), (DEEPSEEK, 16), ("Et|(tt|)*30mL", 8), ("E,(t)*13|(t)*14,L", 2), ("E|t*3|(t|)*3tt|m|L", 4), ("EttL", 1)],
)
def test_megatron_gives_the_same_answers(peer: Callable[[str, int], Any], layout: str, pp: int) -> None:
    plan, theirs = compile_layout(layout, pp=pp), peer(layout, pp)
    assert plan.vpp == theirs.virtual_pipeline_model_parallel_size
    for rank in range(pp):
        for number in range(plan.vpp):
            where = {"pp_rank": rank, "vp_stage": number}
            assert plan.num_layers_to_build(rank, number) == theirs.get_num_layers_to_build(**where)
            assert plan.layer_offset(rank, number) == theirs.get_layer_offset(**where)
            assert plan.layer_ids(rank, number) == theirs.get_layer_id_list(**where)


def test_stages_go_back_and_forth_in_a_v() -> None:
    plan = compile_layout("Et|t|t|t|t|tL", pp=2, placement="v")
    assert [chunk.pp_rank for chunk in plan.chunks] == [0, 1, 1, 0, 0, 1]
    assert [chunk.vpp_rank for chunk in plan.chunks] == [0, 0, 1, 1, 2, 2]
    assert plan.layer_ranges(1) == [(1, 2), (2, 3), (5, 6)]


def test_owners_may_hold_different_numbers_of_chunks() -> None:
    plan = compile_layout("Et@1|t*2@1|t@0|tL@1")
    assert (plan.pp, plan.vpp, plan.placement) == (2, 3, "owners")
    assert plan.layer_ranges(0) == [(3, 4)]
    assert plan.layer_ranges(1) == [(0, 1), (1, 3), (4, 5)]
    assert plan.chunk(1, 2).loss


@pytest.mark.parametrize(
    ("layout", "pp", "untied", "tied"),
    [(GPT2, 2, [0], [0, 1]), (OWNED, 2, [0], [0]), ("Et|t|tm|L", 4, [0, 2], [0, 2, 3]), ("EtmL", 1, [0], [0])],
)
def test_ranks_that_hold_the_word_embedding(layout: str, pp: int, untied: list[int], tied: list[int]) -> None:
    plan = compile_layout(layout, pp=pp)
    assert plan.embedding_ranks(tied=False) == untied
    assert plan.embedding_ranks(tied=True) == tied


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda plan: plan.chunks_of(2), "pp_rank 2 is outside 0..1"),
        (lambda plan: plan.chunks_of(-1), "pp_rank -1 is outside 0..1"),
        (lambda plan: plan.chunk(0, 2), "vpp_rank 2 is outside 0..1"),
        (lambda plan: plan.chunk(2, 0), "pp_rank 2 is outside 0..1"),
        (lambda plan: plan.layer_ranges(2), "pp_rank 2 is outside 0..1"),
        (lambda plan: plan.stage_for_layer(12), "layer 12 is outside 0..11"),
        (lambda plan: plan.rank_for_layer(-1), "layer -1 is outside 0..11"),
        (lambda plan: plan.local_layer(99), "layer 99 is outside 0..11"),
        (lambda plan: plan.owns_embedding(2), "pp_rank 2 is outside 0..1"),
        (lambda plan: plan.owns_final_norm(-2), "pp_rank -2 is outside 0..1"),
        (lambda plan: plan.owns_lm_head(2), "pp_rank 2 is outside 0..1"),
        (lambda plan: plan.num_layers_to_build(0, -1), "vpp_rank -1 is outside 0..1"),
        (lambda plan: plan.layer_offset(3, 0), "pp_rank 3 is outside 0..1"),
        (lambda plan: plan.layer_ids(1, 7), "vpp_rank 7 is outside 0..1"),
        (lambda plan: plan.needs_tokens(4), "stage 4 is outside 0..3"),
        (lambda plan: plan.needs_labels(-1), "stage -1 is outside 0..3"),
    ],
)
def test_an_index_outside_its_range_is_named_with_the_range(ask: Callable[[Plan], object], message: str) -> None:
    with pytest.raises(IndexError, match=f"^{re.escape(message)}$"):
        ask(compile_layout(GPT2, pp=2))


def test_a_model_without_decoder_layers_has_none_to_ask_for() -> None:
    with pytest.raises(IndexError, match=r"^layer 0: there are none$"):
        compile_layout("E|L", pp=2).stage_for_layer(0)


def test_a_plan_is_frozen_and_has_no_room_for_more() -> None:
    plan = compile_layout(GPT2, pp=2)
    with pytest.raises(dataclasses.FrozenInstanceError):
        plan.pp = 3  # type: ignore[misc]  # what is forbidden is what is tried
    with pytest.raises(AttributeError):
        plan.chunks[0].pp_rank = 1  # type: ignore[misc]  # the same
    assert not hasattr(plan, "__dict__")


@pytest.mark.parametrize(
    ("one", "other", "pp", "equal"),
    [
        ("E t t|t L", "Ett|tL", 2, True),
        ("Ettt|tttL", "E(t)*3|t,t tNL", 2, True),
        ("Et|tm|L", "Et|tNm|L", 3, True),
        ("Et|t|t|tL", "Et@0|t@1|t@0|tL@1", 2, True),
        ("Et|t|t|tL", "Et@0|t@1|t@1|tL@0", 2, False),
        ("Ett|tL", "Et|ttL", 2, False),
        ("EttN|L", "Ett|L", 2, False),
    ],
)
def test_plans_are_equal_when_they_mean_the_same(one: str, other: str, pp: int, equal: bool) -> None:  # noqa: FBT001 -- a column of the table
    left, right = compile_layout(one, pp=pp), compile_layout(other, pp=pp)
    assert (left == right) is equal
    assert (len({left, right}) == 1) is equal
    assert (left.fingerprint == right.fingerprint) is equal


def test_a_plan_is_no_other_thing() -> None:
    plan = compile_layout(GPT2, pp=2)
    assert plan != plan.to_json()
    assert plan != plan.meaning()


def test_the_meaning_is_four_lines() -> None:
    assert compile_layout("Et*3||tt|tt||mmL", pp=6).meaning() == "ppdsl-plan-1\nEt*3||tt|tt||mmL\n0,1,2,3,4,5\n3"
    assert compile_layout(OWNED).meaning() == "ppdsl-plan-1\nEt*3|t*3|t*3|t*3L\n0,1,1,0\n3"


def test_the_fingerprint_stays_what_it_was() -> None:
    """It is stored in checkpoints: it may change only together with the version in its text."""
    assert compile_layout(GPT2, pp=2).fingerprint == "sha256:4311abba1fb41b89771bf95a8fe59cd016f5ed137260de6fb3d2e4b3828fb462"


def test_json_of_a_plan() -> None:
    plan = compile_layout(GPT2, pp=2)
    rest = {"mtp_layers": [0, 0]}
    nothing = {"embedding": False, "final_norm": False, "loss": False}
    assert plan.to_json() == {
        "schema_version": "1.0",
        "kind": "ppdsl.plan",
        "layout": GPT2,
        "pp": 2,
        "vpp": 2,
        "placement": "loop",
        "num_layers": 12,
        "mtp_num_layers": 0,
        "chunks": [
            {"stage": 0, "pp_rank": 0, "vpp_rank": 0, "layers": [0, 3], **rest, "embedding": True, "final_norm": False, "loss": False},
            {"stage": 1, "pp_rank": 1, "vpp_rank": 0, "layers": [3, 3], **rest, **nothing},
            {"stage": 2, "pp_rank": 0, "vpp_rank": 1, "layers": [3, 6], **rest, **nothing},
            {"stage": 3, "pp_rank": 1, "vpp_rank": 1, "layers": [6, 12], **rest, "embedding": False, "final_norm": True, "loss": True},
        ],
        "embedding_ranks": {"tied": [0, 1], "untied": [0]},
        "fingerprint": plan.fingerprint,
    }


def test_table_of_a_small_plan() -> None:
    assert compile_layout(GPT2, pp=2).table() == (
        "rank  vpp 0          vpp 1\n"
        "   0  0: Et*3 [0-2]  2: t*3 [3-5]\n"
        "   1  1: (empty)     3: t*6NL [6-11]"
    )  # fmt: skip


def test_table_of_ranks_with_different_numbers_of_chunks() -> None:
    assert compile_layout("Et@1|t*2@1|t@0|mmL@1").table() == (
        "rank  vpp 0      vpp 1        vpp 2\n"
        "   0  2: tN [3]\n"
        "   1  0: Et [0]  1: tt [1-2]  3: mmL"
    )  # fmt: skip


def test_table_of_a_large_plan_says_how_much_more_there_is() -> None:
    lines = compile_layout("E(t|)*1399L", pp=100).table().split("\n")
    assert len(lines) == 66
    assert lines[0].startswith("rank  vpp 0       vpp 1         vpp 2 ")
    assert lines[0].endswith(" vpp 11")
    assert lines[1].startswith("   0  0: Et [0]   100: t [100]  200: t [200] ")
    assert lines[1].endswith(" 1100: t [1100]  … 2 more")
    assert lines[64].startswith("  63  63: t [63]  163: t [163] ")
    assert lines[65] == "   …  36 more"
    assert all(line == line.rstrip() for line in lines)


def test_a_plan_just_within_the_limits_is_drawn_whole() -> None:
    rows = table_rows(compile_layout("E(t|)*767L", pp=64))
    assert (len(rows), {len(row) for row in rows}) == (65, {13})
    assert rows[64][12] == "767: NL"


def test_table_as_json_has_every_field_of_every_chunk() -> None:
    plan = compile_layout("E(t|)*1399L", pp=100)
    table: Any = table_as_json(plan)
    assert [len(row) for row in table] == [14] * 100
    chunks: Any = plan.to_json()["chunks"]
    assert table[0][0] == {**chunks[0], "text": "Et"}
    assert table[99][13] == {
        "stage": 1399,
        "text": "NL",
        "pp_rank": 99,
        "vpp_rank": 13,
        "layers": [1399, 1399],
        "mtp_layers": [0, 0],
        "embedding": False,
        "final_norm": True,
        "loss": True,
    }


def test_remapping_names_every_layer_in_forward_order() -> None:
    moves = compile_layout("Et|tmL", pp=2).remap(compile_layout("Ett|mL", pp=2))
    assert moves == [
        LayerMove("embedding", 0, (0, 0, 0), (0, 0, 0)),
        LayerMove("decoder", 0, (0, 0, 0), (0, 0, 0)),
        LayerMove("decoder", 1, (1, 0, 0), (0, 0, 1)),
        LayerMove("final_norm", 0, (1, 0, 0), (0, 0, 0)),
        LayerMove("mtp", 0, (1, 0, 0), (1, 0, 0)),
        LayerMove("loss", 0, (1, 0, 0), (1, 0, 0)),
    ]


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ("EttmmL", "the plans are of different models: 1 mtp layers and 2"),
        ("EtttmL", "the plans are of different models: 2 decoder layers and 3"),
    ],
)
def test_plans_of_different_models_are_not_remapped(other: str, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}$"):
        compile_layout("Ett|mL", pp=2).remap(compile_layout(other, pp=1))
