"""Every rule's own examples are run: the wrong one finds exactly that code, the right one is valid."""

from __future__ import annotations

import json
import shlex
import sys
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from ppdsl import forms, launch_files, parsing, sizes, validation
from ppdsl.catalog import all_rules
from ppdsl.cli import main

if TYPE_CHECKING:
    from pathlib import Path

    from ppdsl.diagnostics import Rule

RULES = tuple(all_rules().values())
CODES = {
    *range(101, 113),
    *range(201, 210),
    *range(301, 317),
    *range(401, 405),
    *range(501, 506),
    *range(520, 528),
    *range(601, 608),
}


def run(*arguments: str, stdin: str = "") -> tuple[str, str, int]:
    with CliRunner().isolation(input=stdin) as (output, errors, _):
        code = main(arguments)
        sys.stdout.flush()
        return output.getvalue().decode(), errors.getvalue().decode(), code


def report(rule: Rule, example: str) -> tuple[dict[str, str], bool, int]:
    """Give the severity of each code that an example reports, whether it is valid, and its exit code."""
    output, _, code = run(*shlex.split(example), "--output-format", "json", stdin=rule.stdin or "")
    document = json.loads(output)
    assert "usage_error" not in document
    found = [each for result in document.get("results", [document]) for each in result["diagnostics"]]
    return {each["code"]: each["severity"] for each in found}, document["valid"], code


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write_files(rule: Rule, folder: Path) -> None:
    for name, content in (rule.files or {}).items():
        (folder / name).write_text(content)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_the_wrong_example_finds_exactly_that_code(rule: Rule, folder: Path) -> None:
    write_files(rule, folder)
    found, valid, code = report(rule, rule.wrong)
    assert {name for name, severity in found.items() if severity != "info" or name == rule.code} == {rule.code}
    assert found[rule.code] in {rule.severity, "warning"}  # an empty stage, PP601, is a warning where it looks like a miscount
    assert valid == (rule.severity != "error")
    assert (code == 0) == valid


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_the_right_example_is_valid_and_free_of_that_code(rule: Rule, folder: Path) -> None:
    write_files(rule, folder)
    found, valid, code = report(rule, rule.right)
    assert rule.code not in found
    assert (valid, code) == (True, 0)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_a_code_is_explained_with_both_examples(rule: Rule) -> None:
    output, errors, code = run("explain", rule.code)
    assert output.startswith(f"{rule.code}: {rule.title} ({rule.severity})\n\n")
    assert f"\nwrong:\n  ppdsl {rule.wrong}\nright:\n  ppdsl {rule.right}\n" in output
    assert (errors, code) == ("", 0)


def test_every_code_of_the_language_has_its_rule_and_no_other_has() -> None:
    assert [*all_rules()] == sorted(f"PP{number}" for number in CODES)
    assert len(CODES) == sum(len(module.RULES) for module in (forms, launch_files, parsing, sizes, validation))


def test_the_texts_of_rules_are_whole_sentences_and_their_titles_are_not() -> None:
    for rule in RULES:
        assert rule.text.endswith((".", "?")), rule.code
        assert not rule.title.endswith("."), rule.code
        assert "illegal" not in f"{rule.title} {rule.text}".lower(), rule.code


def test_an_explanation_is_wrapped_and_shows_files() -> None:
    output, _, code = run("explain", "pp204")
    assert code == 0
    assert output.startswith("PP204: no layout in the file (error)\n\nThe file names no pipeline layout,")
    assert output.endswith(
        "wrong:\n"
        "  ppdsl check --from plain.sh\n"
        "right:\n"
        "  ppdsl check --from run.sh\n"
        "with plain.sh:\n"
        "  torchrun pretrain_gpt.py --num-layers 8 --pipeline-model-parallel-size 2\n"
        "with run.sh:\n"
        "  torchrun pretrain_gpt.py \\\n"
        "      --num-layers 8 --pipeline-model-parallel-size 2 \\\n"
        "      --pipeline-model-parallel-layout 'Ettt|ttttt,L'\n"
    )
    assert max(map(len, output.splitlines())) <= 88


@pytest.mark.parametrize(("typed", "nearest"), [("PP399", "PP309"), ("pp3021", "PP302"), ("Pp1", "PP601")])
def test_an_unknown_code_is_answered_with_the_nearest(typed: str, nearest: str) -> None:
    assert run("explain", typed) == ("", f"error: no such code {typed.upper()}, the nearest is {nearest} (see ppdsl explain --help)\n", 2)


