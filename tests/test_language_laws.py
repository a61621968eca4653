"""Laws of the language, on random layouts and random text, against the slow readings of ``tests/oracles.py``."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import assume, given, reject
from hypothesis import strategies as st

from ppdsl import check_layout
from ppdsl.formatting import format_canonical, format_expanded, layer_lists
from ppdsl.normal_form import NormalForm, normalize
from ppdsl.options import Limits
from ppdsl.parsing import parse
from ppdsl.strategies import LayoutCase, alphabet_texts, grammar_texts, layouts
from tests.oracles import RefusedError, Stage, TooLargeError, deal, expand, faults_of_meaning, write_canonical

LIMITS = Limits()
REPEATS = st.sampled_from(("", "", "", "*1", "*2", "*3", ",*4"))
UNITS = st.recursive(
    st.builds("{}{}".format, st.sampled_from(("t", "tt", "|", "t|", "E", "m", "N", "L")), REPEATS | st.just("*0")),
    lambda inner: st.builds("({}){}".format, st.lists(inner, min_size=1, max_size=3).map("".join), REPEATS),
    max_leaves=6,
)
READABLE = st.one_of(st.lists(UNITS, min_size=1, max_size=5).map("".join), layouts(removals=True).map(lambda case: case.text))
"""Text without a syntax fault."""

ANY_TEXT = st.text(st.one_of(st.characters(), st.characters(categories=["Cs"]), st.sampled_from("EtmNL|()*,@0\\'\" ")), max_size=60)


def form_of(text: str) -> NormalForm:
    items = parse(text, LIMITS).items
    assert items is not None
    return normalize(items, LIMITS)


def list_stages(form: NormalForm) -> list[Stage]:
    written = [Stage("".join(kind * count for kind, count in stage.runs), stage.owner) for stage in form.stages]
    assert form.order is not None
    return [written[index] for index, count in form.order for _ in range(count)]


@given(st.one_of(alphabet_texts(max_digits=3), READABLE))
def test_text_is_refused_exactly_where_a_slow_reading_refuses_it(text: str) -> None:
    try:
        expand(text)
    except RefusedError:
        assert parse(text, LIMITS).items is None
    except TooLargeError:
        reject()
    else:
        assert parse(text, LIMITS).items is not None


@given(READABLE)
def test_text_means_what_a_slow_reading_says(text: str) -> None:
    assert list_stages(form_of(text)) == expand(text)


@given(layouts(removals=True))
def test_every_spelling_means_the_stages_that_it_was_made_from(case: LayoutCase) -> None:
    stages = list_stages(form_of(case.text))
    assert tuple(stage.layers for stage in stages) == case.stages
    assert [stage.owner for stage in stages] == [owner if case.placement == "owners" else None for owner in case.owners]
    assert stages == expand(case.text)


@given(grammar_texts())
def test_what_the_grammar_accepts_breaks_only_the_rules_outside_of_it(text: str) -> None:
    codes = {diagnostic.code for diagnostic in parse(text, LIMITS).diagnostics}
    assert codes <= {"PP109", "PP110", "PP112"}
    assert ("PP110" in codes) == (not text.strip(", \t\r\n"))


@given(ANY_TEXT)
def test_any_text_at_all_gets_an_answer(text: str) -> None:
    result = check_layout(text, pp=2, num_layers=3)
    assert result.valid is all(diagnostic.severity != "error" for diagnostic in result.diagnostics)
    assert (parse(text, LIMITS).items is None) == bool(parse(text, LIMITS).diagnostics)


@given(st.one_of(ANY_TEXT, alphabet_texts(max_digits=3)), st.none() | st.integers(1, 4))
def test_every_place_lies_inside_the_text(text: str, pp: int | None) -> None:
    for diagnostic in check_layout(text, pp=pp, num_layers=2, mtp_num_layers=1, vpp=2).diagnostics:
        for span in (diagnostic.span, *(label.span for label in diagnostic.labels)):
            assert span is not None
            assert 0 <= span.start <= span.end <= len(text)


@given(st.one_of(ANY_TEXT, alphabet_texts()))
def test_syntax_faults_come_in_the_order_of_the_text_and_are_at_most_twenty(text: str) -> None:
    spans = [diagnostic.span for diagnostic in parse(text, LIMITS).diagnostics]
    assert len(spans) <= 20
    assert spans == sorted(spans, key=lambda span: (span is None, span))


@given(READABLE)
def test_counts_agree_with_the_list_of_stages(text: str) -> None:
    stages = expand(text)
    tally = form_of(text).tally
    layers = "".join(stage.layers for stage in stages)
    assert {kind: tally.count(kind) for kind in "EtmNL"} == {kind: layers.count(kind) for kind in "EtmNL"}
    assert tally.stages == len(stages)
    for kind in "EtmNL":
        for other in "EtmNL".replace(kind, ""):
            stands_before = kind in layers and other in layers[layers.index(kind) :]
            assert (tally.before(kind, other) is not None) == stands_before


@given(layouts(removals=True))
def test_each_stage_is_placed_where_its_first_layer_is_written(case: LayoutCase) -> None:
    for _, stage, _ in form_of(case.text).runs():
        written = case.text[stage.span.start : stage.span.end]
        assert 0 <= stage.span.start < stage.span.end <= len(case.text)
        assert not stage.runs or stage.runs[0][0] in written


@given(READABLE)
def test_neighbouring_runs_of_stages_differ_and_every_stage_is_counted(text: str) -> None:
    runs = [*form_of(text).runs()]
    assert all(count > 0 for _, _, count in runs)
    assert all((one.runs, one.owner) != (next_.runs, next_.owner) for (_, one, _), (_, next_, _) in pairwise(runs))
    assert [number for number, _, _ in runs] == [sum(count for _, _, count in runs[:at]) for at in range(len(runs))]


@given(READABLE)
def test_the_canonical_text_is_the_one_that_the_rules_give(text: str) -> None:
    assert format_canonical(form_of(text), LIMITS.text) == write_canonical(expand(text))


@given(READABLE)
def test_formatting_keeps_the_meaning_and_twice_changes_nothing(text: str) -> None:
    stages = expand(text)
    assume(stages != [Stage("")])  # no text but `t*0` and the like says `one empty stage`
    canonical = format_canonical(form_of(text), LIMITS.text)
    assert canonical is not None
    assert list_stages(form_of(canonical)) == stages
    assert format_canonical(form_of(canonical), LIMITS.text) == canonical


@given(layouts(removals=True))
def test_expanded_text_has_no_repeats_and_means_the_same(case: LayoutCase) -> None:
    expanded = format_expanded(form_of(case.text), LIMITS.text)
    assert expanded is not None
    assert not set(expanded) & set("*() ,\\'\"")
    assert expand(expanded) == expand(case.text)


@given(layouts(removals=True, placements=("loop", "v")))
def test_megatrons_list_holds_each_layer_but_the_norm(case: LayoutCase) -> None:
    names = {"E": "embedding", "t": "decoder", "m": "mtp", "L": "loss"}
    assert layer_lists(form_of(case.text), 10_000) == [[names[kind] for kind in stage if kind != "N"] for stage in case.stages]


SIZES = st.fixed_dictionaries(
    {
        "pp": st.none() | st.integers(1, 4),
        "vpp": st.none() | st.integers(1, 3),
        "num_layers": st.none() | st.integers(0, 4),
        "mtp_num_layers": st.none() | st.integers(0, 2),
    }
)


@st.composite
def any_stages(draw: st.DrawFn) -> list[Stage]:
    """Draw stages that are a layout by their syntax, and mostly not by their meaning."""
    words = st.sampled_from(("", "t", "tt", "E", "m", "L", "N", "Et", "tL", "mL", "NL", "tm", "Nm"))
    layers = draw(st.lists(words, min_size=1, max_size=6))
    owned = draw(st.booleans()) and draw(st.booleans())
    return [Stage(stage, draw(st.integers(0, 3)) if owned else None) for stage in layers]


@given(any_stages(), SIZES, st.sampled_from((None, "loop", "v")))
def test_the_meaning_is_at_fault_exactly_where_the_rules_say(
    stages: list[Stage], sizes: dict[str, int | None], placement: str | None
) -> None:
    text = write_canonical(stages)
    assume(text)
    asked = {**sizes, "placement": None if stages[0].owner is not None else placement}
    result = check_layout(text, **asked)  # type: ignore[arg-type]  # a dictionary of sizes by name
    found = {diagnostic.code for diagnostic in result.diagnostics if diagnostic.severity == "error"}
    assert found == faults_of_meaning(stages, asked)


@given(layouts(), st.sampled_from(("t", "m", "N", "E", "L", "|")), st.data())
def test_one_symbol_more_is_judged_as_the_rules_say(case: LayoutCase, symbol: str, data: st.DataObject) -> None:
    flat = "|".join(case.stages)
    at = data.draw(st.integers(0, len(flat)))
    assume(case.placement != "owners")
    stages = [Stage(layers) for layers in (flat[:at] + symbol + flat[at:]).split("|")]
    sizes: dict[str, int | str | None] = {"pp": case.pp, "placement": case.placement}
    result = check_layout(write_canonical(stages), **sizes)  # type: ignore[arg-type]  # a dictionary of sizes by name
    assert {each.code for each in result.diagnostics if each.severity == "error"} == faults_of_meaning(stages, sizes)


@given(layouts())
def test_a_plan_owns_every_layer_once_where_the_placement_says(case: LayoutCase) -> None:
    plan = check_layout(case.text, **case.sizes).plan
    assert plan is not None
    assert [chunk.pp_rank for chunk in plan.chunks] == [*case.owners]
    assert [*case.owners] == deal(expand(case.text), {"pp": case.pp, "placement": case.placement})
    assert [layer for chunk in plan.chunks for layer in range(*chunk.layers)] == [*range(case.num_layers)]
    assert [layer for chunk in plan.chunks for layer in range(*chunk.mtp_layers)] == [*range(case.mtp_num_layers)]


def test_the_slow_reading_refuses_what_would_grow_too_large() -> None:
    with pytest.raises(TooLargeError):
        expand("(t*999999)*9")
    with pytest.raises(TooLargeError):
        expand("t*150000t*150000")
