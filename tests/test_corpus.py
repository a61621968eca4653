from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ppdsl import check_layout, compile_layout
from ppdsl.formatting import format_expanded
from ppdsl.rendering import render_text
from ppdsl.targets import lower_to_megatron
from tests.corpora import FOLDER, Refusal, cases, columns, lines, refusal_files, refusals, sizes_of
from tests.oracles import expand

SHARED = Path(__file__).parents[2] / "shared" / "cases"
LARGEST = 1_000_000


def report(layout: str, sizes: dict[str, Any]) -> str:
    """Render what is said of a layout, advice left out."""
    result = check_layout(layout, **sizes)
    return render_text([each for each in result.diagnostics if each.severity == "error"], result.source)


def codes(layout: str, sizes: dict[str, Any]) -> list[str]:
    return [each.code for each in check_layout(layout, **sizes).diagnostics if each.severity == "error"]


VALID = [(row[0], sizes_of(row[1])) for row in columns("valid.txt")]


@pytest.mark.parametrize(("layout", "sizes"), VALID, ids=[layout for layout, _ in VALID])
def test_a_valid_layout_is_valid_and_compiles_to_the_sizes_given(layout: str, sizes: dict[str, Any]) -> None:
    assert codes(layout, sizes) == []
    plan = compile_layout(layout, **sizes)
    assert {name: getattr(plan, name) for name in sizes} == sizes


@pytest.mark.parametrize("layout", lines("identity.txt"))
def test_a_canonical_layout_is_its_own_canonical_form(layout: str) -> None:
    assert check_layout(layout).canonical == layout


@pytest.mark.parametrize(("one", "other"), columns("equivalent.txt"))
def test_two_spellings_of_one_layout_mean_the_same(one: str, other: str) -> None:
    assert expand(one) == expand(other)
    first, second = check_layout(one), check_layout(other)
    assert first.canonical is not None
    assert first.canonical == second.canonical
    assert first.form is not None
    assert second.form is not None
    assert format_expanded(first.form, LARGEST) == format_expanded(second.form, LARGEST)


REFUSALS = [(path, case) for path in refusal_files() for case in refusals(path)]


@pytest.mark.parametrize(("path", "case"), REFUSALS, ids=[f"{path.stem}-{case.layout[:30]}" for path, case in REFUSALS])
def test_an_invalid_layout_is_refused_in_these_words(path: Path, case: Refusal) -> None:
    assert report(case.layout, case.sizes) == case.report
    assert path.stem in codes(case.layout, case.sizes)


@pytest.mark.parametrize("case", cases("cases/layouts.json"), ids=lambda case: case["id"])
def test_a_known_layout_is_what_its_source_says(case: dict[str, Any]) -> None:
    sizes = {name: case[name] for name in ("pp", "num_layers", "mtp_num_layers")}
    result = check_layout(case["layout"], **sizes)
    assert result.form is not None
    runs = [(stage, count) for _, stage, count in result.form.runs()]
    stages = [stage for stage, count in runs for _ in range(count)]
    assert [stage.count("t") for stage in stages] == case["per_stage"]
    assert [number for number, stage in enumerate(stages) if not stage.runs] == case["empty_stages"]
    assert (len(stages), result.form.tally.count("t")) == (case["stages"], case["decoder_layers"])
    assert result.valid is case["valid"]
    if case["valid"]:
        assert compile_layout(case["layout"], **sizes).vpp == case["vpp"]
    else:
        assert set(case["codes"]) <= {each.code for each in result.diagnostics}


@pytest.mark.parametrize("case", cases("cases/texts.json"), ids=lambda case: case["text"])
def test_a_text_with_a_trap_is_read_as_is_known(case: dict[str, Any]) -> None:
    sizes = {name: case[name] for name in ("pp", "num_layers") if name in case}
    result = check_layout(case["text"], **sizes)
    assert result.valid is case.get("valid", False)
    if "codes" in case:
        found = [each.code for each in result.diagnostics if each.code in case["codes"]]
        assert found == case["codes"]
    if "owners" in case:
        assert [chunk.pp_rank for chunk in compile_layout(case["text"], **sizes).chunks] == case["owners"]
    if "megatron" in case:
        assert result.subject is not None
        lowered = lower_to_megatron(result.subject)
        assert isinstance(lowered, str)
        assert expand(lowered) == expand(case["megatron"])
    if case.get("refused"):
        assert [each.code for each in result.diagnostics] == ["PP111"]


@pytest.mark.parametrize("name", ["layouts.json", "texts.json"])
def test_the_copied_cases_are_those_of_the_folder_beside_the_checkout(name: str) -> None:
    original = SHARED / name
    if not original.exists():
        pytest.skip("there is no such folder here: the copies are taken as they are")
    copied = FOLDER / "cases" / name
    assert json.loads(copied.read_text(encoding="utf-8")) == json.loads(original.read_text(encoding="utf-8"))


def test_an_empty_corpus_is_an_error(tmp_path: Path) -> None:
    empty = tmp_path / "empty.txt"
    empty.write_text("# a comment\n\n", encoding="utf-8")
    with pytest.raises(ValueError, match="nothing to read"):
        lines(str(empty))
    with pytest.raises(ValueError, match="nothing to read"):
        refusals(empty)
    empty.write_text("[]", encoding="utf-8")
    with pytest.raises(ValueError, match="nothing to read"):
        cases(str(empty))
