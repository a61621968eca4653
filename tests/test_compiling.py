from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ppdsl import LayoutError, Limits, OwnedChunks, Partition, RankMajor, Source, Uniform, check_layout, compile_layout
from ppdsl.compiling import check, plan_of
from ppdsl.options import Options
from ppdsl.strategies import LayoutCase, layouts

if TYPE_CHECKING:
    from ppdsl.options import Sizes

DEEPSEEK = "Et*3|(tt|)*29,m|L"


def test_a_valid_layout_has_all_that_was_derived() -> None:
    result = check_layout(DEEPSEEK, pp=16, num_layers=61, mtp_num_layers=1)
    assert result.valid
    assert result.source == Source(DEEPSEEK)
    assert result.options == Options(pp=16, num_layers=61, mtp_num_layers=1)
    assert result.canonical == "Et*3|(tt|)*29m|L"
    assert result.form is not None
    assert result.form.tally.stages == 32
    assert [result.count(severity) for severity in ("error", "warning", "info")] == [0, 2, 1]
    assert result.plan is not None
    assert result.plan is result.plan
    assert (result.plan.vpp, result.plan.num_layers, result.plan.mtp_num_layers) == (2, 61, 1)


def test_a_syntax_fault_leaves_nothing_to_derive() -> None:
    result = check_layout("E(tL", pp=2, num_layers=3)
    assert [each.code for each in result.diagnostics] == ["PP103"]
    assert (result.valid, result.subject, result.form, result.canonical, result.plan) == (False, None, None, None, None)
    assert result.fitting_sizes() == []


def test_an_invalid_layout_has_a_canonical_text_but_no_plan() -> None:
    result = check_layout("Et,t|t*2L", pp=2, num_layers=3)
    assert (result.valid, result.canonical, result.plan) == (False, "Ett|ttL", None)


def test_a_layout_without_pp_is_valid_but_has_no_plan() -> None:
    result = check_layout("Ett|ttL")
    assert (result.valid, result.plan) == (True, None)
    with pytest.raises(LayoutError) as raised:
        plan_of(result)
    assert str(raised.value) == "error[PP202]: a plan needs --pp\n   = help: give --pp"
    assert raised.value.source == result.source


def test_a_plan_whose_canonical_text_is_too_long_keeps_the_text_as_written() -> None:
    text = "Et*100|t*99L"
    assert compile_layout(text, pp=2).layout == text
    long = "E(t|tt|)*9|L"
    result = check_layout(long, pp=2, limits=Limits(text=len(long)))
    assert result.canonical is None
    assert result.plan is not None
    assert result.plan.layout == long


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ("EL", [(1, 1)]),
        ("Et|t|t|tL", [(1, 4), (2, 2), (4, 1)]),
        ("E(t|)*11L", [(1, 12), (2, 6), (3, 4), (4, 3), (6, 2), (12, 1)]),
        ("E(t|)*12L", [(1, 13), (13, 1)]),
        ("Et@0|tL@1", []),
        ("E(t|)*999999999L", []),
        ("(" * 200 + "t|" + ")*999999999999" * 200, []),
    ],
)
def test_the_sizes_that_fit_are_the_divisors(text: str, pairs: list[tuple[int, int]]) -> None:
    assert check_layout(text).fitting_sizes() == pairs


def test_sizes_out_of_range_are_all_that_is_said() -> None:
    result = check_layout("x", pp=0, vpp=-1)
    assert [each.code for each in result.diagnostics] == ["PP203", "PP203"]
    assert (result.source, result.subject) == (Source("x"), None)
    assert check_layout(Uniform(), pp=0).source is None


def test_owners_and_a_placement_are_a_conflict() -> None:
    for placement in ("loop", "v"):
        result = check(Source("Et@0|tL@1"), Options(placement=placement))
        assert [each.code for each in result.diagnostics] == ["PP201"]
        assert result.plan is None
    assert check_layout("Et@0|tL@1").valid


def test_remedies_are_tried_only_when_asked() -> None:
    untried = check(Source("tt"), Options(), confirm=False)
    assert [each.fix for each in untried.diagnostics] == [None, None]
    assert all(each.proposals for each in untried.diagnostics)
    tried = check(Source("tt"), Options())
    assert [each.fix for each in tried.diagnostics] == ["EttL", "EttL"]


