from __future__ import annotations

import pytest

from ppdsl.formatting import MOST_COUNT, format_canonical, format_expanded, format_run, layer_lists, write_stages
from ppdsl.normal_form import NormalForm, normalize
from ppdsl.options import Limits
from ppdsl.parsing import parse

LIMITS = Limits()


def form_of(text: str, limits: Limits = LIMITS) -> NormalForm:
    items = parse(text, limits).items
    assert items is not None
    return normalize(items, limits)


@pytest.mark.parametrize(("count", "text"), [(0, ""), (1, "t"), (2, "tt"), (3, "t*3"), (61, "t*61")])
def test_equal_layers_are_repeated_from_three_on(count: int, text: str) -> None:
    assert format_run("t", count) == text


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("E,t t*2, L", "Et*3L"),
        ("E(t)*2L", "EttL"),
        ("Et*3|(tt|)*29,m|L", "Et*3|(tt|)*29m|L"),
        # a run of two stages, or one that reaches the end, is written out
        ("E|(t|)*2L", "E|t|t|L"),
        ("E|(t|)*2t", "E|t|t|t"),
        ("E|t|t|t|L", "E|(t|)*3L"),
        ("E||||L", "E|(|)*3L"),
        ("t|||", "t|||"),
        # stages that groups make equal join those beside them, also across the seam of a repeat
        ("E|t|(t|)*3t|L", "E|(t|)*5L"),
        ("(t|m|t|)*3L", "t|m|t|t|m|t|t|m|t|L"),
        # the owner belongs to the stage
        ("t@1|t@1|t@1|t@2", "(t@1|)*3t@2"),
        ("t@1|t@2|t@1|t@2", "t@1|t@2|t@1|t@2"),
        ("t@01|L@1", "t@1|L@1"),
        # N stands where it was written
        ("Et,N|L", "EtN|L"),
        # what is removed is gone
        ("Et*0(tt|)*0L", "EL"),
        ("t*0", ""),
    ],
)
def test_the_canonical_form_of_a_layout(text: str, canonical: str) -> None:
    assert format_canonical(form_of(text), LIMITS.text) == canonical


@pytest.mark.parametrize("text", ["E|(t|)*3L", "E|t|t|t", "Et*3L", "t@1|L@1", "Ett"])
def test_a_canonical_text_over_the_limit_is_not_written(text: str) -> None:
    canonical = format_canonical(form_of(text), LIMITS.text)
    assert canonical is not None
    assert format_canonical(form_of(text), len(canonical)) == canonical
    assert format_canonical(form_of(text), len(canonical) - 1) is None


def test_a_count_that_the_language_cannot_write_is_not_written() -> None:
    assert format_canonical(form_of(f"Et*{MOST_COUNT}L"), LIMITS.text) == f"Et*{MOST_COUNT}L"
    assert format_canonical(form_of(f"E(t*{MOST_COUNT})*2L"), LIMITS.text) is None
    assert format_canonical(form_of(f"E|(|)*{MOST_COUNT}L"), LIMITS.text) == f"E|(|)*{MOST_COUNT}L"
    assert format_canonical(form_of(f"E|((|)*{MOST_COUNT})*2L"), LIMITS.text) is None


@pytest.mark.parametrize(
    ("text", "expanded"),
    [("Et*3|(tt|)*2L", "Ettt|tt|tt|L"), ("(t@1|)*2L@0", "t@1|t@1|L@0"), ("E|*3L", "E|||L"), ("EtNL", "EtNL"), ("t|", "t|"), ("t*0", "")],
)
def test_a_layout_without_repeats(text: str, expanded: str) -> None:
    form = form_of(text)
    assert format_expanded(form, LIMITS.text) == expanded
    assert format_expanded(form, len(expanded)) == expanded
    assert format_expanded(form, len(expanded) - 1) is None


def test_megatrons_list_leaves_the_norm_out() -> None:
    assert layer_lists(form_of("Et*2||tNmL"), 9) == [["embedding", "decoder", "decoder"], [], ["decoder", "mtp", "loss"]]


def test_a_list_over_the_limit_is_not_made() -> None:
    form = form_of("E|t|L")  # three layers and three stages
    assert layer_lists(form, 6) is not None
    assert layer_lists(form, 5) is None


def test_the_stages_of_megatrons_list_can_be_changed_one_by_one() -> None:
    stages = layer_lists(form_of("E|t|t|L"), 99)
    assert stages is not None
    stages[1].append("decoder")
    assert stages == [["embedding"], ["decoder", "decoder"], ["decoder"], ["loss"]]


def test_a_layout_of_too_many_stages_has_no_text() -> None:
    limits = Limits(stages=4)
    form = form_of("(t|m|)*3L", limits)
    assert form.order is None
    assert format_canonical(form, limits.text) is None
    assert format_expanded(form, limits.text) is None
    assert layer_lists(form, 99) is None


def test_more_stages_in_turn_than_the_limit_has_characters_are_not_written() -> None:
    assert format_canonical(form_of("(t|m|)*9"), 9) is None


def test_stages_that_follow_one_another_are_written_together() -> None:
    runs = [("t", 1), ("m", 0), ("t", 2), ("", 1), ("", 3), ("L", 1)]
    assert write_stages(runs, LIMITS.text) == "(t|)*3(|)*4L"


def test_a_huge_layout_has_a_short_canonical_text() -> None:
    form = form_of("E(t|)*999999999L")
    assert format_canonical(form, LIMITS.text) == "Et|(t|)*999999998L"
    assert format_expanded(form, LIMITS.text) is None
    assert layer_lists(form, 1_000_000) is None
