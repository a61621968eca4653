"""The JSON Schemas: real outputs agree with them, damaged ones do not, and later minor versions do."""

from __future__ import annotations

import copy
import json
import sys
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest
from click.testing import CliRunner

from ppdsl import check_layout, compile_layout
from ppdsl.cli import main
from ppdsl.lowering import lower, program_to_json
from ppdsl.planning.tables import table_as_json
from ppdsl.rendering import diagnostic_as_json
from ppdsl.schedules import make_schedule
from ppdsl.schemas import NAMES, schema_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ppdsl.options import Placement


OUTPUTS = ("check", "plan", "simulate", "suggest")
"""The schemas of what is written; that of the costs file has tests beside its reader."""
WRONG: tuple[object, ...] = (-1, {"no": "such"}, [[]])
"""Nothing that any field may be."""


def plan_output(layout: str = "Et*3||t*3|t*6NL", pp: int = 2, placement: Placement | None = None) -> dict[str, Any]:
    return compile_layout(layout, pp=pp, placement=placement).to_json()


def check_output(layout: str = "Et*3||t*3|t*6NL", pp: int | None = None, num_layers: int | None = None) -> dict[str, Any]:
    """Write the result of a check as the command line's reference documents it."""
    result = check_layout(layout, pp=pp, num_layers=num_layers)
    plan = result.plan
    return {
        "schema_version": "1.0",
        "ppdsl_version": "0.1.0",
        "valid": result.valid,
        "layout": {
            "source": layout,
            "canonical": result.canonical,
            "stages": len(plan.chunks) if plan else None,
            "pp": pp,
            "vpp": plan.vpp if plan else None,
            "num_layers": plan.num_layers if plan else None,
            "mtp_num_layers": plan.mtp_num_layers if plan else None,
            "placement": plan.placement if plan else None,
        },
        "table": table_as_json(plan) if plan else None,
        "counts": {severity: result.count(severity) for severity in ("error", "warning", "info")},
        "diagnostics": [diagnostic_as_json(diagnostic, result.source) for diagnostic in result.diagnostics],
    }


def simulate_output() -> dict[str, Any]:
    """Write a simulation as the command line does, once it is read back."""
    with CliRunner().isolation() as (output, _, _):
        assert main(["simulate", "Et|tL", "--pp", "2", "--microbatches", "2", "--output-format", "json"]) == 0
        sys.stdout.flush()
        document: dict[str, Any] = json.loads(output.getvalue())
    return document


def suggest_output() -> dict[str, Any]:
    """Write a suggestion as the command line does, with all that it can hold, once it is read back."""
    sizes = ("--pp", "2", "--num-layers", "4", "--microbatches", "3", "--hidden", "64", "--seq", "64", "--vocab", "512", "--batch", "1")
    with CliRunner().isolation() as (output, _, _):
        assert main(["suggest", *sizes, "--tflops", "1", "--compare", "Et|tttL", "--pareto", "--output-format", "json"]) == 0
        sys.stdout.flush()
        document: dict[str, Any] = json.loads(output.getvalue())
    return document


def output_of(name: str) -> dict[str, Any]:
    """Give an output with all its fields."""
    if name == "simulate":
        return simulate_output()
    if name == "suggest":
        return suggest_output()
    if name == "check":
        return check_output(pp=2, num_layers=13)
    schedule = make_schedule(compile_layout("Et*3||t*3|t*6NL", pp=2), None, 2)
    return plan_output() | {"schedule": program_to_json(lower(schedule))}


def agrees(name: str, output: object) -> bool:
    """Whether an output, once it has been through JSON, agrees with its schema."""
    validator = jsonschema.Draft202012Validator(schema_for(name))
    return validator.is_valid(json.loads(json.dumps(output)))