def test_a_layout_is_told_stage_by_stage() -> None:
    assert run("explain", "Et*3||t*3|t*6NL", "--pp", "2") == (
        (
            "4 stages, 12 decoder layers, pp 2 x vpp 2, placement loop\n"
            "\n"
            "stage 0 (rank 0 chunk 0): the embedding, decoder layers 0 to 2\n"
            "stage 1 (rank 1 chunk 0): nothing, what comes in goes on\n"
            "stage 2 (rank 0 chunk 1): decoder layers 3 to 5\n"
            "stage 3 (rank 1 chunk 1): decoder layers 6 to 11, the final norm, the loss\n"
            "\n"
            "every rank has 6 decoder layers\n"
        ),
        "",
        0,
    )


def test_equal_stages_take_one_line_and_the_implied_norm_is_named() -> None:
    assert run("explain", "Et*3|(tt|)*29,m|L", "--pp", "16")[0] == (
        "32 stages, 61 decoder layers, 1 MTP layer, pp 16 x vpp 2, placement loop\n"
        "\n"
        "stage 0 (rank 0 chunk 0): the embedding, decoder layers 0 to 2\n"
        "stages 1 to 29 (rank 1 chunk 0 to rank 13 chunk 1): decoder layers 3 to 60, 2 each, the final norm in stage 29 (implied)\n"
        "stage 30 (rank 14 chunk 1): MTP layer 0\n"
        "stage 31 (rank 15 chunk 1): the loss\n"
        "\n"
        "the ranks have 2 to 5 decoder layers, 3.81 on average; rank 0 has the most\n"
    )


def test_a_million_stages_give_a_short_text() -> None:
    output, errors, code = run("explain", "E(t|)*999999L", "--pp", "2")
    assert output == (
        "1,000,000 stages, 999,999 decoder layers, pp 2 x vpp 500,000, placement loop\n"
        "\n"
        "stage 0 (rank 0 chunk 0): the embedding, decoder layer 0\n"
        "stages 1 to 999,998 (rank 1 chunk 0 to rank 0 chunk 499,999): decoder layers 1 to 999,998, 1 each\n"
        "stage 999,999 (rank 1 chunk 499,999): the final norm (implied), the loss\n"
        "\n"
        "the ranks have 499,999 to 500,000 decoder layers, 499,999.50 on average; rank 0 has the most\n"
    )
    assert (errors, code) == ("", 0)


def test_of_many_different_stages_the_first_are_told() -> None:
    output, _, code = run("explain", "E(t|tt|)*200L")
    assert code == 0
    assert output.count("\nstage ") == 100
    assert output.endswith("stage 99: decoder layers 148 to 149\nand 301 more runs of equal stages\n")


def test_owners_and_mtp_layers_are_told() -> None:
    assert run("explain", "Et@0|t@1|t@1|mmNL@0")[0] == (
        "4 stages, 3 decoder layers, 2 MTP layers\n"
        "\n"
        "stage 0: the embedding, decoder layer 0\n"
        "stages 1 to 2: decoder layers 1 to 2, 1 each\n"
        "stage 3: MTP layers 0 to 1, the final norm, the loss\n"
    )
    assert "stages 1 to 2 (rank 1): decoder layers 1 to 2, 1 each\n" in run("explain", "Et@0|t@1|t@1|tNmmL@0")[0]


def test_an_invalid_layout_is_told_beside_its_faults() -> None:
    assert run("explain", "E|(t|)*3EEL") == (
        (
            "5 stages, 3 decoder layers\n"
            "\n"
            "stage 0: the embedding\n"
            "stages 1 to 3: decoder layers 0 to 2, 1 each\n"
            "stage 4: the embedding 2 times, the final norm (implied), the loss\n"
        ),
        (
            "error[PP303]: layout has 3 `E`s\n"
            "  --> <layout>:1:9\n"
            "   |\n"
            " 1 | E|(t|)*3EEL\n"
            "   | -       ^^\n"
            "   | |\n"
            "   | another\n"
            "   = help: keep one: E|(t|)*3L\n"
        ),
        1,
    )


def test_a_layout_with_more_stages_than_the_limit_is_only_counted() -> None:
    output, errors, code = run("explain", "E(t|)*9L", "--max-stages", "2")
    assert output == "10 stages, 9 decoder layers\n"
    assert errors.startswith("error[PP401]: layout has 10 stages, the limit is 2\n")
    assert code == 1


def test_what_is_no_layout_is_not_told() -> None:
    assert run("explain", "Etx") == (
        "",
        "error[PP101]: unknown symbol `x`\n  --> <layout>:1:3\n   |\n 1 | Etx\n   |   ^\n\ninvalid: 1 error\n",
        1,
    )
