from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ppdsl import check_layout
from ppdsl.validation.order import RULES
from tests.reports import Case, read_cases

if TYPE_CHECKING:
    from ppdsl.diagnostics import Rule

CASES = read_cases("order")


@pytest.mark.parametrize("case", CASES, ids=str)
def test_reports(case: Case) -> None:
    assert case.report(RULES) == case.expected


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_each_rule_is_reported(rule: Rule) -> None:
    assert any(f"{rule.severity}[{rule.code}]" in case.expected for case in CASES)


@pytest.mark.parametrize(("text", "code"), [("Ett|(m|)*2L", "PP309"), ("EEtL", "PP303"), ("EtNNL", "PP312")])
def test_a_place_is_not_shown_twice(text: str, code: str) -> None:
    assert [each.labels for each in check_layout(text).diagnostics if each.code == code] == [()]
