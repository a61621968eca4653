"""Options and their other names, usage errors, help, and the small commands."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from ppdsl._version import __version__
from ppdsl.cli import main
from ppdsl.cli.options import ALIASES, normalize_name
from ppdsl.cli.program import COMMANDS, program
from ppdsl.schemas import NAMES, schema_for


def run(*arguments: str, stdin: str = "", env: dict[str, str] | None = None) -> tuple[str, str, int]:
    with CliRunner().isolation(input=stdin, env=env) as (output, errors, _):
        code = main(arguments)
        sys.stdout.flush()
        return output.getvalue().decode(), errors.getvalue().decode(), code


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "missing command (see ppdsl --help)"),
        (["chekc"], "no such command 'chekc', did you mean 'check'? (see ppdsl --help)"),
        (["EtL"], "no such command 'EtL' (see ppdsl --help)"),
        (["--pp", "2"], "no such option --pp (see ppdsl --help)"),
        (
            ["check"],
            "no layout is given: write LAYOUT, - for standard input, --from FILE, or a form such as --uniform (see ppdsl check --help)",
        ),
        (["check", "Et", "|L"], "one LAYOUT is taken, 2 are given; put a layout that has spaces in quotes (see ppdsl check --help)"),
        (["check", "EtL", "--placment", "v"], "no such option --placment, did you mean --placement? (see ppdsl check --help)"),
        (["check", "EtL", "--\udcff"], "no such option --\\u{dcff} (see ppdsl check --help)"),
        (["check", "EtL", "--pp"], "option '--pp' requires an argument (see ppdsl check --help)"),
        (["check", "EtL", "--pp", "1.5"], "invalid value for '--pp': '1.5' is not a whole number (see ppdsl check --help)"),
        (["check", "EtL", "--pp", "٣"], "invalid value for '--pp': '٣' is not a whole number (see ppdsl check --help)"),
        (
            ["check", "EtL", "--pp", "x" * 99],
            f"invalid value for '--pp': '{'x' * 40}...' is not a whole number (see ppdsl check --help)",
        ),
        (
            ["check", "EtL", "--pp", "9" * 5000],
            "invalid value for '--pp': a number of 5000 digits is out of range (see ppdsl check --help)",
        ),
        (["check", "EtL", "--with", "=3"], "invalid value for '--with': no such feature '=3' (see ppdsl check --help)"),
        (
            ["check", "EtL", "--with", "noop_layer=1"],
            "invalid value for '--with': no such feature 'noop_layer=1', did you mean noop-layers? (see ppdsl check --help)",
        ),
        (["check", "EtL", "--target", "x\n"], None),
        (["schema", "x"], None),
        (["check", "EtL", "--placement", "y" * 5000], None),
    ],
)
def test_a_usage_error_is_one_clear_line(arguments: list[str], message: str | None) -> None:
    output, errors, code = run(*arguments)
    assert (output, code) == ("", 2)
    assert errors.endswith("--help)\n")
    assert errors.count("\n") == 1
    assert len(errors) < 400
    assert errors[:8] == "error: " + errors[7].lower()
    if message is not None:
        assert errors == f"error: {message}\n"


@pytest.mark.parametrize(
    "asked", [["--output-format", "json"], ["--output_format=json"], ["--output-format", "text", "--output-format=json"]], ids=str
)
def test_a_usage_error_in_json_is_a_whole_document(asked: list[str]) -> None:
    output, errors, code = run("check", "EtL", *asked, "--nope")
    assert json.loads(output) == {
        "schema_version": "1.0",
        "ppdsl_version": __version__,
        "valid": False,
        "layout": None,
        "table": None,
        "fitting_sizes": [],
        "counts": {"error": 0, "warning": 0, "info": 0},
        "diagnostics": [],
        "usage_error": "no such option --nope",
    }
    assert (errors, code) == ("", 2)


def test_a_usage_error_in_sarif_is_a_whole_log() -> None:
    output, errors, code = run("check", "--output-format=sarif", "--nope")
    (log,) = json.loads(output)["runs"]
    assert log["invocations"][0]["executionSuccessful"] is False
    assert log["invocations"][0]["toolConfigurationNotifications"] == [{"level": "error", "message": {"text": "no such option --nope"}}]
    assert (errors, code) == ("", 2)


def test_a_usage_error_for_github_is_a_command() -> None:
    assert run("check", "--output-format=github", "--50%") == ("::error title=ppdsl::no such option --50%25\n", "", 2)


def test_what_stands_behind_two_dashes_is_no_option() -> None:
    assert run("check", "--nope", "--", "--output-format=json")[1] == "error: no such option --nope (see ppdsl check --help)\n"
    assert run("check", "EtL", "--output-format") == (
        "",
        "error: option '--output-format' requires an argument (see ppdsl check --help)\n",
        2,
    )


def test_every_alias_is_the_name_of_an_option() -> None:
    with CliRunner().isolation():
        commands = [program.get_command(None, name) for name in COMMANDS]  # type: ignore[arg-type]  # the context is not used
    names = {name for command in commands if command for option in command.params for name in (*option.opts, *option.secondary_opts)}
    assert {f"--{name}" for name in ALIASES.values()} <= names
    assert not {f"--{name}" for name in ALIASES} & names


@pytest.mark.parametrize("alias", sorted(ALIASES))
def test_names_are_the_same_with_dashes_and_underscores(alias: str) -> None:
    assert normalize_name(alias) == normalize_name(alias.replace("-", "_")) == ALIASES[alias]
    assert normalize_name(ALIASES[alias]) == ALIASES[alias]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--pipeline-model-parallel-size", "2"], 0),
        (["--pipeline_model_parallel_size=3"], 1),
        (["--pp", "2", "--num-virtual-stages-per-pipeline-rank", "1"], 1),
        (["--pp", "2", "--virtual_pipeline_model_parallel_size", "2"], 0),
        (["--pp", "2", "--microbatches", "4", "--microbatch-group-size-per-virtual-pipeline-stage", "3"], 1),
        (["--pp", "2", "--microbatches", "4", "--microbatch-group-size-per-vp-stage", "4"], 0),
        (["--pp", "2", "--microbatches", "3", "--schedule", "interleaved_1f1b"], 1),
        (["--pp", "2", "--microbatches", "3", "--schedule", "gpipe"], 0),
        (["--untie-embeddings-and-output-weights"], 0),
    ],
)
def test_other_names_mean_the_same(arguments: list[str], code: int) -> None:
    assert run("check", "Et|t|t|tL", *arguments)[2] == code


def test_features_are_read_with_and_without_a_value() -> None:
    arguments = ("check", "Et|tL", "--target", "megatron", "--output-format", "concise")
    assert run(*arguments, "--with", "--decoder_first_pipeline_num_layers=2")[0].startswith("<layout>:1:1: error[PP520]")
    assert run(*arguments, "--with", "account-for-loss-in-pipeline-split")[2] == 1
    assert run(*arguments, "--with", "account-for-loss-in-pipeline-split=false")[2] == 0


@pytest.mark.parametrize("command", [None, *COMMANDS])
def test_help_is_short_ascii_text(command: str | None) -> None:
    output, errors, code = run(*([command] if command else []), "--help")
    assert output.startswith(f"Usage: ppdsl {command or '[OPTIONS] COMMAND'} ".rstrip())
    assert run(*([command] if command else []), "-h")[0] == output
    assert output.isascii()
    assert max(map(len, output.splitlines())) <= 100
    assert (errors, code) == ("", 0)


def test_help_names_every_command() -> None:
    assert re.findall(r"^  ([a-z]+)  ", run("--help")[0], re.MULTILINE) == [*COMMANDS]


def test_the_version_is_printed() -> None:
    assert run("--version") == (f"ppdsl {__version__}\n", "", 0)


@pytest.mark.parametrize("name", NAMES)
def test_schemas_are_printed(name: str) -> None:
    output, errors, code = run("schema", name)
    assert json.loads(output) == schema_for(name)
    assert (errors, code) == ("", 0)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_completion_script_names_the_program(shell: str) -> None:
    output, errors, code = run("completion", shell)
    assert f"_PPDSL_COMPLETE={shell}_complete" in output
    assert (errors, code) == ("", 0)


@pytest.mark.parametrize(
    ("words", "count", "output"),
    [
        ("ppdsl che", 1, "plain,check\n"),
        ("ppdsl check --placem", 2, "plain,--placement\n"),
        ("ppdsl check --placement ", 3, "plain,loop\nplain,v\n"),
    ],
)
def test_commands_options_and_choices_are_completed(words: str, count: int, output: str) -> None:
    environment = os.environ | {"_PPDSL_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(count)}
    done = subprocess.run([sys.executable, "-m", "ppdsl"], env=environment, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr, done.returncode) == (output, "", 0)


WORDS = st.sampled_from(
    [
        *(
            "check",
            "fmt",
            "simulate",
            "schema",
            "completion",
            "PP302",
            "-",
            "--",
            "-v",
            "2",
            "-1",
            "v",
            "list",
            "json",
            "sarif",
            "always",
            "megatron",
        ),
        *(
            "Et|tL",
            "Et*3||t*3|t*6NL",
            "E(t|)*9L",
            "Et@0|tL@1",
            "E(t",
            "1,2",
            "0:1,1:1",
            "[['embedding']]",
            "[[",
            "noop-layers=1",
            "/nowhere",
        ),
        *(
            "--pp",
            "--vpp",
            "--num-layers",
            "--placement",
            "--target",
            "--with",
            "--output-format",
            "--color",
            "--expand",
            "--as",
            "--check",
            "--microbatches",
            "--schedule",
            "--costs",
            "--gantt",
        ),
        *(
            "--uniform",
            "--partition",
            "--chunks",
            "--list",
            "--rank-major",
            "--first-stage-layers",
            "--account-for-loss",
            "--from",
            "--files",
        ),
    ]
)


@given(st.sampled_from(["check", "fmt", "explain", "diff"]), st.lists(WORDS | st.text(max_size=8), max_size=6))
def test_no_arguments_are_a_fault_of_the_program(command: str, arguments: list[str]) -> None:
    output, errors, code = run(command, *arguments, stdin="Et|tL\nx\n")
    assert code in {0, 1, 2}, errors
    assert code != 2 or output or errors
    assert "Traceback" not in errors
