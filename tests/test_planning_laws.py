"""The laws of a plan, on random layouts: it agrees with an independent expansion, owns each layer once, and survives storing."""

from __future__ import annotations

import copy
import dataclasses
import json
import pickle
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from ppdsl import compile_layout
from ppdsl.planning import Chunk, LayerMove, Plan

if TYPE_CHECKING:
    from ppdsl.options import Placement


@dataclass(frozen=True, slots=True)
class Case:
    """A random valid layout.

    Attributes:
        text: How it is spelled.
        stages: What it means: each stage's symbols, one by one.
        owners: The rank of each stage.
        pp: Number of pipeline ranks.
        placement: None where the text has owners.
    """

    text: str
    stages: list[str]
    owners: list[int]
    pp: int
    placement: Placement | None

    @property
    def plan(self) -> Plan:
        return compile_layout(self.text, pp=self.pp, placement=self.placement)


def expand(text: str) -> list[str]:
    """Write out every repeat, innermost groups first, and cut at the bars."""
    text = re.sub(r"[ ,]", "", text)
    while "(" in text:
        text = re.sub(r"\(([^()]*)\)(?:\*(\d+))?", lambda match: match[1] * int(match[2] or 1), text)
    return re.sub(r"(.)\*(\d+)", lambda match: match[1] * int(match[2]), text).split("|")


UNITS = st.recursive(
    st.sampled_from(["t", "tt", "t*3", "|", "t|", "|*2", " ", "t,"]),
    lambda units: (
        st.builds("({}t{}){}".format, units, units, st.sampled_from(["", "*1", "*2", "*3"])) | st.builds("{}{}".format, units, units)
    ),
    max_leaves=6,
)


@st.composite
def dealt_cases(draw: st.DrawFn) -> Case:
    """Give layouts whose stages are dealt out."""
    head, tail = draw(st.sampled_from([("E", "L"), ("E", "NL"), ("Et", "mL"), ("Et", "mmL"), ("E", "N|m|L"), ("Et|", "m|L"), ("E", "|L")]))
    text = head + draw(UNITS) + tail
    stages = expand(text)
    placement: Placement = draw(st.sampled_from(["loop", "v"]))
    fitting = [pp for pp in range(1, len(stages) + 1) if len(stages) % pp == 0]
    pp = draw(st.sampled_from(fitting[1:] if "m" in text and len(fitting) > 1 else fitting))
    passes = [divmod(number, pp) for number in range(len(stages))]
    owners = [pp - 1 - place if placement == "v" and turn % 2 else place for turn, place in passes]
    return Case(text, stages, owners, pp, placement)


@st.composite
def owned_cases(draw: st.DrawFn) -> Case:
    """Give layouts whose stages have owners of their own."""
    pp = draw(st.integers(1, 4))
    owners = draw(st.permutations([*range(pp), *draw(st.lists(st.integers(0, pp - 1), max_size=5))]))
    stages = ["t" * draw(st.integers(0, 3)) for _ in owners]
    stages[0] = "E" + stages[0]
    stages[-1] += draw(st.sampled_from(["L", "NL", "NmmL"]))
    return Case("|".join(f"{stage}@{owner}" for stage, owner in zip(stages, owners, strict=True)), stages, owners, pp, None)


CASES = dealt_cases() | owned_cases()


def slow_chunks(case: Case) -> list[Chunk]:
    """Walk through the symbols one by one."""
    whole = "".join(case.stages)
    wanted = "N" if "N" in whole else "t" if "t" in whole and "m" in whole else "L"
    norm = max(number for number, stage in enumerate(case.stages) if wanted in stage)
    chunks: list[Chunk] = []
    seen = {"t": 0, "m": 0}
    for number, (stage, owner) in enumerate(zip(case.stages, case.owners, strict=True)):
        before = dict(seen)
        for symbol in stage:
            if symbol in seen:
                seen[symbol] += 1
        ranges = ((before["t"], seen["t"]), (before["m"], seen["m"]))
        chunks.append(Chunk(number, owner, case.owners[:number].count(owner), *ranges, "E" in stage, number == norm, "L" in stage))
    return chunks


