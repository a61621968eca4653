"""Laws of the rules of meaning, on random layouts of every kind."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ppdsl import check_layout
from ppdsl.catalog import all_rules
from ppdsl.options import Limits, Options
from ppdsl.rendering import render_text
from ppdsl.strategies import alphabet_texts, grammar_texts
from ppdsl.validation import CHECKS, RULES
from ppdsl.validation.subject import join_words, name_stages, plural
from ppdsl.validation.targets import FEATURES
from tests.judge import Setting, count_empty_runs, judge
from tests.oracles import RefusedError, TooLargeError, expand

if TYPE_CHECKING:
    from ppdsl.compiling import CheckResult

HEADS = ["E", "Et", "Ett|", "E|", "|E", "tE", "EE", "", "mE", "NE", "(E|)*1", "E(t|)*2"]
TAILS = ["L", "tL", "|L", "NL", "mL", "|m|L", "Nm|L", "mNL", "LN", "L|", "", "LL", "tm|mL", "(m|)*2L", "L||", "(tL)*1", "N|NL", "Lt"]
MIDDLES = st.recursive(
    st.sampled_from(["t", "tt", "t*3", "|", "t|", "t|t|", "||", "|*2", "t*0", "m", "N", ","]),
    lambda units: st.builds("({}){}".format, units, st.sampled_from(["*1", "*2", "*3", "*0", ""])) | st.builds("{}{}".format, units, units),
    max_leaves=5,
)
DEALT = st.builds("{}{}{}".format, st.sampled_from(HEADS), MIDDLES, st.sampled_from(TAILS))
OWNED = st.lists(st.tuples(st.sampled_from(["t", "tt", "", "m", "tm", "N"]), st.integers(0, 3)), max_size=6).map(
    lambda inner: "|".join(["Et@0", *(f"{layers}@{owner}" for layers, owner in inner), "L@1"])
)
LAYOUTS = DEALT | DEALT | OWNED
SMALL = st.none() | st.integers(1, 6)
SETTINGS = st.fixed_dictionaries(
    {
        "pp": SMALL,
        "vpp": SMALL,
        "num_layers": st.none() | st.integers(0, 9),
        "mtp_num_layers": st.none() | st.integers(0, 3),
        "placement": st.sampled_from([None, None, "loop", "v"]),
    }
)
REST = st.fixed_dictionaries(
    {
        "microbatches": SMALL,
        "microbatch_group_size": SMALL,
        "target": st.sampled_from(["ppdsl", "megatron", "mindspeed", "infinitrain"]),
        "features": st.lists(
            st.tuples(st.sampled_from(FEATURES), st.sampled_from([None, "0", "1", "true", "off", "alltoall"])), max_size=4
        ),
    }
)
JUDGED = {f"PP{number}" for number in (*range(301, 315), 316, *range(601, 606))}
HUGE = st.sampled_from([None, 1, 2, 3, 20_000, 1_048_576])


def check_expandable(text: str, **sizes: Any) -> CheckResult | None:  # noqa: ANN401 -- sizes of every kind
    try:
        expand(text)
    except (RefusedError, TooLargeError):
        return None
    return check_layout(text, **sizes)


@given(text=LAYOUTS, setting=SETTINGS)
@example(text="E|t|tm||||L", setting=Setting(pp=1, vpp=None, num_layers=None, mtp_num_layers=None, placement=None))
def test_the_rules_agree_with_an_obvious_judge(text: str, setting: Setting) -> None:
    sizes: dict[str, Any] = {**setting}
    result = check_expandable(text, **sizes)
    if result is not None and result.subject is not None:
        stages = expand(text)
        reported = {each.code for each in result.diagnostics} & JUDGED
        assert reported == judge(stages, setting)
        assert sum(each.code == "PP601" for each in result.diagnostics) == min(count_empty_runs(stages), 20)


@given(text=LAYOUTS, setting=SETTINGS, rest=REST)
def test_every_corrected_layout_is_valid_against_the_same_sizes(text: str, setting: Setting, rest: dict[str, Any]) -> None:
    sizes: dict[str, Any] = {**setting, **rest}
    for each in check_layout(text, **sizes).diagnostics:
        assert each.proposals == ()
        if each.fix is not None:
            assert check_layout(each.fix, **sizes).valid
            assert each.fix != text
            assert each.help is not None
            assert each.help.endswith(f": {each.fix}") == (len(each.fix) <= 400)


@given(text=LAYOUTS, setting=SETTINGS, rest=REST)
def test_reports_are_in_the_order_of_severity_and_then_of_the_text(text: str, setting: Setting, rest: dict[str, Any]) -> None:
    result = check_layout(text, **{**setting, **rest})
    placed = [each for each in result.diagnostics if each.span is not None]
    keys = [(("error", "warning", "info").index(each.severity), each.span) for each in placed]
    assert keys == sorted(keys)
    for each in placed:
        for span in (each.span, *(label.span for label in each.labels)):
            assert span is not None
            assert 0 <= span.start <= span.end <= len(text)


@given(text=alphabet_texts() | grammar_texts() | LAYOUTS, pp=HUGE.filter(lambda pp: pp != 1_048_576), vpp=HUGE, setting=SETTINGS, rest=REST)
def test_nothing_is_raised_and_reports_are_short(
    text: str, pp: int | None, vpp: int | None, setting: Setting, rest: dict[str, Any]
) -> None:
    result = check_layout(text, **{**setting, **rest, "pp": pp, "vpp": vpp})
    for each in result.diagnostics:
        assert len(each.message) < 200
        assert len(each.help or "") < 600
        assert all(len(note) < 200 for note in each.notes)
        assert not set("\n.") & set(each.message[-1:])
    assert len(result.diagnostics) <= 20 * len(CHECKS)
    render_text(result.diagnostics, result.source)


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        ("E(t|t|tt|)*300000L", {"pp": 4}),
        ("E(t|t|tt|)*300000t|t|tL", {"pp": 3}),
        ("E(t|)*999999L", {"pp": 1_000_000}),
        ("E" + "t|tt|" * 4_000 + "L", {"pp": 7, "num_layers": 12}),
        ("E" + "((t|)*1m)" * 2_000 + "L", {"pp": 7, "num_layers": 12, "target": "megatron"}),
        ("Et|" + "(m|t|)*300000L", {"pp": 1, "num_layers": 3}),
        ("Et|" + "m|t|" * 5_000 + "L", {"pp": 1, "num_layers": 3}),
        ("N|" * 10_000 + "L", {"pp": 2, "target": "infinitrain"}),
        ("(Nt|N|)*250000EtL", {"pp": 2, "target": "megatron"}),
        ("t@3|" * 5_000 + "L@1", {"pp": 2}),
        ("".join(f"t@{number}|" for number in range(3_000)) + "L@1", {"target": "megatron"}),
        ("Et@0|L@999999999999", {}),
        ("Et@0|L@999999999999", {"pp": 1_048_576, "placement": "v"}),
        ("(" * 60 + "t|" + ")*9" * 60, {"pp": 3, "target": "mindspeed"}),
        ("(" * 200 + "EtmNL|" + ")*999999999999" * 200, {"pp": 3, "vpp": 7, "target": "infinitrain"}),
        ("(" * 200 + "Et|mNL" + ")*999999999999" * 200, {"num_layers": 7, "mtp_num_layers": 7, "target": "megatron"}),
        ("E(t|t||)*300000L", {"pp": 4}),
        ("Et" + "t*0" * 7_000 + "L", {"pp": 1}),
        ("EL", {"pp": 1_048_576, "vpp": 1_048_576}),
    ],
    ids=lambda value: str(value)[:24],
)
def test_a_huge_layout_is_answered_at_once_and_in_few_words(text: str, sizes: dict[str, Any]) -> None:
    start = time.process_time()
    result = check_layout(text, **sizes)
    shown = render_text(result.diagnostics, result.source)
    assert time.process_time() - start < 10  # a second or two; the rest is for a slow machine
    assert result.diagnostics
    assert len(shown) < 6_000


def test_a_deep_layout_with_numbers_too_long_to_write_out_raises_nothing() -> None:
    text = "(" * 400 + "Et@0|mNL@1|" + ")*999999999999" * 400 + "t@2"
    for target in ("ppdsl", "megatron", "infinitrain"):
        sizes: dict[str, Any] = {"target": target, "limits": Limits(depth=500)}
        assert {"PP401", "PP404"} <= {each.code for each in check_layout(text, **sizes).diagnostics}
        assert {"PP401", "PP404"} <= {
            each.code for each in check_layout(text.replace("@0", "").replace("@1", "").replace("@2", ""), **sizes).diagnostics
        }


def test_every_code_has_one_rule_and_stands_in_the_catalog() -> None:
    codes = [rule.code for rule in RULES]
    assert len(set(codes)) == len(codes)
    assert {rule.code: rule for rule in RULES}.items() <= all_rules().items()


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 stages"), (1, "1 stage"), (2, "2 stages"), (1000, "1,000 stages"), (10**15, "1,000,000,000,000,000 stages")]
)
def test_a_count_is_written_with_its_noun(count: int, text: str) -> None:
    assert plural(count, "stage") == text
    assert plural(10**15 + 1, "stage") == plural(10**9999, "stage") == "over 10^15 stages"


def test_words_are_joined_and_at_most_eight_are_written() -> None:
    assert [join_words(range(number)) for number in (0, 1, 2, 3)] == ["", "0", "0 and 1", "0, 1 and 2"]
    assert join_words(range(8)) == "0, 1, 2, 3, 4, 5, 6 and 7"
    assert join_words(range(9)) == "0, 1, 2, 3, 4, 5, 6, 7 and 1 more"
    assert join_words(iter("abcdefghij"), 2008) == "a, b, c, d, e, f, g, h and 2,000 more"
    assert join_words(iter("ab"), 2) == "a and b"


def test_stages_are_named_one_by_one() -> None:
    assert name_stages([(3, 1)]) == "stage 3"
    assert name_stages([(3, 2), (7, 1)]) == "stages 3, 4 and 7"
    assert name_stages(iter([(0, 10**12)])) == "stages 0, 1, 2, 3, 4, 5, 6, 7 and 999,999,999,992 more"


def test_sizes_that_are_not_given_are_not_checked() -> None:
    assert check_layout("Ett|tmL").diagnostics == ()
    assert Options().placement is None
