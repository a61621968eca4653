"""Where layouts come from: what is typed, other forms, and standard input."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from ppdsl.cli import main

if TYPE_CHECKING:
    from pathlib import Path


def run(*arguments: str, stdin: str | bytes = "") -> tuple[str, str, int]:
    with CliRunner().isolation(input=stdin, env={"CLICOLOR_FORCE": None}) as (output, errors, _):
        code = main(["check", *arguments])
        sys.stdout.flush()
        return output.getvalue().decode(), errors.getvalue().decode(), code


def results(*arguments: str, stdin: str | bytes = "") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(run(*arguments, "--output-format", "json", stdin=stdin)[0])["results"]
    return found


@pytest.mark.parametrize(
    ("arguments", "canonical"),
    [
        (["--uniform", "--num-layers", "6", "--pp", "2", "--vpp", "2"], "Ett|tt|t|tNL"),
        (["--partition", "4,2"], "Et*4|ttNL"),
        (["--pipeline_layer_partition", "4,2"], "Et*4|ttNL"),
        (["--chunks", "0:3,1:3,1:0,0:1"], "Et*3@0|t*3@1|@1|tNL@0"),
        (["--pipeline_chunk_layout=0:1,1:1"], "Et@0|tNL@1"),
        (["--list", "[['embedding', 'decoder'], ['decoder', 'loss']]"], "Et|tL"),
        (["--rank-major", "1,2,3,4", "--pp", "2"], "Et|t*3|tt|t*4NL"),
        (["--first-stage-layers", "1", "--num-layers", "5", "--pp", "3"], "Et|tt|ttNL"),
        (["--decoder-last-pipeline-num-layers", "1", "--num-layers", "5", "--pp", "3"], "Ett|tt|tNL"),
        (["--account-for-embedding", "--account-for-loss", "--num-layers", "6", "--pp", "2"], "Et*3|t*3NL"),
        (["--account_for_embedding_in_pipeline_split", "--num-layers", "5", "--pp", "2"], "Ett|t*3NL"),
        (["--pipeline-model-parallel-layout", "Et|tL"], "Et|tL"),
        (["--pipeline_model_parallel_layout=Et|tL"], "Et|tL"),
        (["Et|tL"], "Et|tL"),
        (["--", "Et|tL"], "Et|tL"),
    ],
)
def test_each_form_is_read(arguments: list[str], canonical: str) -> None:
    document = json.loads(run("--output-format", "json", *arguments)[0])
    assert document["layout"]["canonical"] == canonical
    assert document["valid"] is True


def test_a_layout_that_begins_with_a_dash_stands_behind_two() -> None:
    assert run("-EtL")[2] == 2
    assert run("--", "-EtL")[0].startswith("error[PP101]: unknown symbol `-`\n")


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (["EtL", "--uniform"], "LAYOUT and --uniform"),
        (["EtL", "--pipeline-model-parallel-layout", "EtL"], "LAYOUT and --pipeline-model-parallel-layout"),
        (["EtL", "--from", "x"], "LAYOUT and --from"),
        (["x", "--files", "--from", "x"], "--files and --from"),
        (["--partition", "1", "--chunks", "0:1", "--list", "[]"], "--partition, --chunks and --list"),
        (["--rank-major", "1", "--last-stage-layers", "1"], "--rank-major and --last-stage-layers"),
    ],
)
def test_two_forms_are_refused_by_name(arguments: list[str], names: str) -> None:
    output, errors, code = run(*arguments)
    assert output.splitlines()[0].endswith(f"forms of the layout at once: {names}")
    assert output.startswith("error[PP201]")
    assert (errors, code) == ("", 2)


def test_a_form_that_places_its_stages_takes_no_placement() -> None:
    output, _, code = run("--chunks", "0:1,1:1", "--placement", "v")
    assert output.startswith("error[PP201]: --chunks and --placement both say which rank a stage is on\n")
    assert code == 2


@pytest.mark.parametrize("option", ["--partition", "--chunks", "--list", "--rank-major"])
def test_a_form_that_is_not_utf8_is_refused(option: str) -> None:
    assert run(option, "4,\udcff") == (f"error[PP206]: {option} is not valid UTF-8\n\ninvalid: 1 error\n", "", 2)


def test_standard_input_holds_one_layout_a_line() -> None:
    assert run("-", "--pp", "2", stdin="\ufeff# a comment\n\n \t\nEt|tL\r\n  Ex|L") == (
        (
            "<stdin>:4: Et|tL\n"
            "\n"
            "rank  vpp 0\n"
            "   0  0: Et [0]\n"
            "   1  1: tNL [1]\n"
            "2 stages, pp 2 x vpp 1 (vpp implied), 2 decoder layers, placement loop\n"
            "valid\n"
            "\n"
            "<stdin>:5:   Ex|L\n"
            "\n"
            "error[PP101]: unknown symbol `x`\n"
            "  --> <stdin>:5:4\n"
            "   |\n"
            " 5 |   Ex|L\n"
            "   |    ^\n"
            "\n"
            "invalid: 1 error\n"
            "\n"
            "in all: 1 valid, 1 invalid\n"
        ),
        "",
        1,
    )


def test_only_blank_lines_and_comments_are_skipped() -> None:
    assert [each["layout"]["source"] for each in results("-", stdin=" # no comment\n,,\n#EtL\nEtL")] == [" # no comment", ",,", "EtL"]


def test_a_long_line_is_cut_in_its_title() -> None:
    assert run("-", stdin="E" + "t" * 100 + "L\n")[0].splitlines()[0] == f"<stdin>:1: E{'t' * 71}..."


@pytest.mark.parametrize(
    ("stdin", "message"),
    [
        ("", "error[PP204]: standard input holds no layout"),
        ("# nothing\n\n", "error[PP204]: standard input holds no layout"),
        (b"Et|tL\nE\xfft\n", "error[PP206]: standard input is not valid UTF-8 at byte 7"),
    ],
)
def test_standard_input_without_a_layout_is_refused(stdin: str | bytes, message: str) -> None:
    assert run("-", stdin=stdin) == (f"{message}\n\ninvalid: 1 error\n", "", 2)
    assert [each["layout"] for each in results("-", stdin=stdin)] == [None]


def test_standard_input_without_a_layout_can_be_forgiven() -> None:
    assert run("-", "--allow-none", stdin="# nothing\n") == ("", "", 0)


def test_control_characters_are_no_layout() -> None:
    assert run("-", "--output-format", "concise", stdin="Et\0L\n")[0] == "<stdin>:1:3: error[PP101]: unknown symbol `\\u{0}`\n"


def test_a_fault_of_a_list_in_a_file_is_shown_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_text('{"pipeline_model_parallel_layout": [["embedding", "decoder"], ["decoder", "loss"]], "num_layers": 3}\n')
    output, _, code = run("--from", str(path), "--pp", "2", "--output-format", "concise")
    assert (output, code) == (f"{path}:1:36: error[PP302]: layout has 2 decoder layers, --num-layers says 3\n", 1)


def test_two_forms_at_once_are_a_list_of_results_where_one_may_hold_many() -> None:
    output, _, code = run("-", "--partition", "4,4", "--output-format", "json")
    assert code == 2
    assert [*json.loads(output)] == ["schema_version", "ppdsl_version", "valid", "results"]
