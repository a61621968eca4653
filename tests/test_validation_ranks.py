from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ppdsl import check_layout
from ppdsl.validation.ranks import RULES
from tests.oracles import expand
from tests.reports import Case, read_cases

if TYPE_CHECKING:
    from ppdsl.diagnostics import Rule

CASES = read_cases("ranks")


@pytest.mark.parametrize("case", CASES, ids=str)
def test_reports(case: Case) -> None:
    assert case.report(RULES) == case.expected


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_each_rule_is_reported(rule: Rule) -> None:
    assert any(f"{rule.severity}[{rule.code}]" in case.expected for case in CASES)


def test_at_most_twenty_owners_outside_are_reported() -> None:
    result = check_layout("E" + "t@2|@3|" * 11 + "tL@0", pp=2)
    assert [each.code for each in result.diagnostics if each.severity == "error"] == ["PP314"] * 20


@given(
    decoders=st.integers(0, 40),
    tail=st.sampled_from(["L", "NL", "mL", "NmmL", "m*9L"]),
    stages=st.integers(1, 12),
    pp=st.integers(2, 9),
    vpp=st.none() | st.integers(1, 3),
)
def test_dealt_anew_has_the_same_layers_as_evenly_as_can_be(decoders: int, tail: str, stages: int, pp: int, vpp: int | None) -> None:
    text = f"E{'t' * decoders}{'|' * (stages - 1)}{tail}"
    faults = [each for each in check_layout(text, pp=pp, vpp=vpp).diagnostics if each.code == "PP301"]
    assert bool(faults) == (stages % pp != 0)
    for fault in faults:
        dealt = [stage.layers for stage in expand(fault.fix or "")]
        assert "".join(dealt) == "".join(stage.layers for stage in expand(text))
        assert len(dealt) == pp * (vpp or max(1, (2 * stages + pp) // (2 * pp)))
        sizes = [stage.count("t") for stage in dealt]
        assert sizes == sorted(sizes, reverse=True)
        assert max(sizes) - min(sizes) <= 1
        assert set(dealt[-1]) & set("NmL") == set("".join(dealt)) & set("NmL")
