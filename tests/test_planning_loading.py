"""Reading a plan back: what is damaged, or of a later version, is refused in one line that says why."""

from __future__ import annotations

import copy
import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ppdsl import compile_layout
from ppdsl.planning import Plan

LAYOUTS = [("Et*3||t*3|t*6NL", 2), ("Et@0|t@1|@1|tmL@0", 2), ("EL", 1)]
STORED = [compile_layout(layout, pp=pp).to_json() for layout, pp in LAYOUTS]

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda values: st.lists(values, max_size=3) | st.dictionaries(st.text(max_size=3), values, max_size=3),
    max_leaves=5,
)


def stored(number: int = 0) -> dict[str, Any]:
    return copy.deepcopy(STORED[number])


def put(data: dict[str, Any], path: str, value: object) -> dict[str, Any]:
    """Put a value at a path such as ``chunks.2.layers``."""
    place: Any = data
    *way, last = (int(part) if part.isdigit() else part for part in path.split("."))
    for part in way:
        place = place[part]
    place[last] = value
    return data


def paths(data: object, prefix: str = "") -> list[str]:
    """List every path into a value."""
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    return [path for name, value in items for path in (f"{prefix}{name}", *paths(value, f"{prefix}{name}."))]


def refusal(data: dict[str, Any] | str) -> str:
    with pytest.raises(ValueError, match=r"^[^\n]+$") as caught:
        Plan.from_json(data)
    return str(caught.value)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("kind", "ppdsl.check", "kind is 'ppdsl.check', where 'ppdsl.plan' must stand"),
        ("kind", None, "kind is null, not a string"),
        ("schema_version", "2.0", "schema_version is '2.0', this version of ppdsl reads 1.x"),
        ("schema_version", "0.9", "schema_version is '0.9', this version of ppdsl reads 1.x"),
        ("schema_version", "1", "schema_version is '1', this version of ppdsl reads 1.x"),
        ("schema_version", "1.²", "schema_version is '1.\\xb2', this version of ppdsl reads 1.x"),
        ("schema_version", 1.0, "schema_version is 1.0, not a string"),
        ("pp", True, "pp is true, not an integer from 0"),
        ("pp", 2.0, "pp is 2.0, not an integer from 0"),
        ("pp", "2", "pp is '2', not an integer from 0"),
        ("pp", -2, "pp is -2, not an integer from 0"),
        ("pp", float("nan"), "pp is nan, not an integer from 0"),
        ("pp", 0, "pp is 0, but there are 4 chunks"),
        ("pp", 5, "pp is 5, but there are 4 chunks"),
        ("pp", 4, "vpp is 2, where 1 must stand"),
        ("vpp", 3, "vpp is 3, where 2 must stand"),
        ("num_layers", 11, "num_layers is 11, where 12 must stand"),
        ("mtp_num_layers", 1, "mtp_num_layers is 1, where 0 must stand"),
        ("placement", "v", "chunks[2].pp_rank is 0, where 1 must stand"),
        ("placement", "owners", "placement is 'owners', but the stages of layout have no owners"),
        ("placement", "ring", "placement is 'ring', not 'loop', 'v' or 'owners'"),
        ("placement", [[[]]], "placement is a list, not a string"),
        ("layout", "Et*3|t*9NL", "layout has 2 stages, but there are 4 chunks"),
        ("layout", "E(t|)*999999999999L", "layout has 1000000000000 stages, but there are 4 chunks"),
        ("layout", "E((((t|)*99999)*99999)*99999)*9L", "layout has over 10^15 stages, but there are 4 chunks"),
        ("layout", "Et*2|t|t*3|t*6NL", "chunks[0].layers is [0, 3], where [0, 2] must stand"),
        ("layout", "Et*3@0|@1|t*3@0|t*6NL@1", "placement is 'loop', but the stages of layout have owners"),
        ("layout", {}, "layout is an object, not a string"),
        ("chunks", None, "chunks is null, not a list"),
        ("chunks", [], "pp is 2, but there are 0 chunks"),
        ("chunks.1", 7, "chunks[1] is 7, not an object"),
        ("chunks.2.stage", 1, "chunks[2].stage is 1, where 2 must stand"),
        ("chunks.2.layers", [4, 6], "chunks[2].layers is [4, 6], where [3, 6] must stand"),
        ("chunks.2.layers", [3, 6, 9], "chunks[2].layers has 3 entries, not 2"),
        ("chunks.2.layers", [3, True], "chunks[2].layers[1] is true, not an integer from 0"),
        ("chunks.2.layers", "36", "chunks[2].layers is '36', not a list"),
        ("chunks.3.mtp_layers", [0, 1], "chunks[3].mtp_layers is [0, 1], where [0, 0] must stand"),
        ("chunks.1.pp_rank", 2, "chunks[1].pp_rank is 2, where 1 must stand"),
        ("chunks.2.vpp_rank", 0, "chunks[2].vpp_rank is 0, where 1 must stand"),
        ("chunks.0.embedding", 1, "chunks[0].embedding is 1, not true or false"),
        ("chunks.1.final_norm", True, "chunks[1].final_norm is true, where false must stand"),
        ("chunks.3.loss", False, "chunks[3].loss is false, where true must stand"),
        ("embedding_ranks", [0], "embedding_ranks is a list, not an object"),
        ("embedding_ranks.tied", [0], "embedding_ranks.tied is [0], where [0, 1] must stand"),
        ("embedding_ranks.untied", None, "embedding_ranks.untied is null, not a list"),
        ("fingerprint", object(), "fingerprint is of type object, not a string"),
    ],
)
def test_a_wrong_value_is_named_with_its_place(path: str, value: object, message: str) -> None:
    assert refusal(put(stored(), path, value)) == message


