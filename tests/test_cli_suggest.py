"""``ppdsl suggest``: what is said."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from ppdsl import check_layout
from ppdsl.forms import read_owned_chunks, read_partition
from tests.suggest_command import GOLDEN, LOADED, SIZES, run, suggested, write_costs

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def golden(tmp_path: Path) -> str:
    return write_costs(tmp_path, GOLDEN)


@pytest.fixture
def loaded(tmp_path: Path) -> str:
    return write_costs(tmp_path, LOADED)


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


def test_a_schedule_that_megatron_does_not_run_is_said_beside_its_layout() -> None:
    out, _, code = run("--pp", "2", "--num-layers", "8", "--microbatches", "4", "--schedule", "gpipe")
    assert code == 0
    assert (
        "layout       Et*4|t*4L\n"
        "Megatron-LM  Et*4|t*4L\n"
        "--schedule   gpipe, which Megatron-LM does not run: there the step takes another time\n"
        "--partition  4,4\n"
    ) in out


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


def test_what_belongs_to_the_layout_is_said_with_it(golden: str) -> None:
    text = run(*SIZES, "--placement", "v", "--costs", golden)[0]
    assert "\nlayout       Et*3|t*3|t*3|L\n--placement  v\nMegatron-LM  has no words for it\n--chunks     0:3,1:3,1:3,0:0\n\n" in text
    arguments = ("--pp", "4", "--vpp", "2", "--num-layers", "17", "--microbatches", "18", "--costs", golden)
    text = run(*arguments, "--microbatch-group-size", "auto")[0]
    assert "\n--chunks     0:1,1:2,2:2,3:2,0:4,1:3,2:3,3:0\n--microbatch-group-size  9\n\n" in text
    assert "group-size" not in run(*arguments, "--microbatches", "16")[0]


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


def test_a_layout_over_the_memory_limit_is_said_to_be_so(loaded: str) -> None:
    arguments = ("--pp", "4", "--vpp", "2", "--num-layers", "16", "--microbatches", "12", "--costs", loaded, "--memory-limit", "740e6")
    text = run(*arguments, "--compare", "Et|(tt|)*3t*3|tt|t*3|tL")[0]
    assert (
        "\nuniform    217.2 ms (+12.07%): Ett|(tt|)*6ttL, over the memory limit\ncompared   193.8 ms (+0.00%): Et|(tt|)*3t*3|tt|t*3|tL\n"
    ) in text


def test_each_point_says_all_that_it_is_for(loaded: str) -> None:
    arguments = ("--pp", "2", "--vpp", "2", "--num-layers", "7", "--microbatches", "6", "--costs", loaded, "--pareto")
    choices = ("--placement", "auto", "--microbatch-group-size", "auto", "--schedule", "auto")
    points = suggested(*arguments, *choices)["pareto"]
    text = run(*arguments, *choices)[0]
    for point in points:
        group, placement = point["microbatch_group_size"], point["placement"]
        named = point["schedule"] + (f", microbatch group {group}" if group else "") + (", placement v" if placement == "v" else "")
        assert f"  {named}  " in text
    assert len({json.dumps(point) for point in points}) == len(points) > 1
    assert any(point["microbatch_group_size"] or point["placement"] == "v" for point in points)


def test_without_sizes_there_is_no_table_of_memory() -> None:
    arguments = ("--pp", "2", "--num-layers", "4", "--microbatches", "2")
    unknown = "the costs say nothing of parameters and activations\n"
    assert run(*arguments, "--pareto")[0].endswith(f"\n\nno step time against memory: {unknown}")
    assert run(*arguments, "--memory-limit", "80e9")[0].endswith(f"\n\nmemory limit: 80.0 GB, but {unknown}")


def test_the_compared_layout_may_have_other_stages(golden: str) -> None:
    document = suggested(*SIZES, "--costs", golden, "--compare", "Et*5|t*4L")
    assert document["compared"] == {"layout": "Et*5|t*4L", "schedule": "1f1b", "step_ms": pytest.approx(91.95), "peak_memory_bytes": 0}


def test_an_mtp_layer_is_like_the_last_decoder_layer_where_nothing_else_is_said_of_it(loaded: str) -> None:
    arguments = ("--pp", "1", "--num-layers", "2", "--mtp-num-layers", "1", "--microbatches", "1", "--kinds", "dense,moe")
    assert suggested(*arguments, "--kind", "moe=3")["step_ms"] == 3 * (1 + 3 + 3)
    assert suggested(*arguments, "--kind", "dense=3")["step_ms"] == 3 * (3 + 1 + 1)
    step = suggested(*arguments, "--kind", "moe=3", "--costs", loaded)["step_ms"]
    assert step == pytest.approx(3 * (0.1 + 1 + 3 + 1.1 + 1.5))  # the file says what m costs


def test_kinds_scale_all_that_a_layer_has(loaded: str) -> None:
    arguments = ("--pp", "1", "--num-layers", "2", "--microbatches", "1", "--costs", loaded, "--kinds", "a,b")
    plain, doubled = (suggested(*arguments, *more)["peak_memory_bytes"] for more in ((), ("--kind", "a=2", "--kind", "b=2")))
    assert doubled - plain == 2 * (18 * 2_000_000 + 30_000_000)
