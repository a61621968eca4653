from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ppdsl import check_layout
from ppdsl.validation.counts import RULES
from tests.reports import Case, read_cases

if TYPE_CHECKING:
    from ppdsl.diagnostics import Rule

CASES = read_cases("counts")


@pytest.mark.parametrize("case", CASES, ids=str)
def test_reports(case: Case) -> None:
    assert case.report(RULES) == case.expected


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_each_rule_is_reported(rule: Rule) -> None:
    assert any(f"{rule.severity}[{rule.code}]" in case.expected for case in CASES)


def test_a_layout_with_many_runs_is_answered_with_few_places_and_remedies() -> None:
    text = "E" + "t|tt|" * 3_000 + "L"
    (fault,) = check_layout(text, num_layers=12).diagnostics
    assert len(fault.labels) == 6
    assert (fault.help, fault.fix) == (None, None)
    (fault,) = check_layout(text, num_layers=9_001).diagnostics
    assert fault.help == "`tt` in stage 2 gives 9,001"
    assert fault.fix == text.replace("Et|tt|t|", "Et|tt|tt|", 1)
