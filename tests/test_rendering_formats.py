"""Diagnostics for other programs: concise lines, GitHub's commands, JSON and SARIF."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest

from ppdsl.diagnostics import Diagnostic, Label, Rule
from ppdsl.rendering import diagnostic_as_json, render_concise, render_github, sarif
from ppdsl.source import Source, Span

FILE_TEXT = "torchrun \\\n  --layout 'Et*3|t*4L' \\\n"
LAYOUT = "Et*3|t*4L"
AT = FILE_TEXT.index("E")
IN_FILE = Source(LAYOUT, "jobs/run.sh", FILE_TEXT, range(AT, AT + len(LAYOUT) + 1))

LAYERS = Diagnostic(
    "PP302",
    "error",
    "layout has 7 decoder layers, --num-layers says 6",
    Span(5, 8),
    "4 layers",
    (Label(Span(1, 4), "3 layers"), Label(Span(4, 5))),
    ("a note",),
    "`t*3` in stage 1 gives 6: Et*3|t*3L",
    "Et*3|t*3L",
)
NO_PLACE = Diagnostic("PP202", "warning", "uniform lacks a size")
RULES = [
    Rule("PP202", "error", "a form lacks a size it needs", "Why.", "check --uniform", "check --uniform --num-layers 2 --pp 2"),
    Rule("PP302", "error", "decoder layers differ", "Why so.", "check EtL --num-layers 2", "check EtL"),
    Rule("PP603", "info", "vpp was not stated", "Because.", "check 'Et|tL' --pp 1", "check 'Et|tL' --pp 2"),
]


def info(message: str, span: Span | None = None) -> Diagnostic:
    return Diagnostic("PP603", "info", message, span)


def test_concise_lines() -> None:
    assert render_concise([LAYERS, NO_PLACE, info("\x1b")], IN_FILE).split("\n") == [
        "jobs/run.sh:2:18: error[PP302]: layout has 7 decoder layers, --num-layers says 6",
        "jobs/run.sh: warning[PP202]: uniform lacks a size",
        r"jobs/run.sh: info[PP603]: \u{1b}",
    ]
    assert render_concise([LAYERS], None) == "error[PP302]: layout has 7 decoder layers, --num-layers says 6"
    assert render_concise([NO_PLACE], Source("", "a\nb")) == r"a\u{a}b: warning[PP202]: uniform lacks a size"
    assert render_concise([], IN_FILE) == ""


def test_github_commands() -> None:
    assert render_github([LAYERS, NO_PLACE, info("so", Span(0, 0))], IN_FILE).split("\n") == [
        "::error file=jobs/run.sh,line=2,endLine=2,col=18,endColumn=21,title=PP302::layout has 7 decoder layers, --num-layers says 6",
        "::warning file=jobs/run.sh,title=PP202::uniform lacks a size",
        "::notice file=jobs/run.sh,line=2,endLine=2,col=13,endColumn=13,title=PP603::so",
    ]


@pytest.mark.parametrize("name", ["<layout>", "<stdin>", ""])
def test_github_names_no_file_where_there_is_none(name: str) -> None:
    assert render_github([info("so", Span(1, 4))], Source("EtL|", name)) == "::notice line=1,endLine=1,col=2,endColumn=5,title=PP603::so"
    assert render_github([info("so", Span(1, 4))], None) == "::notice title=PP603::so"


def test_github_gives_columns_only_within_one_line() -> None:
    assert render_github([info("so", Span(1, 4))], Source("E\r\ntL", "f")) == "::notice file=f,line=1,endLine=2,title=PP603::so"


def test_github_commands_cannot_be_broken_out_of() -> None:
    text = "50%,:\r\n::error::\x1b\ud800"
    assert render_github([info(text)], Source("", text)) == (
        r"::notice file=50%25%2C%3A%0D%0A%3A%3Aerror%3A%3A\u{1b}\u{d800},title=PP603::50%25,:%0D%0A::error::\u{1b}\u{d800}"
    )


def test_json_of_a_diagnostic() -> None:
    assert diagnostic_as_json(LAYERS, IN_FILE) == {
        "code": "PP302",
        "severity": "error",
        "message": "layout has 7 decoder layers, --num-layers says 6",
        "span": {"start": 5, "end": 8, "line": 2, "column": 18},
        "label": "4 layers",
        "labels": [
            {"span": {"start": 1, "end": 4, "line": 2, "column": 14}, "text": "3 layers"},
            {"span": {"start": 4, "end": 5, "line": 2, "column": 17}, "text": ""},
        ],
        "notes": ["a note"],
        "help": "`t*3` in stage 1 gives 6: Et*3|t*3L",
        "fix": "Et*3|t*3L",
    }


def test_json_without_a_place() -> None:
    value = diagnostic_as_json(NO_PLACE, IN_FILE)
    assert value == {
        "code": "PP202",
        "severity": "warning",
        "message": "uniform lacks a size",
        "span": None,
        "label": "",
        "labels": [],
        "notes": [],
        "help": None,
        "fix": None,
    }
    assert diagnostic_as_json(LAYERS, None)["span"] is None


def thing(required: str, **properties: object) -> dict[str, object]:
    """Give the schema of an object that has these properties and no others."""
    return {"type": "object", "required": required.split(), "properties": properties, "additionalProperties": False}


def several(items: object, at_least: int = 0, *, unique: bool = False) -> dict[str, object]:
    return {"type": "array", "items": items, "minItems": at_least, "uniqueItems": unique}


# What SARIF 2.1.0 demands of the parts that are used here, from the standard's own text.
STRING, NUMBER = {"type": "string"}, {"type": "integer", "minimum": 1}
TEXT = thing("text", text=STRING)
LEVEL = {"enum": ["none", "note", "warning", "error"]}
ARTIFACT = thing("", uri={"type": "string", "pattern": "^[A-Za-z0-9:/._~%-]+$"}, description=TEXT)
REGION = thing("startLine", startLine=NUMBER, startColumn=NUMBER, endLine=NUMBER, endColumn=NUMBER)
LOCATION = thing("", physicalLocation=thing("artifactLocation", artifactLocation=ARTIFACT, region=REGION), message=TEXT)
REPLACEMENT = thing("deletedRegion", deletedRegion=REGION, insertedContent=TEXT)
CHANGE = thing("artifactLocation replacements", artifactLocation=ARTIFACT, replacements=several(REPLACEMENT, 1))
RESULT = thing(
    "message",
    ruleId=STRING,
    ruleIndex={"type": "integer", "minimum": 0},
    level=LEVEL,
    message=TEXT,
    locations=several(LOCATION),
    relatedLocations=several(LOCATION, unique=True),
    fixes=several(thing("artifactChanges", description=TEXT, artifactChanges=several(CHANGE, 1)), unique=True),
)
RULE = thing("id", id=STRING, shortDescription=TEXT, fullDescription=TEXT, help=TEXT, defaultConfiguration=thing("", level=LEVEL))
RUN = thing(
    "tool",
    tool=thing("driver", driver=thing("name", name=STRING, version=STRING, rules=several(RULE, unique=True))),
    columnKind={"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
    newlineSequences=several(STRING, 1, unique=True),
    results=several(RESULT),
)
SARIF = thing("version runs", **{"$schema": STRING, "version": {"const": "2.1.0"}, "runs": several(RUN)})


def run_of(source: Source | None, *found: Diagnostic) -> dict[str, Any]:
    log: dict[str, Any] = json.loads(json.dumps(sarif([(source, found)], RULES, "1.2.3")))
    jsonschema.validate(log, SARIF)
    run: dict[str, Any] = log["runs"][0]
    return run


def region(line: int, column: int, end_line: int, end_column: int) -> dict[str, int]:
    return {"startLine": line, "startColumn": column, "endLine": end_line, "endColumn": end_column}


def test_sarif_names_the_tool_and_its_rules() -> None:
    run = run_of(IN_FILE)
    assert run["columnKind"] == "unicodeCodePoints"
    assert run["results"] == []
    driver = run["tool"]["driver"]
    assert (driver["name"], driver["version"], len(driver["rules"])) == ("ppdsl", "1.2.3", 3)
    assert driver["rules"][2] == {
        "id": "PP603",
        "shortDescription": {"text": "vpp was not stated"},
        "fullDescription": {"text": "Because."},
        "help": {"text": "Because.\n\nwrong: ppdsl check 'Et|tL' --pp 1\nright: ppdsl check 'Et|tL' --pp 2"},
        "defaultConfiguration": {"level": "note"},
    }


def test_sarif_of_a_result_in_a_file() -> None:
    artifact = {"uri": "jobs/run.sh"}
    assert run_of(IN_FILE, LAYERS)["results"] == [
        {
            "ruleId": "PP302",
            "ruleIndex": 1,
            "level": "error",
            "message": {"text": "layout has 7 decoder layers, --num-layers says 6"},
            "locations": [{"physicalLocation": {"artifactLocation": artifact, "region": region(2, 18, 2, 21)}}],
            "relatedLocations": [
                {
                    "physicalLocation": {"artifactLocation": artifact, "region": region(2, 14, 2, 17)},
                    "message": {"text": "3 layers"},
                },
                {"physicalLocation": {"artifactLocation": artifact, "region": region(2, 17, 2, 18)}},
            ],
            "fixes": [
                {
                    "description": {"text": "`t*3` in stage 1 gives 6: Et*3|t*3L"},
                    "artifactChanges": [
                        {
                            "artifactLocation": artifact,
                            "replacements": [
                                {"deletedRegion": region(2, 13, 2, 22), "insertedContent": {"text": "Et*3|t*3L"}},
                            ],
                        },
                    ],
                },
            ],
        },
    ]


def test_sarif_of_a_result_without_a_place_a_source_or_a_known_rule() -> None:
    bare = {"ruleId": "PP202", "ruleIndex": 0, "level": "warning", "message": {"text": "uniform lacks a size"}}
    place = {"physicalLocation": {"artifactLocation": {"uri": "jobs/run.sh"}}}
    assert run_of(None, NO_PLACE)["results"] == [bare]
    assert run_of(IN_FILE, NO_PLACE)["results"] == [bare | {"locations": [place]}]
    assert run_of(None, Diagnostic("PP999", "info", "\x1b"))["results"] == [
        {"ruleId": "PP999", "level": "note", "message": {"text": r"\u{1b}"}},
    ]


def test_sarif_lists_equal_labels_once() -> None:
    twice = Diagnostic("PP302", "error", "m", Span(0, 1), "", (Label(Span(1, 2), "t"), Label(Span(1, 2), "t")))
    assert len(run_of(IN_FILE, twice)["results"][0]["relatedLocations"]) == 1


def test_sarif_describes_a_text_that_is_no_file() -> None:
    result = run_of(Source(LAYOUT), LAYERS)["results"][0]
    assert result["locations"] == [
        {"physicalLocation": {"artifactLocation": {"description": {"text": "<layout>"}}, "region": region(1, 6, 1, 9)}},
    ]
    assert "fixes" not in result


def test_sarif_offers_a_fix_only_where_the_text_stands_straight_in_the_file() -> None:
    assert "fixes" in run_of(Source(LAYOUT, "layout.txt"), LAYERS)["results"][0]
    escaped = Source(LAYOUT, "run.sh", r"Et*3\|t*4L", [0, 1, 2, 3, 5, 6, 7, 8, 9, 10])
    assert "fixes" not in run_of(escaped, LAYERS)["results"][0]
    stretched = Source(LAYOUT, "run.sh", " ".join(LAYOUT) + " ", range(0, 20, 2))
    assert "fixes" not in run_of(stretched, LAYERS)["results"][0]


@pytest.mark.parametrize(
    ("name", "uri"),
    [
        ("a b/c#1.sh", "a%20b/c%231.sh"),
        ("./run.sh", "run.sh"),
        ("../run.sh", "../run.sh"),
        ("/opt/é.sh", "file:///opt/%C3%A9.sh"),
        ("c:x", "c%3Ax"),
        ("\ud800", "%ED%A0%80"),
    ],
)
def test_sarif_addresses_are_uris(name: str, uri: str) -> None:
    place = run_of(Source("EL", name), info("so"))["results"][0]["locations"][0]["physicalLocation"]
    assert place == {"artifactLocation": {"uri": uri}}
