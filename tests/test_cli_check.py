"""``ppdsl check``: what it prints in each format, and how it ends."""

from __future__ import annotations

import json
import sys

import pytest
from click import unstyle
from click.testing import CliRunner
from jsonschema import Draft202012Validator

from ppdsl._version import __version__
from ppdsl.cli import main
from ppdsl.schemas import schema_for

GPT2 = "Et*3||t*3|t*6NL"


def run(*arguments: str, stdin: str | bytes = "", env: dict[str, str] | None = None) -> tuple[str, str, int]:
    environment = {"NO_COLOR": None, "CLICOLOR_FORCE": None, **(env or {})}
    with CliRunner().isolation(input=stdin, env=environment) as (output, errors, _):
        code = main(arguments)
        sys.stdout.flush()
        return output.getvalue().decode(), errors.getvalue().decode(), code


def test_a_valid_layout_is_shown_as_a_table() -> None:
    assert run("check", GPT2, "--pp", "2") == (
        (
            "rank  vpp 0          vpp 1\n"
            "   0  0: Et*3 [0-2]  2: t*3 [3-5]\n"
            "   1  1: (empty)     3: t*6NL [6-11]\n"
            "4 stages, pp 2 x vpp 2 (vpp implied), 12 decoder layers, placement loop\n"
            "valid\n"
        ),
        "",
        0,
    )


def test_the_caption_says_what_was_given_and_counts_mtp_layers() -> None:
    output, _, code = run("check", "Ett|tmL", "--pp", "2", "--vpp", "1", "--placement", "v")
    assert output.splitlines()[-2:] == ["2 stages, pp 2 x vpp 1, 3 decoder layers, 1 MTP layer, placement v", "valid: 1 warning"]
    assert code == 0


def test_owners_imply_pp_and_vpp() -> None:
    assert run("check", "Et@0|t@1|t@1|tL@0")[0].splitlines()[-2:] == [
        "4 stages, pp 2 x vpp 2 (pp and vpp implied), 4 decoder layers, placement owners",
        "valid",
    ]


def test_infos_are_shown_when_asked_for() -> None:
    assert run("check", GPT2, "--pp", "2", "-v")[0].startswith(
        "info[PP603]: vpp was not stated; 4 stages over 2 ranks imply vpp = 2\n"
        "  --> <layout>:1:1\n"
        "   |\n"
        " 1 | Et*3||t*3|t*6NL\n"
        "   | ^^^^^^^^^^^^^^^\n"
        "\n"
        "info[PP601]: stage 1 is empty\n"
        "  --> <layout>:1:5\n"
        "   |\n"
        " 1 | Et*3||t*3|t*6NL\n"
        "   |     ^^\n"
        "\n"
        "rank  vpp 0"
    )


def test_without_pp_the_sizes_that_fit_are_listed() -> None:
    assert run("check", GPT2) == ("4 stages, 12 decoder layers\npp x vpp that fit: 1 x 4, 2 x 2, 4 x 1\nvalid\n", "", 0)


def test_of_many_sizes_that_fit_the_first_are_listed() -> None:
    assert run("check", "E(t|)*5039L")[0].splitlines()[1] == (
        "pp x vpp that fit: 1 x 5040, 2 x 2520, 3 x 1680, 4 x 1260, 5 x 1008, 6 x 840, 7 x 720, 8 x 630, 9 x 560, 10 x 504, 12 x 420, "
        "14 x 360, 15 x 336, 16 x 315, 18 x 280, 20 x 252 and 44 more"
    )


def test_an_invalid_layout_is_shown_with_carets() -> None:
    assert run("check", GPT2, "--pp", "2", "--num-layers", "13") == (
        (
            "error[PP302]: layout has 12 decoder layers, --num-layers says 13\n"
            "  --> <layout>:1:11\n"
            "   |\n"
            " 1 | Et*3||t*3|t*6NL\n"
            "   |  ---  --- ^^^ 6 layers\n"
            "   |  |    |\n"
            "   |  |    3 layers\n"
            "   |  3 layers\n"
            "   = help: `t*4` in stage 2 gives 13: Et*3||t*4|t*6NL\n"
            "\n"
            "invalid: 1 error\n"
        ),
        "",
        1,
    )


