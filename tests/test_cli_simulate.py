"""``ppdsl simulate``: what is said, what is drawn, and what is refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from ppdsl.cli import main
from ppdsl.options import SCHEDULES
from ppdsl.schedules import NAMES
from ppdsl.schemas import schema_for

ROOT = Path(__file__).parents[1]
COSTS = {
    "kinds": {
        "E": {"forward": 0.5, "params": 2_000_000},
        "t": {"forward": 1, "params": 1_000_000, "activation_bytes": 30_000_000, "activation_bytes_after_input_grad": 10_000_000},
        "L": {"forward": 2},
    },
    "link": {"latency_us": 10, "gigabytes_per_s": 50, "message_bytes": 10_000_000},
    "memory_limit_bytes": 210_000_000,
}
SHAPE = ("--hidden", "1024", "--seq", "2048", "--vocab", "32000", "--batch", "1", "--tflops", "100")


def run(*arguments: str, stdin: str = "") -> tuple[str, str, int]:
    with CliRunner().isolation(input=stdin) as (output, errors, _):
        code = main(["simulate", *arguments])
        sys.stdout.flush()
        return output.getvalue().decode(), errors.getvalue().decode(), code


def simulated(*arguments: str) -> dict[str, Any]:
    output, _, code = run(*arguments, "--output-format", "json")
    assert code == 0, output
    document: dict[str, Any] = json.loads(output)
    Draft202012Validator(schema_for("simulate")).validate(document)
    return document


@pytest.fixture
def costs(tmp_path: Path) -> str:
    path = tmp_path / "costs.json"
    path.write_text(json.dumps(COSTS))
    return str(path)


def test_the_text_says_that_no_costs_are_given() -> None:
    assert run("Et*3||t*3|t*6NL", "--pp", "2", "--microbatches", "8") == (
        (
            "interleaved_1f1b, 8 microbatches, pp 2 x vpp 2; the program is proved complete and free of deadlock\n"
            "no costs are given: a decoder or MTP layer takes 1 ms forward and 2 ms backward, all else nothing\n"
            "\n"
            "step time  198 ms, of which 27.27% bubble\n"
            "span       198 ms, of which 27.27% bubble\n"
            "\n"
            "rank  busy ms  fill  drain  imbalance  in flight\n"
            "   0      144    12     15         27          5\n"
            "   1      144     9     18         27          3\n"
            " all    72.7%  5.3%   8.3%      13.6%          5\n"
            "\n"
            "critical path: rank 1 72.7%, rank 0 27.3%\n"
        ),
        "",
        0,
    )


def test_the_text_says_all_that_a_costs_file_lets_it_know(costs: str) -> None:
    assert run("Ett|tttL", "--pp", "2", "--microbatches", "4", "--costs", costs, "--gantt") == (
        (
            "1f1b, 4 microbatches, pp 2 x vpp 1; the program is proved complete and free of deadlock\n"
            "\n"
            "step time  67.92 ms, of which 33.75% bubble\n"
            "span       67.92 ms, of which 33.75% bubble\n"
            "\n"
            "rank  busy ms   fill  drain  imbalance   p2p  in flight  peak memory\n"
            "   0    30.00  12.92  17.50       7.29  0.21          2     232.0 MB\n"
            "   1    60.00   2.71   5.21       0.00  0.00          1     184.0 MB\n"
            " all    66.3%  11.5%  16.7%       5.4%  0.2%          2     232.0 MB\n"
            "\n"
            "critical path: rank 1 88.3%, rank 0 11.0%, transfers 0.6%\n"
            "memory limit: 210.0 MB, 1 rank over it, the first is rank 0\n"
            "\n"
            "rank 0 F0 F1  ..................B0    F2  ..........B1     F3 ...........B2    ..............B3     \n"
            "rank 1 ....F0     B0           F1     B1            F2     B2           F3     B3            .......\n"
            "       0             10           20            30            40           50               67.92 ms\n"
            "F forward   B backward   . idle   number: microbatch\n"
        ),
        "",
        0,
    )


def test_the_json_has_what_the_text_says(costs: str) -> None:
    document = simulated("Ett|tttL", "--pp", "2", "--microbatches", "4", "--costs", costs, "--depth", "2")
    assert [*document][:3] == ["schema_version", "ppdsl_version", "layout"]
    assert (document["layout"], document["schedule"], document["microbatches"]) == ("Ett|t*3L", "1f1b", 4)
    assert (document["pp"], document["vpp"], document["placement"], document["depth"]) == (2, 1, "loop", 2)
    assert (document["costs_from"], document["memory_limit_bytes"]) == ("file", 210_000_000)
    assert [rank["busy_ms"] for rank in document["ranks"]] == [30, 60]
    for rank in document["ranks"]:
        assert rank["busy_ms"] + sum(rank["idle_ms"].values()) == pytest.approx(document["makespan_ms"])


@pytest.mark.parametrize(
    ("name", "arguments", "makespan", "in_flight"),
    [
        ("gpipe", ["Et|t|t|tL", "--pp", "4"], (8 + 4 - 1) * 3, [8, 8, 8, 8]),
        ("1f1b", ["Et|t|t|tL", "--pp", "4"], (8 + 4 - 1) * 3, [4, 3, 2, 1]),
        ("interleaved_1f1b", ["Et|t|t|tL", "--pp", "2"], 8 * 6 + (2 - 1) * 6 / 2, [5, 3]),
        ("zb_h1", ["Et|t|t|tL", "--pp", "4"], 8 * 3 + 3 * 1, [4, 3, 2, 1]),
        ("zb_h2", ["Et|t|t|tL", "--pp", "4"], 8 * 3 + 3, [7, 5, 3, 1]),
        ("zb_v", ["Et|t|t|tL", "--pp", "2", "--placement", "v"], 6 * 8 + 2 - 1, [4, 4]),
    ],
)
def test_the_closed_forms_hold(name: str, arguments: list[str], makespan: float, in_flight: list[int]) -> None:
    document = simulated(*arguments, "--microbatches", "8", "--schedule", name)
    assert document["schedule"] == name
    assert document["makespan_ms"] == makespan
    assert [rank["peak_in_flight"] for rank in document["ranks"]] == in_flight


@pytest.mark.parametrize(
    ("case", "makespan"),
    [
        (["Et*4|tt|tt|tL", "--pp", "2", "--microbatches", "4"], None),
        (["E|t*4|t*4|tL", "--pp", "2", "--microbatches", "4"], None),
        (["Et*3|t*3|t*3|L", "--pp", "2", "--microbatches", "4"], 74.1),
    ],
)
def test_a_golden_case_of_the_reference_is_best(case: list[str], makespan: float | None, tmp_path: Path) -> None:
    path = tmp_path / "costs.json"
    path.write_text('{"kinds": {"E": {"forward": 0.05}, "t": {"forward": 1}, "L": {"forward": 2.4}}}')
    found = simulated(*case, "--costs", str(path))["makespan_ms"]
    assert found == pytest.approx(makespan) if makespan is not None else found > 74.1


def test_the_command_line_knows_every_schedule() -> None:
    assert SCHEDULES == NAMES


@given(
    st.integers(1, 12),
    st.sampled_from(
        (("Et|t|t|tL", "--pp", "2", "--placement", "v"), ("Et@0|t@1|t@1|tL@0",), ("E|ttt|tL", "--pp", "3"), ("EtL", "--pp", "1"))
    ),
)
def test_auto_fits_any_placement_and_any_microbatches(microbatches: int, layout: tuple[str, ...]) -> None:
    document = simulated(*layout, "--microbatches", str(microbatches), "--schedule", "auto")
    slowest = simulated(*layout, "--microbatches", str(microbatches), "--schedule", "gpipe")
    assert document["makespan_ms"] <= slowest["makespan_ms"]


def test_costs_come_from_a_shape() -> None:
    document = simulated("Et|tL", "--pp", "2", "--microbatches", "4", *SHAPE)
    tokens, hidden, per_ms = 2048, 1024, 1e11
    decoder = tokens * hidden * (72 * hidden + 12 * 2048) / per_ms
    assert document["costs_from"] == "shape"
    assert document["ranks"][0]["busy_ms"] == pytest.approx(4 * (decoder + 3 * tokens * hidden / per_ms))
    assert document["ranks"][1]["busy_ms"] == pytest.approx(4 * (decoder + 6 * tokens * hidden * 32000 / per_ms))
    output = run("Et|tL", "--pp", "2", "--microbatches", "4", *SHAPE)[0]
    assert output.splitlines()[1] == "costs are estimated from the model's shape, activations are not: they depend on what is recomputed"


def test_megatrons_names_of_the_shape_are_taken() -> None:
    given = ("--hidden-size", "1024", "--seq_length", "2048", "--vocab-size=32000", "--micro-batch-size", "1", "--tflops", "100")
    more = ("--num-attention-heads", "16", "--num-query-groups", "4", "--ffn-hidden-size", "3000", "--swiglu")
    ours = ("--heads", "16", "--kv-heads", "4", "--ffn", "3000", "--gated")
    arguments = ("Et|tL", "--pp", "2", "--microbatches", "4")
    assert simulated(*arguments, *given, *more) == simulated(*arguments, *SHAPE, *ours) != simulated(*arguments, *SHAPE)


def test_beside_a_file_the_shape_says_how_a_backward_is_split(tmp_path: Path) -> None:
    path = tmp_path / "costs.json"
    path.write_text('{"kinds": {"t": {"forward": 1, "backward": 2}}}')
    arguments = ("Et|tL", "--pp", "2", "--microbatches", "4", "--schedule", "zb_h1", "--costs", str(path))
    halves, shaped = simulated(*arguments), simulated(*arguments, *SHAPE)
    assert halves["costs_from"] == shaped["costs_from"] == "file"
    assert halves["makespan_ms"] < shaped["makespan_ms"]


def test_times_of_nothing_are_no_fault(tmp_path: Path) -> None:
    path = tmp_path / "costs.json"
    path.write_text('{"kinds": {"t": {"forward": 0}}}')
    output, errors, code = run("Et|tL", "--pp", "2", "--microbatches", "2", "--costs", str(path), "--gantt")
    assert output.splitlines()[2] == "step time  0 ms, of which 0.00% bubble"
    assert "critical path: nothing takes any time\n" in output
    assert (errors, code) == ("", 0)


@pytest.mark.parametrize("time", ["1e-320", "1e-29", "1e-9", "1e18"])
@pytest.mark.parametrize("link", ['"p2p_ms": 1e-320', '"p2p_ms": 1e18', '"link": {"gigabytes_per_s": 1e-9, "message_bytes": 1e18}'])
def test_no_costs_that_are_taken_are_a_fault(time: str, link: str, tmp_path: Path) -> None:
    path, drawn = tmp_path / "costs.json", tmp_path / "drawn"
    path.write_text(f'{{"kinds": {{"t": {{"forward": {time}, "params": 1e18, "activation_bytes": {time}}}}}, {link}}}')
    arguments = ("Et|t|t|tL", "--pp", "2", "--microbatches", "2", "--costs", str(path))
    assert "Infinity" not in json.dumps(simulated(*arguments))
    assert run(*arguments, "--schedule", "auto", "--gantt")[1:] == ("", 0)
    for picture in ("--html", "--svg", "--trace"):
        assert run(*arguments, picture, str(drawn))[1:] == ("", 0)


def test_of_many_ranks_the_first_are_listed() -> None:
    lines = run("E(t|)*99L", "--pp", "100", "--microbatches", "100", "--schedule", "1f1b")[0].splitlines()
    assert lines[-3] == "and 36 more ranks"
    assert lines[-5].startswith("  63  ")
    assert lines[-1].endswith(", others 47.0%")


def test_a_launch_file_gives_sizes_and_microbatches(tmp_path: Path) -> None:
    path = tmp_path / "run.sh"
    path.write_text(
        "torchrun train.py --pipeline-model-parallel-layout 'Et|t|t|tL' --pipeline-model-parallel-size 2 --global-batch-size 32 "
        "--micro-batch-size 2 --data-parallel-size 4\n"
    )
    document = simulated("--from", str(path))
    assert (document["layout"], document["pp"], document["vpp"], document["microbatches"]) == ("Et|t|t|tL", 2, 2, 4)


def test_the_other_forms_are_simulated() -> None:
    assert simulated("--partition", "2,2", "--microbatches", "2")["layout"] == "Ett|ttNL"
    assert simulated("--uniform", "--num-layers", "4", "--pp", "2", "--microbatches", "2")["layout"] == "Ett|ttNL"
    assert run("-", "--pp", "2", "--microbatches", "2", stdin="# one\nEt|tL\n")[2] == 0
    assert run("-", "--pp", "1", stdin="EtL\nEttL\n") == (
        "",
        "error: one layout is taken, the input holds 2 (see ppdsl simulate --help)\n",
        2,
    )


def test_warnings_go_to_standard_error() -> None:
    arguments = ("Et|tL", "--pp", "2", "--microbatches", "1")
    output, errors, code = run(*arguments)
    assert output.startswith("1f1b, 1 microbatch, ")
    assert errors.startswith("warning[PP315]: 1 microbatch cannot keep 2 ranks busy at once\n")
    assert code == 0
    assert run(*arguments, "--warn-error")[::2] == ("", 1)


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
            ["Et|t|t|tL", "--pp", "2", "--placement", "v"],
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
        (b"{", "the costs file is not JSON: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"),
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
    path = tmp_path / "less.json"
    path.write_text(json.dumps(COSTS | {"memory_limit_bytes": 1_000_000}))
    output, errors, code = run(*arguments, str(path))
    assert (output, code) == ("", 3)
    assert errors.startswith("error: no schedule fits the memory limit: the leanest that was found takes ")
    output, errors, code = run(*arguments, str(path), "--output-format", "json")
    assert json.loads(output)["usage_error"].startswith("no schedule fits the memory limit: ")
    assert (errors, code) == ("", 3)


def test_pictures_are_written_whole(costs: str, tmp_path: Path) -> None:
    trace, svg, html = (tmp_path / name for name in ("x.json", "x.svg", "x.html"))
    svg.write_text("before")
    arguments = ("Ett|tttL", "--pp", "2", "--microbatches", "4", "--costs", costs)
    drawn = run(*arguments, "--trace", str(trace), "--svg", str(svg), "--html", str(html))
    assert drawn == run(*arguments)
    assert {path.name for path in tmp_path.iterdir()} == {"costs.json", "x.json", "x.svg", "x.html"}
    events = json.loads(trace.read_text())["traceEvents"]
    assert sum(event["ph"] == "X" for event in events) == 2 * 4 * 2
    most = [max(each["args"]["bytes"] for each in events if each["name"] == f"memory of rank {rank}") for rank in range(2)]
    assert most == [rank["peak_memory_bytes"] for rank in simulated(*arguments)["ranks"]]
    assert "1f1b, 4 microbatches" in (ET.fromstring(svg.read_text())[0].text or "")  # noqa: S314 -- ppdsl wrote it
    assert "peak memory" in html.read_text()


def test_without_sizes_a_trace_has_no_memory(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    assert run("Et|tL", "--pp", "2", "--microbatches", "2", "--trace", str(path))[2] == 0
    assert not any(event["ph"] == "C" for event in json.loads(path.read_text())["traceEvents"])


def test_a_directory_is_not_overwritten(tmp_path: Path) -> None:
    assert run("Et|tL", "--pp", "2", "--microbatches", "2", "--html", str(tmp_path)) == (
        "",
        f"error: cannot write '{tmp_path}': is a directory\n",
        2,
    )
    assert [*tmp_path.iterdir()] == []


def test_a_layout_is_escaped_in_a_picture(tmp_path: Path) -> None:
    path = tmp_path / "x.svg"
    assert run("Et@0|tL@1", "--microbatches", "2", "--svg", str(path))[2] == 0
    assert "Et@0|tL@1" in (ET.fromstring(path.read_text())[0].text or "")  # noqa: S314 -- ppdsl wrote it


def test_forced_colour_draws_the_table_with_rich() -> None:
    output = run("Et|tL", "--pp", "2", "--microbatches", "2", "--color", "always", "--gantt")[0]
    assert "│\x1b[36m \x1b[0m\x1b[36m   0\x1b[0m\x1b[36m \x1b[0m│       6 │" in output
    assert "\x1b[38;5;16;48;5;111m" in output


@pytest.mark.parametrize(("option", "drawn"), [([], True), (["--no-gantt"], False)])
def test_on_a_terminal_the_schedule_is_drawn(option: list[str], drawn: bool) -> None:  # noqa: FBT001 -- a parameter of the test
    leader, follower = os.openpty()
    environment = os.environ | {"COLUMNS": "60", "TERM": "xterm", "NO_COLOR": "1"}
    command = [sys.executable, "-m", "ppdsl", "simulate", "Et|tL", "--pp", "2", "--microbatches", "2", *option]
    done = subprocess.run(
        command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=follower, stderr=subprocess.PIPE, check=False
    )
    os.close(follower)
    output = b""
    while chunk := _read(leader):
        output += chunk
    os.close(leader)
    assert (done.returncode, done.stderr) == (0, b"")
    assert (b"\r\nrank 0 F0" in output) == drawn
    assert max(map(len, output.decode().splitlines()[6:])) <= 60


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65_536)
    except OSError:  # what Linux says at the end
        return b""
