from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ppdsl import check_layout
from ppdsl.validation.targets import EXCLUDING, FEATURES, RULES
from tests.reports import Case, read_cases

if TYPE_CHECKING:
    from ppdsl.diagnostics import Rule
    from ppdsl.options import Target

CASES = read_cases("targets")


@pytest.mark.parametrize("case", CASES, ids=str)
def test_reports(case: Case) -> None:
    assert case.report(RULES) == case.expected


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_each_rule_is_reported(rule: Rule) -> None:
    assert any(f"{rule.severity}[{rule.code}]" in case.expected for case in CASES)


def test_each_feature_is_listed_once() -> None:
    assert len(set(FEATURES)) == len(FEATURES)


@pytest.mark.parametrize("target", ["megatron", "mindspeed"])
@pytest.mark.parametrize("name", FEATURES)
def test_a_feature_that_is_off_excludes_nothing(target: Target, name: str) -> None:
    for value in ("false", "None", "NULL", "no", "Off", ""):
        assert check_layout("Et|tL", target=target, features=[(name, value)]).diagnostics == ()


@pytest.mark.parametrize(("target", "names"), EXCLUDING.items())
def test_a_feature_that_excludes_layouts_is_refused_bare_or_with_a_value(target: Target, names: tuple[str, ...]) -> None:
    for value in (None, "1", "true"):
        result = check_layout("Et|tL", target=target, features=[(name, value) for name in FEATURES if name in names])
        assert [each.message for each in result.diagnostics] == [f"{target} refuses a layout together with --{name}" for name in names]