def test_an_error_of_input_has_its_own_exit_code() -> None:
    assert run("check", "EtL", "--pp", "0") == ("error[PP203]: --pp is 0, the range is 1 to 1,048,576\n\ninvalid: 1 error\n", "", 2)


def test_a_warning_can_count_as_an_error() -> None:
    layout = ("check", "E(tt|)*2|L", "--output-format", "concise")
    output = "<layout>:1:5: warning[PP601]: stage 2 is empty\n"
    assert run(*layout) == (output, "", 0)
    assert run(*layout, "--warn-error") == (output, "error: warnings count as errors (--warn-error)\n", 1)
    assert run("check", GPT2, "--pp", "2", "--warn-error")[1:] == ("", 0)


def test_concise_is_diagnostics_alone() -> None:
    assert run("check", "Ex|tyL", "--output-format", "concise") == (
        "<layout>:1:2: error[PP101]: unknown symbol `x`\n<layout>:1:5: error[PP101]: unknown symbol `y`\n",
        "",
        1,
    )
    assert run("check", GPT2, "--pp", "2", "--output-format", "concise") == ("", "", 0)


def test_github_annotates() -> None:
    assert run("check", "Ex|tL", "--output-format", "github") == (
        "::error line=1,endLine=1,col=2,endColumn=3,title=PP101::unknown symbol `x`\n",
        "",
        1,
    )


def test_json_is_the_documented_object() -> None:
    output, errors, code = run("check", GPT2, "--pp", "2", "--num-layers", "13", "--output-format", "json")
    document = json.loads(output)
    assert [*document][:7] == ["schema_version", "ppdsl_version", "valid", "layout", "table", "fitting_sizes", "counts"]
    assert document["schema_version"] == "1.0"
    assert document["ppdsl_version"] == __version__
    assert document["valid"] is False
    assert document["layout"] == {
        "source": GPT2,
        "canonical": GPT2,
        "stages": 4,
        "pp": 2,
        "vpp": 2,
        "num_layers": 12,
        "mtp_num_layers": 0,
        "placement": "loop",
    }
    assert [[(cell["stage"], cell["layers"]) for cell in row] for row in document["table"]] == [
        [(0, [0, 3]), (2, [3, 6])],
        [(1, [3, 3]), (3, [6, 12])],
    ]
    assert document["counts"] == {"error": 1, "warning": 0, "info": 2}
    assert document["diagnostics"][0] == {
        "code": "PP302",
        "severity": "error",
        "message": "layout has 12 decoder layers, --num-layers says 13",
        "span": {"start": 10, "end": 13, "line": 1, "column": 11},
        "label": "6 layers",
        "labels": [
            {"span": {"start": 1, "end": 4, "line": 1, "column": 2}, "text": "3 layers"},
            {"span": {"start": 6, "end": 9, "line": 1, "column": 7}, "text": "3 layers"},
        ],
        "notes": [],
        "help": "`t*4` in stage 2 gives 13: Et*3||t*4|t*6NL",
        "fix": "Et*3||t*4|t*6NL",
    }
    assert document["place"] == {"name": "<layout>", "line": 1, "column": 1}
    assert (errors, code) == ("", 1)


def test_json_of_a_valid_layout_has_the_table() -> None:
    document = json.loads(run("check", GPT2, "--pp", "2", "--output-format", "json")[0])
    assert document["valid"] is True
    assert [[cell["text"] for cell in row] for row in document["table"]] == [["Et*3", "t*3"], ["", "t*6NL"]]
    assert document["table"][1][1]["layers"] == [6, 12]