def test_a_wrong_fingerprint_is_shown_beside_the_right_one() -> None:
    wrong, right = "sha256:" + "0" * 64, stored()["fingerprint"]
    assert refusal(put(stored(), "fingerprint", wrong)) == f"fingerprint is '{wrong}', where '{right}' must stand"


def test_huge_values_are_not_written_out() -> None:
    assert refusal(put(stored(), "pp", 10**5000)) == "pp is over 10^15, but there are 4 chunks"
    assert refusal(put(stored(), "vpp", -(10**5000))) == "vpp is a huge integer, not an integer from 0"
    assert refusal(put(stored(), "kind", "x" * 10**6)) == f"kind is '{'x' * 80}\\u2026', where 'ppdsl.plan' must stand"


def test_characters_that_drive_a_terminal_are_escaped() -> None:
    assert refusal(put(stored(), "kind", "\x1b[31m")) == "kind is '\\x1b[31m', where 'ppdsl.plan' must stand"
    assert refusal(put(stored(), "layout", "E\x1bL")).isprintable()


@pytest.mark.parametrize("path", [path for path in paths(STORED[0]) if not path[-1].isdigit()])
def test_a_field_that_is_missing_is_named(path: str) -> None:
    data = stored()
    place: Any = data
    *way, last = path.split(".")
    for part in way:
        place = place[int(part) if part.isdigit() else part]
    del place[last]
    assert refusal(data) == re.sub(r"\.(\d+)", r"[\1]", path) + " is missing"


@pytest.mark.parametrize("placement", ["loop", "v"])
def test_a_plan_with_owners_is_not_taken_for_a_dealt_one(placement: str) -> None:
    message = f"placement is '{placement}', but the stages of layout have owners"
    assert refusal(put(stored(1), "placement", placement)) == message


@pytest.mark.parametrize(
    ("number", "path", "value", "code"),
    [
        (0, "layout", "Et*3||t*3|(t*6NL", "PP103"),
        (0, "layout", "", "PP110"),
        (0, "layout", "Et*3||t*3|t*6N", "PP304"),
        (0, "layout", "tE||t*3|t*6NL", "PP305"),
        (0, "layout", "|Et*3|t*3|t*6NL", "PP313"),
        (0, "pp", 3, "PP301"),
        (1, "pp", 3, "PP314"),
        (1, "pp", 1, "PP314"),
        (1, "layout", "Et@0|t@1|m@0|tL@0", "PP307"),
        (1, "layout", "Et@0|tm@1|@1|L@0", "PP310"),
    ],
)
def test_an_invalid_layout_is_refused_with_the_code_of_its_fault(number: int, path: str, value: object, code: str) -> None:
    message = refusal(put(stored(number), path, value))
    assert message.startswith("layout is invalid: ")
    assert message.endswith(f" ({code})")


