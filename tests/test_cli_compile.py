"""``ppdsl compile``: the plan as JSON, where it goes, and what is refused."""

from __future__ import annotations

import json
import os
import stat
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from jsonschema import Draft202012Validator

from ppdsl import Plan, compile_layout
from ppdsl.cli import main
from ppdsl.schemas import schema_for


def run(*arguments: str, stdin: str = "") -> tuple[str, str, int]:
    with CliRunner().isolation(input=stdin) as (output, errors, _):
        code = main(["compile", *arguments])
        sys.stdout.flush()
        return output.getvalue().decode(), errors.getvalue().decode(), code


def test_the_plan_is_printed_as_json() -> None:
    output, errors, code = run("Et|tL", "--pp", "2")
    fingerprint = compile_layout("Et|tL", pp=2).fingerprint
    assert output == (
        "{\n"
        '  "schema_version": "1.0",\n'
        '  "kind": "ppdsl.plan",\n'
        '  "layout": "Et|tL",\n'
        '  "pp": 2,\n'
        '  "vpp": 1,\n'
        '  "placement": "loop",\n'
        '  "num_layers": 2,\n'
        '  "mtp_num_layers": 0,\n'
        '  "chunks": [\n'
        '    {"stage": 0, "pp_rank": 0, "vpp_rank": 0, "layers": [0, 1], "mtp_layers": [0, 0], '
        '"embedding": true, "final_norm": false, "loss": false},\n'
        '    {"stage": 1, "pp_rank": 1, "vpp_rank": 0, "layers": [1, 2], "mtp_layers": [0, 0], '
        '"embedding": false, "final_norm": true, "loss": true}\n'
        "  ],\n"
        '  "embedding_ranks": {"tied": [0, 1], "untied": [0]},\n'
        f'  "fingerprint": "{fingerprint}"\n'
        "}\n"
    )
    assert (errors, code) == ("", 0)


@pytest.mark.parametrize(
    "arguments",
    [["Et*3|(tt|)*29,m|L", "--pp", "16"], ["Et@0|t@1|tL@1"], ["--uniform", "--num-layers", "30", "--pp", "4"], ["-"]],
)
def test_the_json_holds_to_its_schema_and_reads_back(arguments: list[str]) -> None:
    output = run(*arguments, stdin="# one\nEt@0|tL@1\n")[0]
    Draft202012Validator(schema_for("plan")).validate(json.loads(output))
    assert Plan.from_json(output).to_json() == json.loads(output)


def test_warnings_go_to_standard_error() -> None:
    output, errors, code = run("Ettt|tL", "--pp", "2")
    assert json.loads(output)["pp"] == 2
    assert errors.startswith("warning[PP602]: ")
    assert code == 0
    assert run("Ettt|tL", "--pp", "2", "--warn-error")[0] == ""
    assert run("Ettt|tL", "--pp", "2", "--warn-error")[2] == 1


def test_a_plan_needs_pp() -> None:
    assert run("Et|tL") == ("", "error[PP202]: a plan needs --pp\n   = help: give --pp\n\ninvalid: 1 error\n", 2)


def test_microbatches_are_checked_against_the_schedule() -> None:
    arguments = ("Et|t|t|tL", "--pp", "2", "--output-format", "concise", "--microbatches")
    output, errors, code = run(*arguments, "3")
    assert (output, code) == ("", 1)
    assert errors.startswith("<layout>:1:1: error[PP315]: 3 microbatches ")
    assert run(*arguments, "4")[2] == 0


@pytest.mark.parametrize("wanted", ["json", "sarif"])
def test_a_refusal_in_json_is_a_whole_document(wanted: str) -> None:
    output, errors, code = run("Et|x", "--pp", "2", "--output-format", wanted)
    document = json.loads(output)
    assert "PP101" in json.dumps(document)
    assert document.get("valid", False) is False
    assert (errors, code) == ("", 1)


def test_one_layout_is_taken() -> None:
    assert run("-", "--pp", "1", stdin="EtL\nEttL\n") == (
        "",
        "error: one layout is taken, the input holds 2 (see ppdsl compile --help)\n",
        2,
    )


def test_an_empty_input_is_refused() -> None:
    assert run("-", "--pp", "1")[1] == "error[PP204]: standard input holds no layout\n\ninvalid: 1 error\n"


def test_a_file_is_written_whole(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text("before")
    assert run("Et|tL", "--pp", "2", "-o", str(path)) == ("", "", 0)
    assert path.read_text() == run("Et|tL", "--pp", "2")[0]
    assert [*tmp_path.iterdir()] == [path]


def test_a_dash_is_standard_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("Et|tL", "--pp", "2", "-o", "-") == run("Et|tL", "--pp", "2")
    assert [*tmp_path.iterdir()] == []


def test_what_is_read_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "costs.json"
    path.write_text('{"kinds": {"t": {"forward": 1}}}')
    assert run("Et|tL", "--pp", "2", "--costs", str(path), "-o", str(path)) == (
        "",
        "error: --costs and --output name the same file (see ppdsl compile --help)\n",
        2,
    )
    assert json.loads(path.read_text())


def test_the_json_is_whole_where_the_file_cannot_be_written(tmp_path: Path) -> None:
    output, errors, code = run("Et|tL", "--pp", "2", "-o", str(tmp_path), "--output-format", "json")
    assert json.loads(output)["usage_error"] == f"cannot write '{tmp_path}': is a directory"
    assert (errors, code) == ("", 2)


def test_an_invalid_layout_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text("before")
    assert run("Et|t", "--pp", "2", "-o", str(path))[2] == 1
    assert path.read_text() == "before"


def test_a_symbolic_link_is_followed(tmp_path: Path) -> None:
    path, link = tmp_path / "plan.json", tmp_path / "link"
    link.symlink_to(path)
    assert run("Et|tL", "--pp", "2", "-o", str(link)) == ("", "", 0)
    assert link.is_symlink()
    assert json.loads(path.read_text())["kind"] == "ppdsl.plan"


def test_what_is_no_regular_file_is_written_through() -> None:
    assert run("Et|tL", "--pp", "2", "-o", os.devnull) == ("", "", 0)
    assert stat.S_ISCHR(Path(os.devnull).stat().st_mode)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        (".", "is a directory"),
        ("missing/plan.json", "no such file or directory"),
        ("x\0y", "embedded null byte"),
        ("n" * 300, "file name too long"),
    ],
)
def test_a_file_that_cannot_be_written_is_said_to_be_so(name: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shown = name.replace("\0", "\\u{0}")
    assert run("Et|tL", "--pp", "2", "-o", name) == ("", f"error: cannot write '{shown}': {reason}\n", 2)
    assert [*tmp_path.iterdir()] == []
