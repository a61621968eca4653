"""``ppdsl fmt``: each spelling, what it refuses, and what it says of files."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner
from hypothesis import given

from ppdsl import check_layout, compile_layout
from ppdsl.cli import main
from ppdsl.formatting import layer_lists
from ppdsl.strategies import LayoutCase, layouts
from ppdsl.targets import explain_unwritable

if TYPE_CHECKING:
    from pathlib import Path


def run(*arguments: str, stdin: str = "") -> tuple[str, str, int]:
    with CliRunner().isolation(input=stdin) as (output, errors, _):
        code = main(["fmt", *arguments])
        sys.stdout.flush()
        return output.getvalue().decode(), errors.getvalue().decode(), code


@pytest.mark.parametrize(
    ("arguments", "output"),
    [
        (["Et,t t|(t|)*3 tL"], "Et*3|(t|)*3tL"),
        (["'Et\\|tL'"], "Et|tL"),
        (["--expand", "Et*3|(t|)*2tL"], "Ettt|t|t|tL"),
        (["--expand", "Et*3@0|(t@1|)*2tL@0"], "Ettt@0|t@1|t@1|tL@0"),
        (["--as", "list", "Et*2||NL"], '[["embedding", "decoder", "decoder"], [], ["loss"]]'),
        (["--target", "megatron", "E((t|)*2tt|)*3NL"], "Et|t|tt|t|t|tt|t|t|tt|L"),
        (["--target", "megatron", "Et@0|t@1|t@0|tL@1", "--pp", "2"], "Et|t|t|tL"),
        (["--uniform", "--num-layers", "1000000000", "--pp", "4"], "Et*250000000|t*250000000|t*250000000|t*250000000NL"),
        (["--list", '[["embedding", "decoder"], ["decoder", "loss"]]'], "Et|tL"),
        (["Et|t"], "Et|t"),
    ],
)
def test_a_layout_is_written_as_asked(arguments: list[str], output: str) -> None:
    assert run(*arguments) == (f"{output}\n", "", 0)


def test_standard_input_is_written_line_by_line() -> None:
    assert run("-", stdin="# two\nEt,t|L\nE,t|L\n") == ("Ett|L\nEt|L\n", "", 0)


def test_a_layout_that_cannot_be_read_is_refused_beside_the_others() -> None:
    assert run("-", stdin="Et,t|L\nE(t\nEx\n") == (
        "Ett|L\n",
        (
            "<stdin>:2: E(t\n"
            "error[PP103]: `(` is never closed\n"
            "  --> <stdin>:2:2\n"
            "   |\n"
            " 2 | E(t\n"
            "   |  ^\n"
            "   = help: close it\n"
            "\n"
            "<stdin>:3: Ex\n"
            "error[PP101]: unknown symbol `x`\n"
            "  --> <stdin>:3:2\n"
            "   |\n"
            " 3 | Ex\n"
            "   |  ^\n"
        ),
        1,
    )


def test_check_prints_only_what_would_change() -> None:
    assert run("--check", "Ett|L") == ("", "", 0)
    assert run("--check", "Et,t|L") == ("<layout>:1:1: would change to Ett|L\n", "", 1)
    assert run("--check", "-", stdin="Ett|L\n\nEt,t|L\n") == ("<stdin>:3:1: would change to Ett|L\n", "", 1)
    assert run("--check", "--uniform", "--num-layers", "2", "--pp", "1") == ("", "", 0)


def test_files_are_checked_and_never_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    good, bad, other = "run --pipeline-model-parallel-layout 'Ett|L'\n", "layout: 1\npipeline_model_parallel_layout: Et,t|L\n", "hello\n"
    files = {"good.sh": good, "bad.yaml": bad, "other.txt": other}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert run("--check", "--files", "--allow-none", *files) == ("bad.yaml:2:33: would change to Ett|L\n", "", 1)
    assert run("--check", "--files", *files)[1:] == ("error[PP204]: no layout in other.txt\n", 2)
    assert run("--files", "--allow-none", "other.txt") == ("", "", 0)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == files


def test_a_list_in_a_file_is_in_no_other_form_than_its_own(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text("pipeline_model_parallel_layout: [[embedding, decoder], [decoder, loss]]\n")
    assert run("--check", "--files", str(path)) == ("", "", 0)
    assert run("--files", str(path)) == ("Et|tL\n", "", 0)


@pytest.mark.parametrize(
    ("arguments", "errors"),
    [
        (
            ["--as", "list", "Et@1|tL@0"],
            (
                "error[PP505]: megatron deals stages to ranks in a loop, and this placement is another\n"
                "  --> <layout>:1:1\n   |\n 1 | Et@1|tL@0\n   | ^^^^^^^^^\n"
            ),
        ),
        (
            ["--as", "list", "--placement", "v", "--pp", "2", "Et|t|t|tL"],
            (
                "error[PP505]: megatron deals stages to ranks in a loop, and this placement is another\n"
                "  --> <layout>:1:1\n   |\n 1 | Et|t|t|tL\n   | ^^^^^^^^^\n"
            ),
        ),
        (
            ["--as", "list", "Ett|ttN|L"],
            (
                "error[PP502]: megatron cannot put the final norm where this `N` stands\n"
                "  --> <layout>:1:7\n   |\n 1 | Ett|ttN|L\n   |       ^\n   = note: it is implied in stage 2\n"
            ),
        ),
        (
            ["--target", "megatron", "--pp", "3", "Ett|ttL"],
            "error[PP301]: 2 stages cannot be dealt to 3 ranks: not a multiple\n",
        ),
        (["--target", "megatron", "Ettm|tL"], "error[PP307]: an MTP layer stands before a decoder layer\n"),
        (
            ["--expand", "Et*99L", "--max-text", "50"],
            "error[PP403]: written so, the layout would be longer than 50\n   = help: raise the limit with --max-text\n",
        ),
        (
            ["--as", "list", "Et*99L", "--max-text", "50"],
            "error[PP403]: written so, the layout would be longer than 50\n   = help: raise the limit with --max-text\n",
        ),
        (["--partition", "4,x"], "error[PP208]: entry 2 of the partition, `x`, is not a whole number of 1 to 12 digits\n"),
    ],
)
def test_what_cannot_be_written_is_refused(arguments: list[str], errors: str) -> None:
    output, found, code = run(*arguments)
    assert (output, code) == ("", 1)
    assert found.startswith(errors)


@given(layouts())
def test_the_list_form_keeps_the_meaning_or_is_refused(case: LayoutCase) -> None:
    result = check_layout(case.text, **case.sizes)
    assert result.subject is not None
    lists = layer_lists(result.subject.form, 10**6)
    assert lists is not None
    same = compile_layout(lists, pp=case.pp) == result.plan if len(lists) % case.pp == 0 else False
    assert same == (explain_unwritable(result.subject) is None)


def test_what_megatron_cannot_read_is_refused() -> None:
    output, errors, code = run("--target", "megatron", "Et@0|t@0|tL@1", "--pp", "2")
    assert (output, code) == ("", 1)
    assert errors.startswith("error[PP505]: ")


def test_a_layout_of_too_many_stages_is_refused() -> None:
    output, errors, code = run("E(t|)*9L", "--max-stages", "2")
    assert (output, code) == ("", 1)
    assert errors.startswith("error[PP401]: layout has 10 stages, the limit is 2\n")


def test_spellings_exclude_each_other() -> None:
    assert run("EtL", "--expand", "--as", "list") == (
        "",
        "error: --expand, --as and --target ask for different spellings: give one of them (see ppdsl fmt --help)\n",
        2,
    )


@pytest.mark.parametrize("text", ["E*0", "|*0", "(t)*0"])
def test_a_layout_of_which_nothing_is_left_has_no_canonical_form(text: str) -> None:
    output, errors, code = run(text)
    assert (output, code) == ("", 1)
    assert errors.startswith("error[PP110]: nothing is left of the layout when `*0` has removed its part\n")