def fields_of(schema: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Give every field that a schema describes, at any depth."""
    for name, field in schema.get("properties", {}).items():
        yield name, field
        yield from fields_of(field)
    for part in ("items", "then", "else"):
        if part in schema:
            yield from fields_of(schema[part])
    for option in schema.get("anyOf", []):
        yield from fields_of(option)


def parts_of(value: Any) -> Iterator[dict[str, Any]]:  # noqa: ANN401 -- JSON of any kind
    """Give every object inside a value, itself included."""
    if isinstance(value, dict):
        yield value
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from parts_of(part)


@pytest.mark.parametrize("name", NAMES)
def test_each_schema_is_a_schema_and_describes_each_field(name: str) -> None:
    schema = schema_for(name)
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    fields = [*fields_of(schema)]
    assert len(fields) > 15
    assert [field for field, described in fields if not described.get("description")] == []
    assert json.loads(json.dumps(schema)) == schema


def test_there_are_schemas_for_these_outputs() -> None:
    assert (*OUTPUTS, "costs") == NAMES


def test_an_unknown_schema_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"^no schema for 'plans'; there are check, plan, simulate, suggest, costs$"):
        schema_for("plans")


def test_a_schema_is_the_callers_own() -> None:
    before = copy.deepcopy(schema_for("plan"))
    schema_for("plan").clear()
    properties: Any = schema_for("plan")["properties"]
    properties["pp"]["minimum"] = 7
    assert schema_for("plan") == before


@pytest.mark.parametrize(
    ("layout", "pp", "placement"),
    [
        ("Et*3||t*3|t*6NL", 2, None),
        ("Et*3|(tt|)*29,m|L", 16, None),
        ("Et|t|t|tL", 2, "v"),
        ("Et@1|t@0|tL@1", 2, None),
        ("EL", 1, "loop"),
    ],
)
def test_real_plans_agree(layout: str, pp: int, placement: Placement | None) -> None:
    assert agrees("plan", plan_output(layout, pp, placement))


@pytest.mark.parametrize(
    ("layout", "pp", "num_layers"),
    [
        ("Et*3||t*3|t*6NL", 2, 12),
        ("Et*3||t*3|t*6NL", 2, 13),
        ("Et*3||t*3|t*6NL", None, None),
        ("Et*3|(t", 2, None),
        ("", 2, None),
        ("\ud800", None, None),
    ],
)
def test_real_checks_agree_one_by_one_and_together(layout: str, pp: int | None, num_layers: int | None) -> None:
    output = check_output(layout, pp, num_layers)
    assert agrees("check", output)
    assert agrees("check", {"schema_version": "1.0", "valid": output["valid"], "results": [output, output]})


def test_what_has_no_text_has_no_spans() -> None:
    output = check_output("Et*3||t*3|t*6NL", pp=2, num_layers=13)
    assert output["diagnostics"]
    for diagnostic in output["diagnostics"]:
        diagnostic["span"] = None
    output["layout"] |= {"source": None}
    assert agrees("check", output)
    assert agrees("check", output | {"layout": None, "table": None})


@pytest.mark.parametrize("name", OUTPUTS)
def test_a_later_minor_version_may_add_fields_anywhere(name: str) -> None:
    output = output_of(name)
    for part in [*parts_of(output)]:
        part["new"] = {"deep": [None]}
    assert agrees(name, output | {"schema_version": "1.12"})
    assert not agrees(name, output | {"schema_version": "2.0"})


@pytest.mark.parametrize("name", OUTPUTS)
def test_an_output_without_one_of_its_fields_does_not_agree(name: str) -> None:
    output = output_of(name)
    spare = {"label", "schedule"} if name == "plan" else {"label"}
    removed = 0
    for part in parts_of(output):
        for field in [*part]:
            value = part.pop(field)
            assert agrees(name, output) == (field in spare), field
            part[field] = value
            removed += 1
    assert removed > 40


@pytest.mark.parametrize("name", OUTPUTS)
def test_an_output_with_a_value_of_another_type_does_not_agree(name: str) -> None:
    output = output_of(name)
    for part in parts_of(output):
        for field, value in [*part.items()]:
            for wrong in (*WRONG, *([] if name in {"simulate", "suggest"} else [1.5])):  # times are numbers of any kind
                part[field] = wrong
                assert not agrees(name, output), (field, wrong)
            part[field] = value


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("kind", "ppdsl.check"),
        ("pp", 0),
        ("pp", True),
        ("placement", "ring"),
        ("chunks", []),
        ("fingerprint", "sha256:" + "0" * 63),
        ("fingerprint", "md5:" + "0" * 64),
        ("embedding_ranks", {"tied": [], "untied": [0]}),
    ],
)
def test_a_damaged_plan_does_not_agree(field: str, value: object) -> None:
    assert not agrees("plan", plan_output() | {field: value})


@pytest.mark.parametrize("layers", [[0], [0, 1, 2], [-1, 0], [0.5, 1], [False, True], "01"])
def test_a_chunk_with_a_wrong_range_does_not_agree(layers: object) -> None:
    output = plan_output()
    output["chunks"][1]["layers"] = layers
    assert not agrees("plan", output)


@pytest.mark.parametrize("text", ["0F0junk", "00F0", "0RECV_F0#", "0REDUCE_GRAD1", "F0", "0X0", ""])
def test_a_program_with_an_instruction_that_is_none_does_not_agree(text: str) -> None:
    output = output_of("plan")
    output["schedule"]["program"][1][3] = text
    assert not agrees("plan", output)
    output = output_of("plan")
    output["schedule"]["actions"][0][0] = text
    assert not agrees("plan", output)


def test_several_results_are_checked_each() -> None:
    output = check_output(pp=2)
    broken = {**output, "counts": {}}
    assert not agrees("check", {"schema_version": "1.0", "valid": True, "results": [output, broken]})
    assert not agrees("check", {"schema_version": "1.0", "results": [output]})
    assert agrees("check", {"schema_version": "1.0", "valid": True, "results": []})
