"""``ppdsl simulate``: what is said."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ppdsl.options import SCHEDULES
from ppdsl.schedules import NAMES
from tests.simulate_command import SHAPE, run, simulated, write_costs

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def costs(tmp_path: Path) -> str:
    return write_costs(tmp_path)


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
            "stalls: stage 2 (rank 0) waits 27 ms for 3 (rank 1), stage 1 (rank 1) waits 18 ms for 2 (rank 0), "
            "stage 3 (rank 1) waits 9 ms for 2 (rank 0)\n"
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
            "stalls: stage 0 (rank 0) waits 7.5 ms for 1 (rank 1)\n"
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


def test_a_memory_limit_says_nothing_where_the_costs_know_no_sizes(tmp_path: Path) -> None:
    path = tmp_path / "costs.json"
    path.write_text('{"kinds": {"t": {"forward": 1}}, "memory_limit_bytes": 1000}', encoding="utf-8")
    out, err, code = run("Et|tL", "--pp", "2", "--microbatches", "2", "--costs", str(path))
    assert out.endswith("memory limit: 1.0 kB, but the costs say nothing of parameters and activations\n")
    assert (err, code) == ("", 0)


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
    assert lines[-4] == "and 36 more ranks"
    assert lines[-6].startswith("  63  ")
    assert lines[-2].endswith(", others 47.0%")


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
