from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st

from ppdsl import Plan, check_layout, compile_layout
from ppdsl.options import Limits
from ppdsl.parsing import parse
from ppdsl.proving import verify
from ppdsl.schedules import NAMES
from ppdsl.strategies import (
    ALPHABET,
    LayoutCase,
    Mutant,
    ScheduledPlan,
    alphabet_texts,
    grammar_texts,
    layouts,
    mutants,
    plans,
    scheduled_plans,
)
from ppdsl.strategies.mutants import CODES
from tests.oracles import deal, expand

if TYPE_CHECKING:
    from collections.abc import Callable

    from ppdsl.options import Sizes

GENERATE = settings(max_examples=5_000, phases=[Phase.generate])
FEW = settings(max_examples=max(20, settings().max_examples // 10))


def errors(text: str, case: LayoutCase | Mutant) -> list[str]:
    return [each.code for each in check_layout(text, **case.sizes).diagnostics if each.severity == "error"]


@given(layouts(removals=True))
def test_a_drawn_layout_is_valid_with_its_sizes(case: LayoutCase) -> None:
    assert errors(case.text, case) == []
    plan = compile_layout(case.text, **case.sizes)
    assert (plan.pp, plan.vpp, plan.placement) == (case.pp, case.vpp, case.placement)
    assert (plan.num_layers, plan.mtp_num_layers) == (case.num_layers, case.mtp_num_layers)
    assert tuple(chunk.pp_rank for chunk in plan.chunks) == case.owners


@given(layouts())
def test_a_drawn_layout_has_the_stages_and_owners_that_it_says(case: LayoutCase) -> None:
    stages = expand(case.text)
    assert tuple(stage.layers for stage in stages) == case.stages
    assert deal(stages, {"pp": case.pp, "placement": case.placement}) == [*case.owners]


@given(layouts(dialect="megatron", removals=True))
def test_a_layout_in_megatrons_dialect_is_valid_for_megatron(case: LayoutCase) -> None:
    assert set(case.text) <= set("EtmL|()*,0123456789")
    assert case.placement == "loop"
    sizes: Sizes = {**case.sizes, "target": "megatron"}
    assert check_layout(case.text, **sizes).valid


@given(layouts(min_pp=2, max_pp=2, min_vpp=2, max_vpp=2, max_layers=1, max_mtp_layers=0, placements=("v",)))
def test_the_bounds_of_layouts_hold(case: LayoutCase) -> None:
    assert (case.pp, case.vpp, case.placement, case.mtp_num_layers) == (2, 2, "v", 0)
    assert len(case.stages) == 4
    assert max(stage.count("t") for stage in case.stages) <= 1


@pytest.mark.parametrize(
    "trait",
    [
        pytest.param(lambda case: "((" in case.text, id="nested groups"),
        pytest.param(lambda case: ")*" in case.text, id="repeated groups"),
        pytest.param(lambda case: bool(re.search(r"[|)],*\),*\*,*[2-9]", case.text)), id="repeated stages"),
        pytest.param(lambda case: "\n" in case.text, id="white space"),
        pytest.param(lambda case: case.text.startswith("'"), id="quotes"),
        pytest.param(lambda case: "\\|" in case.text, id="backslashes"),
        pytest.param(lambda case: "N" in case.text, id="the final norm"),
        pytest.param(lambda case: case.mtp_num_layers > 1, id="MTP layers"),
        pytest.param(lambda case: "" in case.stages, id="empty stages"),
        pytest.param(lambda case: case.placement == "owners" and case.owners.count(0) != case.owners.count(1), id="uneven owners"),
        pytest.param(lambda case: case.vpp > 2, id="many chunks a rank"),
        pytest.param(lambda case: "*0" in case.text, id="removals"),
    ],
)
def test_layouts_of_every_kind_are_drawn(trait: Callable[[LayoutCase], bool]) -> None:
    found = find(layouts(removals=True, min_pp=2), trait, settings=GENERATE)
    assert trait(found)


@pytest.mark.parametrize("code", CODES)
def test_a_mutant_carries_the_fault_that_it_says(code: str) -> None:
    @FEW
    @given(mutants(codes=[code]))
    def law(mutant: Mutant) -> None:
        assert mutant.code == code
        assert code in errors(mutant.text, mutant)

    law()


@given(mutants())
def test_a_mutant_is_never_compiled(mutant: Mutant) -> None:
    result = check_layout(mutant.text, **mutant.sizes)
    assert not result.valid
    assert result.plan is None


@given(mutants(codes=["PP101", "PP102", "PP103", "PP104", "PP105", "PP106", "PP107", "PP108", "PP109", "PP112"]))
def test_one_fault_of_syntax_is_reported_once(mutant: Mutant) -> None:
    assert [each.code for each in parse(mutant.text, Limits()).diagnostics] == [mutant.code]


@given(plans(max_pp=3, max_vpp=2))
def test_a_drawn_plan_owns_every_layer_once(plan: Plan) -> None:
    assert plan.pp <= 3
    assert plan.vpp <= 2
    assert [layer for chunk in plan.chunks for layer in range(*chunk.layers)] == [*range(plan.num_layers)]


@given(alphabet_texts(max_size=30, max_digits=2))
def test_alphabet_texts_keep_to_their_bounds(text: str) -> None:
    assert set(text) <= set(ALPHABET) | set("\\'")
    numbers = re.findall(r"\d+", text.replace(",", ""))
    assert all(len(number) <= 2 for number in numbers)


@FEW
@given(grammar_texts(max_count=3))
def test_grammar_texts_keep_to_their_bounds(text: str) -> None:
    assert set(text) <= set(ALPHABET) - set("456789") | set("\\")


@pytest.mark.parametrize("texts", [alphabet_texts(), grammar_texts()], ids=["alphabet", "grammar"])
@pytest.mark.parametrize("readable", [True, False])
def test_raw_texts_are_layouts_only_by_chance(texts: st.SearchStrategy[str], *, readable: bool) -> None:
    def as_wanted(text: str) -> bool:
        return (parse(text, Limits()).items is not None) is readable

    assert as_wanted(find(texts, as_wanted, settings=GENERATE))


@given(scheduled_plans())
def test_a_drawn_schedule_is_that_of_its_plan_and_its_program_is_proved(case: ScheduledPlan) -> None:
    assert case.schedule.owners == case.program.owners == tuple(chunk.pp_rank for chunk in case.plan.chunks)
    assert (case.schedule.name, case.schedule.microbatches, case.program.depth) == (case.name, case.microbatches, case.depth)
    assert verify(case.program, queues=1, pairs=True).proved


@given(scheduled_plans(names=("1f1b", "gpipe"), max_microbatches=3, max_depth=0, max_pp=2, max_vpp=1))
def test_the_bounds_of_schedules_hold(case: ScheduledPlan) -> None:
    assert case.name in ("1f1b", "gpipe")
    assert case.microbatches <= 3
    assert (case.depth, case.plan.vpp) == (0, 1)
    assert case.plan.pp <= 2


@pytest.mark.parametrize("name", NAMES)
def test_schedules_of_every_name_are_drawn_at_their_largest(name: str) -> None:
    strategy = scheduled_plans(names=(name,))
    found = find(strategy, lambda case: case.plan.pp > 2 and case.microbatches == 8 and case.depth == 2, settings=GENERATE)
    assert found.name == name


@pytest.mark.parametrize(
    "trait",
    [
        pytest.param(lambda case: case.group > case.plan.pp, id="larger groups"),
        pytest.param(lambda case: case.microbatches % case.group, id="groups that are not full"),
        pytest.param(lambda case: case.plan.vpp > 2, id="many chunks a rank"),
    ],
)
def test_interleaved_schedules_of_every_kind_are_drawn(trait: Callable[[ScheduledPlan], bool]) -> None:
    assert find(scheduled_plans(names=("interleaved_1f1b",)), trait, settings=GENERATE).group


@given(scheduled_plans(names=("interleaved_1f1b",), min_pp=3, max_microbatches=1))
def test_interleaved_schedules_have_microbatches_for_all_ranks(case: ScheduledPlan) -> None:
    assert case.microbatches == case.plan.pp


def test_a_scheduled_plan_is_shown_without_its_instructions() -> None:
    case = find(scheduled_plans(names=("interleaved_1f1b",), min_pp=2, max_pp=2), lambda _: True, settings=GENERATE)
    made = f"name='interleaved_1f1b', microbatches={case.microbatches}, group={case.group}, depth={case.depth}"
    assert repr(case) == f"ScheduledPlan(plan={case.plan!r}, {made})"
