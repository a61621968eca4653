from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ppdsl.normal_form import normalize
from ppdsl.options import Limits
from ppdsl.parsing import parse
from ppdsl.placing import rank_of
from ppdsl.strategies import layouts
from ppdsl.validation.portability import RULES, is_loop, megatron_text, norm_is_implied
from tests.oracles import expand
from tests.reports import Case, read_cases

if TYPE_CHECKING:
    from ppdsl.diagnostics import Rule
    from ppdsl.nodes import Item
    from ppdsl.normal_form import NormalForm
    from ppdsl.options import Placement
    from ppdsl.strategies import LayoutCase

CASES = read_cases("portability")


@pytest.mark.parametrize("case", CASES, ids=str)
def test_reports(case: Case) -> None:
    assert case.report(RULES) == case.expected


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_each_rule_is_reported(rule: Rule) -> None:
    assert any(f"{rule.severity}[{rule.code}]" in case.expected for case in CASES)


STAGES = st.lists(st.tuples(st.sampled_from(["", "t", "tt", "t*3"]), st.integers(0, 3)), min_size=1, max_size=8)


@given(stages=STAGES, pp=st.integers(1, 4))
def test_owners_are_a_loop_when_each_stage_is_where_the_loop_puts_it(stages: list[tuple[str, int]], pp: int) -> None:
    text = "|".join(f"{layers}@{owner}" for layers, owner in stages)
    expected = len(stages) % pp == 0 and [owner for _, owner in stages] == [number % pp for number in range(len(stages))]
    assert is_loop(_form(text), pp, None) == expected


@given(stages=st.integers(1, 12), pp=st.integers(1, 6), placement=st.sampled_from(["loop", "v"]))
def test_a_placement_is_a_loop_when_it_puts_no_stage_elsewhere(stages: int, pp: int, placement: Placement) -> None:
    ranks = [rank_of(stage, pp, placement) for stage in range(stages)]
    assert is_loop(_form("|" * (stages - 1) or "E"), pp, placement) == (ranks == [stage % pp for stage in range(stages)])


@given(layouts())
def test_what_megatron_reads_has_the_same_stages_without_the_norm(case: LayoutCase) -> None:
    text = megatron_text(_form(case.text), 65_536)
    assert text is not None
    assert not set(text) & set("N@ \t\r\n'\"\\,")
    assert [stage.layers for stage in expand(text)] == [stage.layers.replace("N", "") for stage in expand(case.text)]


@pytest.mark.parametrize(
    ("text", "implied"),
    [
        ("EtNL", True),
        ("Et|NL", True),
        ("EtN|L", False),
        ("EtN|mL", True),
        ("Et|NmL", False),
        ("ENmL", True),
        ("EtL", True),
        ("EtN|NL", False),
        ("EtNNL", True),
    ],
)
def test_a_norm_is_implied_where_megatron_builds_it(text: str, implied: bool) -> None:  # noqa: FBT001 -- the expectation
    assert norm_is_implied(_form(text)) == implied


def test_a_text_over_the_limit_is_not_written() -> None:
    assert megatron_text(_form("E(t|tt|)*9L"), 46) is None
    assert megatron_text(_form("E(t|tt|)*9L"), 47) == "Et|" + "tt|t|" * 8 + "tt|L"
    assert megatron_text(normalize(_items("E(t|tt|)*9L"), Limits(stages=5)), 65_536) is None


def _items(text: str) -> tuple[Item, ...]:
    items = parse(text, Limits()).items
    assert items is not None
    return items


def _form(text: str) -> NormalForm:
    return normalize(_items(text), Limits())
