"""``ppdsl simulate``: what is refused, and how it is said."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.simulate_command import SHAPE, run, simulated, write_costs

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def costs(tmp_path: Path) -> str:
    return write_costs(tmp_path)


@pytest.mark.parametrize(
    ("arguments", "errors"),
    [
        (["Et|tL", "--pp", "2"], "error[PP202]: a simulation needs --microbatches\n   = help: give --microbatches\n"),
        (["Et|tL"], "error[PP202]: a simulation needs --pp and --microbatches\n   = help: give --pp and --microbatches\n"),
        (["EtL", "--pp", "1", "--microbatches", "1", "--depth", "-1"], "error[PP203]: --depth is -1, the range is 0 to 1,000,000\n"),
        (["EtL", "--pp", "1", "--microbatches", "1", "--hidden", "0"], "error[PP203]: --hidden is 0, the range is 1 to 1,000,000,000\n"),
        (
            ["EtL", "--pp", "1", "--microbatches", "1", "--gated", "--hidden", "8"],
            (
                "error[PP202]: a model's shape needs --seq, --vocab, --batch and --tflops\n"
                "   = help: give --seq, --vocab, --batch and --tflops\n"
            ),
        ),
        (
            ["EtL", "--pp", "1", "--microbatches", "1", *SHAPE, "--kv-heads", "8"],
            "error[PP202]: --kv-heads needs --heads\n   = help: give --heads\n",
        ),
        (
            ["EtL", "--pp", "1", "--microbatches", "1", *SHAPE, "--kv-heads", "3", "--heads", "8"],
            "error[PP203]: --heads is 8, not a multiple of --kv-heads, which is 3\n",
        ),
        *(
            (
                ["EtL", "--pp", "1", "--microbatches", "1", *SHAPE, "--tflops", value],
                f"error[PP203]: --tflops is {value}, the range is 1e-06 to 1e+09\n",
            )
            for value in ("0", "-1", "nan", "inf")
        ),
    ],
)
def test_sizes_that_are_missing_or_out_of_range_are_said_to_be_so(arguments: list[str], errors: str) -> None:
    assert run(*arguments) == ("", f"{errors}\ninvalid: 1 error\n", 2)
    output, nothing, code = run(*arguments, "--output-format", "json")
    (diagnostic,) = (each for each in json.loads(output)["diagnostics"] if each["severity"] == "error")
    assert errors.startswith(f"error[{diagnostic['code']}]: {diagnostic['message']}\n")
    assert (nothing, code) == ("", 2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["Et|t|t|tL", "--pp", "2", "--placement", "v", "--schedule", "interleaved_1f1b"],
            "interleaved_1f1b needs the loop placement; what --schedule can be here: gpipe, zb_v, auto",
        ),
        (
            ["Et|t|t|tL", "--pp", "2", "--schedule", "1f1b"],
            "1f1b needs one stage on each rank; what --schedule can be here: gpipe, interleaved_1f1b, auto",
        ),
        (["Et|tL", "--pp", "2", "--max-actions", "15"], "a schedule of 16 actions is over the limit of 15 (--max-actions)"),
        (["Et|tL", "--pp", "2", "--svg", "x", "--html", "x"], "--svg and --html name the same file"),
        (["Et|tL", "--pp", "2", "--tflops", "1_0"], "invalid value for '--tflops': '1_0' is not a number"),
    ],
)
def test_what_cannot_be_simulated_is_a_usage_error(arguments: list[str], message: str) -> None:
    arguments = [*arguments, "--microbatches", "4"]
    assert run(*arguments) == ("", f"error: {message} (see ppdsl simulate --help)\n", 2)
    output, errors, code = run(*arguments, "--output-format", "json")
    assert json.loads(output)["usage_error"] == message
    assert (errors, code) == ("", 2)


def test_a_schedule_of_any_length_is_refused_at_once() -> None:
    assert run("Et|tL", "--pp", "2", "--microbatches", "1000000000", "--schedule", "zb_h1")[1] == (
        "error: a schedule of 6,000,000,000 actions is over the limit of 4,000,000 (--max-actions) (see ppdsl simulate --help)\n"
    )


def test_microbatches_that_do_not_fit_are_refused_as_by_check() -> None:
    output, errors, code = run("Et|t|t|tL", "--pp", "2", "--microbatches", "3")
    assert (output, code) == ("", 1)
    assert errors.startswith("error[PP315]: 3 microbatches cannot be scheduled by interleaved_1f1b: ")
    assert errors.endswith("\ninvalid: 1 error\n")


def test_an_invalid_layout_in_json_is_a_whole_document() -> None:
    output, errors, code = run("Et|x", "--pp", "2", "--microbatches", "2", "--output-format", "json")
    assert json.loads(output)["valid"] is False
    assert (errors, code) == ("", 1)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"{", "the costs file is not JSON: expecting property name enclosed in double quotes: line 1, column 2"),
        (b"\xff", "it is not valid UTF-8 at byte 0"),
        (b'{"kinds": {}}', "kinds.t is missing"),
        (b'{"kinds": {"t": {"forward": "\\u202e\\n"}}}', "kinds.t.forward is '\\u202e\\n', not a number from 0"),
        (None, "no such file or directory"),
    ],
)
def test_a_costs_file_that_cannot_be_read_is_said_to_be_so(content: bytes | None, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "costs.json"
    if content is not None:
        path.write_bytes(content)
    arguments = ("Et|tL", "--pp", "2", "--microbatches", "2", "--costs", str(path))
    message = f"cannot read the costs file {path}: {reason}"
    assert run(*arguments) == ("", f"error[PP206]: {message}\n\ninvalid: 1 error\n", 2)
    output, errors, code = run(*arguments, "--output-format", "json")
    assert [each["message"] for each in json.loads(output)["diagnostics"] if each["severity"] == "error"] == [message]
    assert (errors, code) == ("", 2)


def test_a_costs_file_without_end_is_refused() -> None:
    errors = run("Et|tL", "--pp", "2", "--microbatches", "2", "--costs", "/dev/zero")[1]
    assert errors.startswith("error[PP206]: cannot read the costs file /dev/zero: it is longer than 67,108,864 bytes\n")


def test_costs_of_layers_that_are_not_there_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "costs.json"
    path.write_text('{"kinds": {"t": {"forward": 1}}, "layers": {"7": {"forward": 2}}}')
    assert run("Et|tL", "--pp", "2", "--microbatches", "2", "--costs", str(path)) == (
        "",
        (
            "error: the costs file does not fit the layout: layers.7: there is no such layer, the layout has 2 of kind t "
            "(see ppdsl simulate --help)\n"
        ),
        2,
    )


def test_a_memory_limit_that_nothing_fits_is_no_answer(costs: str, tmp_path: Path) -> None:
    arguments = ("Ett|tttL", "--pp", "2", "--microbatches", "4", "--schedule", "auto", "--costs")
    assert simulated(*arguments, costs)["ranks"][0]["peak_memory_bytes"] <= 210_000_000
    path = write_costs(tmp_path, memory_limit_bytes=1_000_000)
    output, errors, code = run(*arguments, path)
    assert (output, code) == ("", 3)
    assert errors.startswith("error: no schedule fits the memory limit: the leanest that was found takes ")
    output, errors, code = run(*arguments, path, "--output-format", "json")
    assert json.loads(output)["usage_error"].startswith("no schedule fits the memory limit: ")
    assert (errors, code) == ("", 3)


def test_the_buffers_of_a_greater_depth_may_not_fit(costs: str) -> None:
    arguments = ("Ett|tttL", "--pp", "2", "--microbatches", "4", "--schedule", "auto", "--costs", costs)
    assert simulated(*arguments, "--depth", "1")["ranks"][0]["peak_memory_bytes"] <= 210_000_000
    assert run(*arguments, "--depth", "9") == (
        "",
        "error: no schedule fits the memory limit: the leanest that was found takes 54000000 bytes more (see ppdsl simulate --help)\n",
        3,
    )


@pytest.mark.parametrize(
    ("pictures", "message"),
    [
        (["--svg", "x", "--html", "./x"], "--svg and --html name the same file"),
        (["--trace", "link", "--svg", "x"], "--trace and --svg name the same file"),
        (["--trace", "nowhere/../x", "--html", "x"], "--trace and --html name the same file"),
        (["--costs", "costs.json", "--svg", "./costs.json"], "--costs and --svg name the same file"),
        (["--from", "run.sh", "--html", "run.sh"], "--from and --html name the same file"),
        (["--files", "run.sh", "--trace", "run.sh"], "--files and --trace name the same file"),
        (["--svg", "-"], "--svg takes a file, and - is none; one of that name is ./-"),
    ],
)
def test_no_file_is_written_over_another_of_the_command(
    pictures: list[str], message: str, costs: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link").symlink_to("x")
    (tmp_path / "run.sh").write_text("--pipeline-model-parallel-layout 'Et|tL'\n")
    layout = [] if "run.sh" in pictures else ["Et|tL"]
    before = {path.name: path.read_text() for path in tmp_path.iterdir() if path.exists()}
    assert run(*layout, "--pp", "2", "--microbatches", "2", *pictures) == ("", f"error: {message} (see ppdsl simulate --help)\n", 2)
    assert {path.name: path.read_text() for path in tmp_path.iterdir() if path.exists()} == before
    assert costs.endswith("costs.json")


def test_the_json_is_whole_where_a_picture_cannot_be_written(tmp_path: Path) -> None:
    path = tmp_path / "nowhere" / "x.svg"
    output, errors, code = run("Et|tL", "--pp", "2", "--microbatches", "2", "--svg", str(path), "--output-format", "json")
    assert json.loads(output)["usage_error"] == f"cannot write '{path}': no such file or directory"
    assert (errors, code) == ("", 2)


def test_a_directory_is_not_overwritten(tmp_path: Path) -> None:
    assert run("Et|tL", "--pp", "2", "--microbatches", "2", "--html", str(tmp_path)) == (
        "",
        f"error: cannot write '{tmp_path}': is a directory\n",
        2,
    )
    assert [*tmp_path.iterdir()] == []
