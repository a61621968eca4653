from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ppdsl import check_layout
from ppdsl.validation.advice import RULES
from tests.reports import Case, read_cases

if TYPE_CHECKING:
    from ppdsl.diagnostics import Rule

CASES = read_cases("advice")


@pytest.mark.parametrize("case", CASES, ids=str)
def test_reports(case: Case) -> None:
    assert case.report(RULES) == case.expected


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_each_rule_is_reported(rule: Rule) -> None:
    assert any(f"{rule.severity}[{rule.code}]" in case.expected for case in CASES)


@pytest.mark.parametrize(("text", "code"), [("E" + "t||" * 25 + "L", "PP601"), ("E" + "t*0," * 25 + "tL", "PP606")])
def test_at_most_twenty_of_a_code_are_reported(text: str, code: str) -> None:
    assert [each.code for each in check_layout(text).diagnostics] == [code] * 20
