"""``ppdsl suggest``: what is said, what is refused, and what an interrupt leaves."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from jsonschema import Draft202012Validator

from ppdsl import check_layout
from ppdsl.cli import main
from ppdsl.forms import read_owned_chunks, read_partition
from ppdsl.schemas import schema_for

ROOT = Path(__file__).parents[1]
GOLDEN = {"kinds": {"E": {"forward": 0.05}, "t": {"forward": 1.0}, "L": {"forward": 2.4}}}
LOADED = {
    "kinds": {
        "E": {"forward": 0.1, "params": 1_000_000},
        "t": {"forward": 1.0, "params": 2_000_000, "activation_bytes": 30_000_000},
        "m": {"forward": 1.1},
        "L": {"forward": 1.5, "params": 1_000_000},
    }
}
SIZES = ("--pp", "2", "--vpp", "2", "--num-layers", "9", "--microbatches", "4")


def run(*arguments: str) -> tuple[str, str, int]:
    with CliRunner().isolation() as (output, errors, _):
        code = main(["suggest", *arguments])
        sys.stdout.flush()
        return output.getvalue().decode(), errors.getvalue().decode(), code


def suggested(*arguments: str, code: int = 0) -> dict[str, Any]:
    output, errors, found = run(*arguments, "--output-format", "json")
    assert (found, errors) == (code, ""), output
    document: dict[str, Any] = json.loads(output)
    Draft202012Validator(schema_for("suggest")).validate(document)
    return document


@pytest.fixture
def golden(tmp_path: Path) -> str:
    path = tmp_path / "golden.json"
    path.write_text(json.dumps(GOLDEN))
    return str(path)


@pytest.fixture
def loaded(tmp_path: Path) -> str:
    path = tmp_path / "loaded.json"
    path.write_text(json.dumps(LOADED))
    return str(path)


def test_the_json_has_the_fields_that_are_promised(golden: str) -> None:
    document = suggested(*SIZES, "--schedule", "interleaved_1f1b", "--costs", golden)
    assert document["layout"] == "Et*3|t*3|t*3|L"
    assert document["per_stage"] == [3, 3, 3, 0]
    assert round(document["step_ms"], 9) == 74.1
    assert document["lower_bound_ms"] == document["step_ms"]
    assert (document["gap"], document["optimal"]) == (0, True)
    assert document["uniform"]["layout"] == "Et*3|tt|tt|ttL"
    assert round(document["uniform"]["step_ms"], 9) == 89.1
    assert document["megatron_layout"] == "Et*3|t*3|t*3|L"
    assert (document["compared"], document["pareto"], document["partition"]) == (None, None, None)
    assert document["chunks"] == "0:3,1:3,0:3,1:0"


def test_the_text_says_all_of_it(golden: str) -> None:
    arguments = ("--pp", "4", "--vpp", "2", "--num-layers", "12", "--microbatches", "8", "--costs", golden)
    assert run(*arguments, "--compare", "Ett|(tt|)*5|L", "--final-norm") == (
        (
            "interleaved_1f1b, 8 microbatches, pp 4 x vpp 2; the program is proved complete and free of deadlock\n"
            "\n"
            "rank  vpp 0         vpp 1\n"
            "   0  0: Ett [0-1]  4: tt [7-8]\n"
            "   1  1: tt [2-3]   5: tt [9-10]\n"
            "   2  2: tt [4-5]   6: t [11]\n"
            "   3  3: t [6]      7: NL\n"
            "\n"
            "layout       Ett|tt|tt|t|tt|tt|t|NL\n"
            "Megatron-LM  Ett|tt|tt|t|tt|tt|t|L\n"
            "--chunks     0:2,1:2,2:2,3:1,0:2,1:2,2:1,3:0\n"
            "\n"
            "step time  112.2 ms, which no layout beats\n"
            "uniform    148.2 ms (+32.09%): Ett|(tt|)*3(t|)*3tNL\n"
            "compared   124.2 ms (+10.70%): Ett|(tt|)*5|L\n"
            "\n"
            "rank  busy ms  fill  drain  imbalance  in flight\n"
            "   0     97.2   4.0    4.4        6.5         11\n"
            "   1     96.0   4.4    8.2        3.6          9\n"
            "   2     72.0   9.4   20.2       10.6          7\n"
            "   3     81.6   9.2   18.4        3.0          5\n"
            " all    77.3%  6.0%  11.4%       5.3%         11\n"
            "\n"
            "stalls: stage 6 (rank 2) waits 10.6 ms for 7 (rank 3), stage 4 (rank 0) waits 5.4 ms for 3 (rank 3), "
            "stage 5 (rank 1) waits 3.6 ms for 6 (rank 2), stage 3 (rank 3) waits 2 ms for 4 (rank 0), others 2.15 ms\n"
        ),
        "",
        0,
    )


def test_the_text_without_costs_says_what_is_assumed_and_gives_the_partition() -> None:
    assert run("--pp", "2", "--num-layers", "4", "--microbatches", "2") == (
        (
            "1f1b, 2 microbatches, pp 2 x vpp 1; the program is proved complete and free of deadlock\n"
            "no costs are given: a decoder or MTP layer takes 1 ms forward and 2 ms backward, all else nothing\n"
            "\n"
            "rank  vpp 0\n"
            "   0  0: Ett [0-1]\n"
            "   1  1: ttNL [2-3]\n"
            "\n"
            "layout       Ett|ttL\n"
            "Megatron-LM  Ett|ttL\n"
            "--partition  2,2\n"
            "--chunks     0:2,1:2\n"
            "\n"
            "step time  18 ms, which no layout beats\n"
            "uniform    18 ms (+0.00%): Ett|ttL\n"
            "\n"
            "rank  busy ms   fill  drain  imbalance  in flight\n"
            "   0       12      4      2          0          2\n"
            "   1       12      2      4          0          1\n"
            " all    66.7%  16.7%  16.7%       0.0%          2\n"
        ),
        "",
        0,
    )


def test_the_forms_are_ready_to_paste(loaded: str) -> None:
    document = suggested("--pp", "2", "--num-layers", "7", "--microbatches", "4", "--mtp-num-layers", "1", "--costs", loaded)
    wanted = check_layout(document["layout"], pp=2).plan
    sizes: dict[str, Any] = {"pp": 2, "mtp_num_layers": 1}
    assert check_layout(read_partition(document["partition"]), **sizes).plan == wanted  # type: ignore[arg-type]  # it is a form
    assert check_layout(read_owned_chunks(document["chunks"]), **sizes).plan == wanted  # type: ignore[arg-type]  # the same


def test_mtp_layers_before_the_loss_have_no_other_form(loaded: str) -> None:
    document = suggested("--pp", "4", "--num-layers", "12", "--microbatches", "8", "--mtp-num-layers", "2", "--vpp", "2", "--costs", loaded)
    assert "m|L" in document["layout"]
    assert (document["partition"], document["chunks"]) == (None, None)
    assert document["megatron_layout"] == document["layout"]


def test_owners_have_no_words_in_megatrons_language() -> None:
    document = suggested("--pp", "2", "--num-layers", "6", "--microbatches", "3", "--owners", "0,1,1,0", "--schedule", "gpipe")
    assert document["layout"].count("@") == 4
    assert document["megatron_layout"] is None
    assert (document["placement"], document["vpp"]) == ("owners", 2)
    assert (
        "Megatron-LM  has no words for it\n"
        in run("--pp", "2", "--num-layers", "6", "--microbatches", "3", "--owners", "0,1,1,0", "--schedule", "gpipe")[0]
    )


def test_kinds_of_layers_have_factors() -> None:
    arguments = ("--pp", "2", "--num-layers", "8", "--microbatches", "4", "--kinds", "dense*6,moe,moe", "--kind", "moe=3")
    assert suggested(*arguments)["per_stage"] == [6, 2]
    assert suggested(*arguments, "--group", "4")["per_stage"] == [4, 4]


def test_memory_is_limited_and_traded(loaded: str) -> None:
    arguments = ("--pp", "2", "--num-layers", "8", "--microbatches", "6", "--costs", loaded)
    free = suggested(*arguments, "--vpp", "auto", "--schedule", "auto", "--pareto")
    points = free["pareto"]
    assert len(points) > 1
    assert points[0]["step_ms"] == free["step_ms"]
    limit = points[-1]["peak_memory_bytes"]
    bound = suggested(*arguments, "--vpp", "auto", "--schedule", "auto", "--memory-limit", str(limit))
    assert bound["peak_memory_bytes"] <= limit == bound["memory_limit_bytes"]
    text = run(*arguments, "--memory-limit", "1e9", "--pareto")[0]
    assert "\nmemory limit: 1.0 GB, the fullest rank holds " in text
    assert "\nstep ms  peak memory  schedule" in text


def test_a_search_without_an_answer_exits_3(loaded: str) -> None:
    arguments = ("--pp", "2", "--num-layers", "8", "--microbatches", "6", "--costs", loaded, "--memory-limit", "1e6")
    output, errors, code = run(*arguments)
    assert (output, code) == ("", 3)
    assert errors == (
        "error: no layout fits the memory limit of 1000000 bytes: the leanest that was tried takes 347000000 bytes more "
        "(see ppdsl suggest --help)\n"
    )
    document = json.loads(run(*arguments, "--output-format", "json")[0])
    assert document["valid"] is False
    few = run("--pp", "4", "--num-layers", "1", "--microbatches", "4")
    assert few == ("", "error: 1 decoder layer cannot fill the stages (see ppdsl suggest --help)\n", 3)


def test_the_compared_layout_may_have_other_stages(golden: str) -> None:
    document = suggested(*SIZES, "--costs", golden, "--compare", "Et*5|t*4L")
    assert document["compared"] == {"layout": "Et*5|t*4L", "schedule": "1f1b", "step_ms": pytest.approx(91.95), "peak_memory_bytes": 0}


def test_an_invalid_layout_to_compare_with_is_shown(golden: str) -> None:
    assert run(*SIZES, "--costs", golden, "--compare", "Et*5|t*5L") == (
        "",
        (
            "error[PP302]: layout has 10 decoder layers, --num-layers says 9\n"
            "  --> <layout>:1:6\n"
            "   |\n"
            " 1 | Et*5|t*5L\n"
            "   |  --- ^^^ 5 layers\n"
            "   |  |\n"
            "   |  5 layers\n"
            "   = help: `t*4` in stage 0 gives 9: Et*4|t*5L\n"
            "\n"
            "invalid: 1 error\n"
        ),
        1,
    )
    output, _, code = run(*SIZES, "--costs", golden, "--compare", "Et*5|t*5L", "--output-format", "json")
    assert code == 1
    assert "--compare is invalid: layout has 10 decoder layers, --num-layers says 9" in output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--pp", "2"], "a search needs --num-layers and --microbatches"),
        ([*SIZES, "--vpp", "0"], "invalid value for '--vpp': '0' is not a number from 1, nor auto"),
        ([*SIZES, "--vpp", "many"], "invalid value for '--vpp': 'many' is not a whole number"),
        ([*SIZES, "--pp", "0"], "--pp is 0, the range is 1 to 1,048,576"),
        ([*SIZES, "--group", "0"], "--group is 0, the range is 1 to 9"),
        ([*SIZES, "--allow-empty", "--min-layers", "1"], "--allow-empty and --min-layers contradict each other"),
        ([*SIZES, "--schedule", "zb_v"], "zb_v needs the placement v with two chunks on each rank"),
        (
            [*SIZES, "--microbatches", "3"],
            "3 microbatches cannot be scheduled by interleaved_1f1b: 3 mod 2 = 1, which is neither 0 nor at least pp = 2",
        ),
        ([*SIZES, "--owners", "0,1"], "--owners says itself which rank each stage is on, so it takes no --vpp and no --placement"),
        (
            ["--pp", "2", "--num-layers", "4", "--microbatches", "2", "--owners", "0;1"],
            "--owners is '0;1', not ranks with commas between them",
        ),
        (
            ["--pp", "2", "--num-layers", "4", "--microbatches", "2", "--owners", "0,2"],
            "owners name other ranks than 0 to 1, or not all of them",
        ),
        ([*SIZES, "--kind", "moe=2"], "--kind says what a kind costs, and no --kinds says which layers are of one"),
        ([*SIZES, "--kinds", "dense*3"], "--kinds has 3 layers, --num-layers says 9"),
        ([*SIZES, "--kinds", "dense*12"], "--kinds has more than 9 layers, as many as --num-layers says"),
        ([*SIZES, "--kinds", "dense*,moe"], "--kinds has 'dense*', not a name or name*count"),
        ([*SIZES, "--kinds", "dense*9", "--kind", "moe=2"], "--kind names moe, --kinds has dense"),
        ([*SIZES, "--kinds", "dense*9", "--kind", "dense=2", "--kind", "dense=3"], "--kind names dense twice"),
        ([*SIZES, "--kinds", "dense*9", "--kind", "dense=much"], "--kind is 'dense=much', not name=factor, such as moe=1.5"),
        ([*SIZES, "--memory-limit", "0"], "--memory-limit is 0, the range is above 0 to 1e+18"),
        ([*SIZES, "--time-limit", "0"], "--time-limit is 0, the range is 1 to 1,000,000"),
        ([*SIZES, "--max-actions", "31"], "a schedule of 32 actions is over the limit of 31 (--max-actions)"),
        ([*SIZES, "--hidden", "64"], "a model's shape needs --seq, --vocab, --batch and --tflops"),
    ],
)
def test_what_cannot_be_searched_is_a_usage_error(arguments: list[str], message: str) -> None:
    assert run(*arguments) == ("", f"error: {message} (see ppdsl suggest --help)\n", 2)


LONG = ("--pp", "8", "--vpp", "5", "--num-layers", "80", "--microbatches", "64", "--time-limit", "60")
COMMAND = (sys.executable, "-m", "ppdsl", "suggest", *LONG)


@pytest.mark.slow
def test_an_interrupt_prints_the_best_so_far() -> None:
    process = subprocess.Popen([*COMMAND, "--output-format", "json"], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    time.sleep(4)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (130, b"")
    document = json.loads(output)
    Draft202012Validator(schema_for("suggest")).validate(document)
    assert document["interrupted"] is True
    assert sum(document["per_stage"]) == 80


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="there are no such terminals: nothing is known of the progress there")
def test_progress_is_shown_on_a_terminal_alone() -> None:
    terminal, end = pty.openpty()
    process = subprocess.Popen([*COMMAND[:-1], "2"], cwd=ROOT, stdout=subprocess.PIPE, stderr=end)
    os.close(end)
    output, _ = process.communicate(timeout=120)
    shown = os.read(terminal, 65536).decode()
    os.close(terminal)
    assert process.returncode == 0
    assert b"step time" in output
    assert shown.startswith("\rbest so far: ")
    assert shown.endswith("\r\x1b[K")