@pytest.mark.parametrize(
    "arguments",
    [
        [GPT2],
        [GPT2, "--pp", "2"],
        [GPT2, "--pp", "3"],
        ["Et@0|tL@1"],
        ["E(t"],
        ["EtL", "--pp", "0"],
        ["\udcff"],
        ["E\u202e\u00d73L"],
        ["(((((((((((((((t*9)*9)*9)*9)*9)*9)*9)*9)*9)*9)*9)*9)*9)*9)*9"],
        ["--uniform", "--num-layers", "30", "--pp", "4"],
        ["--partition", "4,x"],
        ["EtL", "--uniform"],
        ["EtL", "--no-such-option"],
        ["EtL", "--pp", "x"],
        [],
        ["-"],
    ],
    ids=str,
)
def test_json_holds_to_its_schema_and_is_ascii(arguments: list[str]) -> None:
    output, errors, _ = run("check", *arguments, "--output-format", "json", stdin="EtL\nEt|\n\n")
    Draft202012Validator(schema_for("check")).validate(json.loads(output))
    assert output.isascii()
    assert output.endswith("}\n")
    assert errors == ""


def test_json_of_standard_input_is_a_list() -> None:
    output, _, code = run("check", "-", "--pp", "2", "--output-format", "json", stdin="Et|tL\n# a comment\nEt|t\n")
    document = json.loads(output)
    assert [*document] == ["schema_version", "ppdsl_version", "valid", "results"]
    assert document["valid"] is False
    assert [result["valid"] for result in document["results"]] == [True, False]
    assert [result["place"]["line"] for result in document["results"]] == [1, 3]
    assert code == 1


def test_sarif_is_a_log_of_all_results() -> None:
    output, errors, code = run("check", "-", "--output-format", "sarif", stdin="Et|t\nEx|tL\n")
    log = json.loads(output)["runs"][0]
    assert [(each["ruleId"], each["locations"][0]["physicalLocation"]["region"]["startLine"]) for each in log["results"]] == [
        ("PP304", 1),
        ("PP101", 2),
    ]
    assert len(log["tool"]["driver"]["rules"]) > 50
    assert (errors, code) == ("", 1)


def test_a_form_is_checked_like_text() -> None:
    assert run("check", "--uniform", "--num-layers", "5", "--pp", "2") == (
        (
            "rank  vpp 0\n"
            "   0  0: Et*3 [0-2]\n"
            "   1  1: ttNL [3-4]\n"
            "2 stages, pp 2 x vpp 1 (vpp implied), 5 decoder layers, placement loop\n"
            "valid\n"
        ),
        "",
        0,
    )


def test_colour_is_forced_and_the_table_drawn() -> None:
    output = run("check", "Ettx", "--color", "always")[0]
    assert output.startswith("\x1b[1;31merror[PP101]\x1b[0m")
    assert output.endswith("\n\x1b[1;31minvalid\x1b[0m: 1 error\n")
    table = run("check", GPT2, "--pp", "2", "--color", "always")[0]
    assert unstyle(table) == (
        "╭──────┬───────────────┬─────────────────╮\n"
        "│ rank │ vpp 0         │ vpp 1           │\n"
        "├──────┼───────────────┼─────────────────┤\n"
        "│    0 │ 0: Et*3 [0-2] │ 2: t*3 [3-5]    │\n"
        "│    1 │ 1: (empty)    │ 3: t*6NL [6-11] │\n"
        "╰──────┴───────────────┴─────────────────╯\n"
        "4 stages, pp 2 x vpp 2 (vpp implied), 12 decoder layers, placement loop\n"
        "valid\n"
    )
    assert "\x1b[2m1: (empty)" in table
    assert table.endswith("placement loop\n\x1b[1;32mvalid\x1b[0m\n")


@pytest.mark.parametrize(
    ("color", "env", "colored"),
    [
        (None, {}, False),
        (None, {"CLICOLOR_FORCE": "1"}, True),
        (None, {"CLICOLOR_FORCE": "0"}, False),
        (None, {"CLICOLOR_FORCE": "1", "NO_COLOR": "1"}, False),
        (None, {"CLICOLOR_FORCE": "1", "NO_COLOR": ""}, True),
        ("always", {"NO_COLOR": "1"}, True),
        ("never", {"CLICOLOR_FORCE": "1"}, False),
    ],
)
def test_no_color_beats_clicolor_force_and_the_option_beats_both(color: str | None, env: dict[str, str], *, colored: bool) -> None:
    output = run("check", "Ettx", *(["--color", color] if color else []), env=env)[0]
    assert ("\x1b[" in output) == colored
