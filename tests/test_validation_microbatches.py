from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ppdsl import check_layout
from ppdsl.validation.microbatches import RULES
from tests.reports import Case, read_cases

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ppdsl.diagnostics import Diagnostic, Rule
    from ppdsl.options import Sizes

CASES = read_cases("microbatches")


@pytest.mark.parametrize("case", CASES, ids=str)
def test_reports(case: Case) -> None:
    assert case.report(RULES) == case.expected


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_each_rule_is_reported(rule: Rule) -> None:
    assert any(f"{rule.severity}[{rule.code}]" in case.expected for case in CASES)


@given(
    pp=st.integers(1, 5),
    vpp=st.integers(1, 3),
    microbatches=st.integers(1, 30),
    group=st.none() | st.integers(1, 12),
    schedule=st.sampled_from([None, "1f1b", "interleaved_1f1b", "gpipe"]),
)
def test_the_rule_is_that_of_the_language(pp: int, vpp: int, microbatches: int, group: int | None, schedule: str | None) -> None:
    text = f"E(t|)*{pp * vpp - 1}tL"
    severities = [each.severity for each in _faults(text, pp=pp, microbatches=microbatches, microbatch_group_size=group, schedule=schedule)]
    n = group or pp
    if schedule == "interleaved_1f1b" or (schedule is None and vpp > 1):
        fits = pp <= n <= microbatches and (microbatches % n == 0 or microbatches % n >= pp)
        assert severities == ([] if fits else ["error"])
    else:
        assert severities == (["warning"] if schedule != "gpipe" and microbatches < pp else [])


@given(pp=st.integers(1, 6), microbatches=st.integers(1, 40), group=st.none() | st.integers(1, 12))
def test_every_number_that_a_help_names_fits(pp: int, microbatches: int, group: int | None) -> None:
    text = f"E(t|)*{2 * pp - 1}tL"
    for fault in _faults(text, pp=pp, microbatches=microbatches, microbatch_group_size=group):
        if fault.help == "leave --microbatch-group-size out, or raise it to pp":
            assert group is not None
            assert group < pp
        else:
            named = [int(number) for number in re.findall("[0-9]+", fault.help or "")]
            assert named
            assert not [each for number in named for each in _faults(text, pp=pp, microbatches=number, microbatch_group_size=group)]


def _faults(text: str, **sizes: Unpack[Sizes]) -> list[Diagnostic]:
    return [each for each in check_layout(text, **sizes).diagnostics if each.code == "PP315"]