@given(CASES)
def test_a_plan_agrees_with_an_independent_expansion(case: Case) -> None:
    plan, chunks = case.plan, slow_chunks(case)
    whole = "".join(case.stages)
    assert list(plan.chunks) == chunks
    assert (plan.pp, plan.vpp) == (case.pp, max(map(case.owners.count, range(case.pp))))
    assert (plan.num_layers, plan.mtp_num_layers) == (whole.count("t"), whole.count("m"))
    assert plan.placement == (case.placement or "owners")
    for rank in range(case.pp):
        owned = [chunk for chunk in chunks if chunk.pp_rank == rank]
        assert list(plan.chunks_of(rank)) == owned
        assert [plan.chunk(rank, number) for number in range(len(owned))] == owned
        assert plan.layer_ranges(rank) == [chunk.layers for chunk in owned]
        assert plan.owns_embedding(rank) == any(chunk.embedding for chunk in owned)
        assert plan.owns_final_norm(rank) == any(chunk.final_norm for chunk in owned)
        assert plan.owns_lm_head(rank) == any(chunk.loss for chunk in owned)
    for stage, symbols in enumerate(case.stages):
        assert plan.needs_tokens(stage) == bool({"E", "m"} & set(symbols))
        assert plan.needs_labels(stage) == ("L" in symbols)
    for tied, symbols in ((False, "Em"), (True, "EmL")):
        holders = {owner for owner, stage in zip(case.owners, case.stages, strict=True) if set(stage) & set(symbols)}
        assert plan.embedding_ranks(tied=tied) == sorted(holders)


@given(CASES)
def test_every_layer_is_owned_exactly_once(case: Case) -> None:
    plan = case.plan
    pairs = [(rank, number) for rank in range(plan.pp) for number in range(len(plan.chunks_of(rank)))]
    assert sorted(layer for pair in pairs for layer in plan.layer_ids(*pair)) == list(range(plan.num_layers))
    assert sorted(layer for chunk in plan.chunks for layer in range(*chunk.mtp_layers)) == list(range(plan.mtp_num_layers))
    for owns in (plan.owns_embedding, plan.owns_final_norm, plan.owns_lm_head):
        assert sum(map(owns, range(plan.pp))) == 1


@given(CASES)
def test_local_layer_is_the_inverse_of_layer_ids(case: Case) -> None:
    plan = case.plan
    for layer in range(plan.num_layers):
        rank, number, index = plan.local_layer(layer)
        assert plan.layer_ids(rank, number)[index] == layer
        assert plan.layer_offset(rank, number) + index == layer
        assert index < plan.num_layers_to_build(rank, number)
        assert plan.rank_for_layer(layer) == rank
        assert plan.stage_for_layer(layer) == plan.chunk(rank, number)


@given(CASES)
def test_json_round_trips(case: Case) -> None:
    plan = case.plan
    for back in (Plan.from_json(plan.to_json()), Plan.from_json(json.dumps(plan.to_json()))):
        assert back == plan
        assert dataclasses.astuple(back) == dataclasses.astuple(plan)


@given(CASES, st.integers(0, pickle.HIGHEST_PROTOCOL))
def test_a_pickled_or_copied_plan_is_the_same(case: Case, protocol: int) -> None:
    plan = case.plan
    for back in (pickle.loads(pickle.dumps(plan, protocol)), copy.deepcopy(plan)):  # noqa: S301 -- what was just written
        assert back == plan
        assert hash(back) == hash(plan)
        assert back.chunks_of(plan.pp - 1) == plan.chunks_of(plan.pp - 1)


@given(CASES, CASES)
def test_equality_is_that_of_meaning(one: Case, other: Case) -> None:
    alike = slow_chunks(one) == slow_chunks(other)
    assert (one.plan == other.plan) == (one.plan.fingerprint == other.plan.fingerprint) == alike


@given(CASES)
def test_a_plan_equals_that_of_its_own_layout(case: Case) -> None:
    plan = case.plan
    again = compile_layout(plan.layout, pp=case.pp, placement=case.placement)
    assert (again, hash(again), again.layout) == (plan, hash(plan), plan.layout)


@given(CASES)
def test_remapping_there_and_back_is_symmetric(case: Case) -> None:
    plan = case.plan
    head, tail = f"Et*{plan.num_layers}", f"Nm*{plan.mtp_num_layers}L"
    whole = compile_layout(head + tail, pp=1)
    moves = plan.remap(whole)
    assert whole.remap(plan) == [LayerMove(move.kind, move.layer, move.after, move.before) for move in moves]
    assert [move.after for move in moves if move.kind == "decoder"] == [(0, 0, layer) for layer in range(plan.num_layers)]
    assert [move.before for move in moves if move.kind == "decoder"] == [*map(plan.local_layer, range(plan.num_layers))]
    assert all(move.before == move.after for move in plan.remap(plan))
    assert len(moves) == plan.num_layers + plan.mtp_num_layers + 3