def test_fields_of_a_later_minor_version_are_accepted() -> None:
    data = stored() | {"schema_version": "1.10", "weights": {"deep": [[[]]]}}
    data["chunks"][0]["device"] = None
    assert Plan.from_json(data) == compile_layout("Et*3||t*3|t*6NL", pp=2)


def test_tuples_stand_for_lists() -> None:
    data = stored()
    data["chunks"] = tuple(data["chunks"])
    assert Plan.from_json(data).to_json() == stored()


def test_another_spelling_of_the_layout_is_made_canonical() -> None:
    plan = Plan.from_json(put(stored(), "layout", "'Ettt | | (t)*3 | t*6 NL'"))
    assert plan.layout == "Et*3||t*3|t*6NL"


def test_a_layout_too_long_for_its_canonical_form_is_kept() -> None:
    text = "E(t*111111|t*222222|)*4000L"
    plan = compile_layout(text, pp=1)
    assert Plan.from_json(plan.to_json()).layout == plan.layout == text


@pytest.mark.parametrize("data", [None, 3, [], ["kind"], b"{}"])
def test_what_is_no_object_is_refused(data: Any) -> None:  # noqa: ANN401 -- anything may come
    shown = {"NoneType": "null", "int": "3", "list": "a list", "bytes": "of type bytes"}[type(data).__name__]
    assert refusal(data) == f"the plan is {shown}, not an object"
    if not isinstance(data, bytes):
        assert refusal(json.dumps(data)) == f"the plan is {shown}, not an object"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the plan is not JSON: expecting value: line 1, column 1"),
        ("{", "the plan is not JSON: expecting property name enclosed in double quotes: line 1, column 2"),
        ("\0", "the plan is not JSON: expecting value: line 1, column 1"),
        ('{"pp": NaN}', "the plan is not JSON: NaN is not a number"),
        ('{"pp": -Infinity}', "the plan is not JSON: -Infinity is not a number"),
        ("[" * 200_000, "the plan is nested too deep"),
        ('{"pp":' * 200_000, "the plan is nested too deep"),
    ],
)
def test_text_that_is_not_json_is_refused(text: str, message: str) -> None:
    assert refusal(text) == message


def test_a_huge_number_in_the_text_is_refused() -> None:
    assert refusal(json.dumps(stored()).replace('"pp": 2', '"pp": 1' + "0" * 3_000))
    assert refusal(json.dumps(stored()).replace('"pp": 2', '"pp": 1' + "0" * 10_000))
    assert refusal(json.dumps(stored()).replace('"pp": 2', '"pp": 1e999')) == "pp is inf, not an integer from 0"


def test_a_deep_layout_is_refused_without_a_crash() -> None:
    assert refusal(put(stored(), "layout", "(" * 20_000)).startswith("layout is invalid: ")
    assert refusal(put(stored(), "layout", "E" + "(" * 20_000 + "t|" + ")" * 20_000 + "L")) == "layout has 2 stages, but there are 4 chunks"


def test_a_truncated_file_is_refused() -> None:
    text = json.dumps(stored(2))
    assert Plan.from_json(text).layout == "EL"
    for length in range(len(text)):
        assert refusal(text[:length]).startswith("the plan is not JSON: ")


@given(st.data())
def test_a_plan_with_any_one_value_replaced_is_refused_or_the_same(data: st.DataObject) -> None:
    number = data.draw(st.integers(0, len(STORED) - 1))
    damaged = put(stored(number), data.draw(st.sampled_from(paths(STORED[number]))), data.draw(JSON))
    try:
        plan = Plan.from_json(damaged)
    except ValueError as error:
        assert str(error).isprintable()  # noqa: PT017 -- both ways are right
    else:
        assert plan.to_json() == STORED[number]


@given(JSON | st.text())
def test_nothing_else_is_taken_for_a_plan(data: Any) -> None:  # noqa: ANN401 -- anything may come
    assert refusal(data).isprintable()
