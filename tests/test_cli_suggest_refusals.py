"""``ppdsl suggest``: what is refused, and what has no answer."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.suggest_command import GOLDEN, LOADED, SIZES, run, write_costs

LISTED = str(Path(__file__).parent / "corpus" / "costs" / "list.json")


def test_a_search_without_an_answer_exits_3(tmp_path: Path) -> None:
    arguments = ("--pp", "2", "--num-layers", "8", "--microbatches", "6", "--costs", write_costs(tmp_path, LOADED), "--memory-limit", "1e6")
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


def test_an_invalid_layout_to_compare_with_is_shown(tmp_path: Path) -> None:
    golden = write_costs(tmp_path, GOLDEN)
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
        (
            [*SIZES, "--num-layers", "4", "--costs", LISTED, "--kinds", "dense,moe*3", "--kind", "moe=2"],
            "--kind says what layers cost, and so does the costs file, which has each layer on its own",
        ),
        ([*SIZES, "--memory-limit", "0"], "--memory-limit is 0, the range is above 0 to 1e+18"),
        ([*SIZES, "--time-limit", "0"], "--time-limit is 0, the range is 1 to 1,000,000"),
        ([*SIZES, "--max-actions", "31"], "a schedule of 32 actions is over the limit of 31 (--max-actions)"),
        ([*SIZES, "--hidden", "64"], "a model's shape needs --seq, --vocab, --batch and --tflops"),
    ],
)
def test_what_cannot_be_searched_is_a_usage_error(arguments: list[str], message: str) -> None:
    assert run(*arguments) == ("", f"error: {message} (see ppdsl suggest --help)\n", 2)
