from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import pytest

torch = pytest.importorskip("torch")  # the runtime is tested where torch is among the tests' requirements

from ppdsl._version import __version__  # noqa: E402 -- in one block with what needs torch
from ppdsl_runtime.commands import program  # noqa: E402 -- it loads torch
from ppdsl_runtime.dumps import dump_tensors  # noqa: E402 -- the same
from tests.runtime.command_runs import Answer, command, misused, refused  # noqa: E402 -- the same

if TYPE_CHECKING:
    from pathlib import Path

    from tests.runtime.command_runs import Command

__all__ = ["command"]


def test_help_lists_the_commands(command: Command) -> None:
    code, out, err = command("--help")
    assert (code, err) == (0, "")
    listed = [line.split()[0] for line in out.partition("Commands:\n")[2].splitlines()]
    assert listed == ["train", "reference", "compare", "profile"]


@pytest.mark.parametrize("name", program.COMMANDS)
def test_each_command_has_a_help_of_plain_lines(command: Command, name: str) -> None:
    code, out, err = command(name, "-h")
    assert (code, err) == (0, "")
    assert out.startswith(f"Usage: python -m ppdsl_runtime {name} [OPTIONS]")
    assert "\\b" not in out
    assert max(map(len, out.splitlines())) <= 100


def test_the_version_is_shown(command: Command) -> None:
    assert command("--version") == (0, f"ppdsl_runtime {__version__}\n", "")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((), "missing command (see python -m ppdsl_runtime --help)"),
        (("trian",), "no such command 'trian', did you mean 'train'? (see python -m ppdsl_runtime --help)"),
        (("check",), "no such command 'check' (see python -m ppdsl_runtime --help)"),
        (("--verbose",), "no such option --verbose (see python -m ppdsl_runtime --help)"),
    ],
)
def test_what_is_no_command_is_refused(command: Command, arguments: tuple[str, ...], text: str) -> None:
    assert command(*arguments) == refused(text)


def test_a_fault_shows_its_traceback_and_is_no_difference(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def break_down(*_: object) -> None:
        raise RuntimeError("some fault")

    monkeypatch.setattr("ppdsl_runtime.commands.compare.compare_runs", break_down)
    monkeypatch.setattr("sys.excepthook", sys.__excepthook__)  # torch's own, once ranks have met, begins each line with the rank
    code, out, err = command("compare", "a", "b")
    assert (code, out) == (70, "")
    assert err.startswith("Traceback (most recent call last):\n")
    assert err.endswith("\nRuntimeError: some fault\n")


def test_an_interrupt_ends_a_command_without_a_word(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("ppdsl_runtime.commands.compare.compare_runs", interrupt)
    assert command("compare", "a", "b") == (130, "", "")


@pytest.fixture
def runs(tmp_path: Path) -> tuple[str, str]:
    """Give two runs, half of whose gradients differ by 1."""
    for name, value in (("one", 1.0), ("two", 2.0)):
        dump_tensors(tmp_path / name, {"a": torch.tensor([value]), "b": torch.zeros(1)})
    return str(tmp_path / "one"), str(tmp_path / "two")


def test_runs_that_differ_are_told_by_the_exit_code(command: Command, runs: tuple[str, str]) -> None:
    assert command("compare", *runs) == Answer(
        1,
        "tensors: 1 of 2 near enough, largest difference 1 absolute (a), 0.5 relative (a)\n"
        "  a: 1 absolute, 0.5 relative\n"
        "different within atol 1e-05, rtol 0\n",
        "",
    )


@pytest.mark.parametrize("near", [("--atol", "1"), ("--rtol", "0.5"), ("--atol=0.5", "--rtol=0.25")])
def test_runs_that_are_near_enough_are_equal(command: Command, runs: tuple[str, str], near: tuple[str, ...]) -> None:
    code, out, err = command("compare", *runs, *near)
    assert (code, err) == (0, "")
    assert out.splitlines()[-1].startswith("equal within atol ")


def test_a_comparison_is_given_as_json(command: Command, runs: tuple[str, str]) -> None:
    code, out, err = command("compare", *runs, "--output-format", "json")
    assert (code, err) == (1, "")
    document = json.loads(out)
    assert {**document, "tensors": len(document["tensors"])} == {
        "equal": False,
        "atol": 1e-5,
        "rtol": 0.0,
        "losses": [],
        "tensors": 2,
        "only_first": [],
        "only_second": [],
    }
    assert command("compare", runs[0], runs[0], "--output-format", "json").code == 0


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--atol", "nan"), "--atol is nan, not a number from 0"),
        (("--atol", "-1"), "--atol is -1, not a number from 0"),
        (("--rtol", "inf"), "--rtol is inf, not a number from 0"),
    ],
)
def test_a_tolerance_that_is_none_is_refused(command: Command, runs: tuple[str, str], arguments: tuple[str, ...], text: str) -> None:
    assert command("compare", *runs, *arguments) == refused(text)


def test_what_cannot_be_compared_is_refused(command: Command, tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text("[" * 100_000)
    huge = tmp_path / "huge.jsonl"
    huge.write_text('{"step": 0, "loss": 1' + "0" * 400 + "}")
    here, nowhere = str(tmp_path), str(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    empty = str(tmp_path / "empty")
    (tmp_path / "binary").write_bytes(b"loss \xff")
    binary = str(tmp_path / "binary")
    assert command("compare", nowhere, here) == refused(f"{nowhere} is not there")
    assert command("compare", empty, empty) == refused(f"neither {empty} nor {empty} has a log or a tensor")
    assert command("compare", str(log), str(log)) == refused(f"{log}, line 1: no JSON: nested too deep")
    assert command("compare", str(huge), str(huge)) == refused(f"{huge}, line 1: step is 0 and loss 1{'0' * 400}, not two numbers")
    assert command("compare", binary, binary) == refused(f"{binary} cannot be read: not valid UTF-8 at byte 5")
    assert command("compare", "", here) == misused("compare", "invalid value for 'FIRST': the path is empty")
    assert command("compare", here) == misused("compare", "missing argument 'SECOND'")