def test_a_remedy_is_tried_against_the_same_limits() -> None:
    assert check_layout("tt", limits=Limits(text=3)).diagnostics[0].fix is None
    assert check_layout("tt", limits=Limits(text=4)).diagnostics[0].fix == "EttL"


def test_a_form_is_checked_by_the_same_rules_but_has_no_places() -> None:
    result = check_layout(OwnedChunks(((0, 1), (2, 1))), num_layers=3)
    assert result.source is None
    assert [each.code for each in result.diagnostics] == ["PP314", "PP302"]
    for each in result.diagnostics:
        assert (each.span, each.label, each.labels, each.fix, each.proposals) == (None, "", (), None, ())
    assert result.diagnostics[0].help == "give each rank a stage, or number the ranks without a gap"


def test_a_form_that_cannot_be_lowered_is_reported() -> None:
    result = check_layout(RankMajor((1, 2, 3)), pp=2, vpp=2)
    assert [each.code for each in result.diagnostics] == ["PP208"]
    assert (result.source, result.canonical, result.valid) == (None, None, False)


def test_a_form_fills_in_the_sizes_that_it_implies() -> None:
    result = check_layout(Partition((2, 3)))
    assert (result.options.pp, result.options.num_layers, result.canonical) == (2, 5, "Ett|t*3NL")
    assert result.plan is not None


def test_a_list_of_lists_is_a_layout() -> None:
    stages = [["embedding", "decoder"], ("decoder", "loss")]
    assert compile_layout(stages, pp=2) == compile_layout("Et|tL", pp=2)
    assert [each.code for each in check_layout([["embedding", "what"]]).diagnostics] == ["PP209"]


@pytest.mark.parametrize("layout", [[1, 2], [["embedding", 3]], None, 7, [None]])
def test_what_is_no_layout_at_all_is_reported_too(layout: object) -> None:
    (fault,) = check_layout(layout, pp=2).diagnostics  # type: ignore[arg-type]  # just so
    assert fault.code == "PP209"
    with pytest.raises(LayoutError) as raised:
        compile_layout(layout, pp=2)  # type: ignore[arg-type]  # just so
    assert raised.value.diagnostics == (fault,)


def test_an_invalid_layout_is_raised_with_every_diagnostic() -> None:
    with pytest.raises(LayoutError) as raised:
        compile_layout("Et||L", pp=3, num_layers=2)
    assert [each.code for each in raised.value.diagnostics] == ["PP302", "PP602", "PP604", "PP603", "PP601"]
    assert raised.value.source == Source("Et||L")
    assert str(raised.value).startswith(
        "error[PP302]: layout has 1 decoder layer, --num-layers says 2\n"
        "  --> <layout>:1:2\n"
        "   |\n"
        " 1 | Et||L\n"
        "   |  ^ 1 layer\n"
        "   = help: `tt` in stage 0 gives 2: Ett||L\n"
    )


def test_what_was_compiled_is_remembered() -> None:
    assert compile_layout("Et|tL", pp=2) is compile_layout("Et|tL", pp=2)
    assert compile_layout("Et|tL", pp=2) is not compile_layout("Et|tL", pp=1)
    assert compile_layout(Partition((1, 1))) is compile_layout(Partition((1, 1)))
    assert compile_layout([["embedding"], ["loss"]], pp=2) is compile_layout([("embedding",), ("loss",)], pp=2)


@given(case=layouts(), extra=st.integers(1, 3))
def test_a_valid_layout_compiles_and_one_with_other_sizes_does_not(case: LayoutCase, extra: int) -> None:
    plan = compile_layout(case.text, **case.sizes)
    assert (plan.pp, plan.vpp, plan.num_layers, plan.mtp_num_layers) == (case.pp, case.vpp, case.num_layers, case.mtp_num_layers)
    more: Sizes = {**case.sizes, "mtp_num_layers": case.mtp_num_layers + extra}
    wrong = check_layout(case.text, **more)
    assert "PP308" in [each.code for each in wrong.diagnostics]
    assert wrong.plan is None
