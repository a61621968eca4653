"""``ppdsl diff``: which layers move, and what that does to the ranks."""

from __future__ import annotations

import json
import sys

from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from ppdsl import Plan, compile_layout
from ppdsl.cli import main
from ppdsl.cli.comparing import compare


def run(*arguments: str) -> tuple[str, str, int]:
    with CliRunner().isolation() as (output, errors, _):
        code = main(["diff", *arguments])
        sys.stdout.flush()
        return output.getvalue().decode(), errors.getvalue().decode(), code


def test_moves_and_loads_are_told() -> None:
    assert run("Et*3||t*3|t*6NL", "Et*3|t*3|t*3|t*3NL", "--pp", "2") == (
        (
            "to another rank: 6 of 12 decoder layers\n"
            "  decoder layers 3 to 5: rank 0 chunk 1 -> rank 1 chunk 0\n"
            "  decoder layers 6 to 8: rank 1 chunk 1 -> rank 0 chunk 1\n"
            "each rank has as many decoder layers as before\n"
        ),
        "",
        1,
    )


def test_spellings_do_not_differ() -> None:
    assert run("Ett|tL", "E(t)*2|tNL", "--pp", "2") == ("no difference in meaning\n", "", 0)


def test_a_warning_may_count_like_an_error() -> None:
    warning = "warning[PP602]: rank 0 carries 2 decoder layers, 1.33 times the mean of 1.50\n  --> <B>:1:1\n   |\n 1 | Ett|tL\n   | ^^^\n"
    assert run("Et|tL", "Ett|tL", "--pp", "2", "--warn-error") == ("", warning, 1)
    assert run("Et|tL", "Et|tNL", "--pp", "2", "--warn-error") == ("no difference in meaning\n", "", 0)


def test_other_sizes_are_named() -> None:
    assert run("Et@0|tmL@1", "Et@0|t@1|tL@0") == (
        (
            "decoder layers: 2 -> 3\n"
            "MTP layers: 1 -> 0\n"
            "stages: 2 -> 3\n"
            "vpp: 1 -> 2\n"
            "to another rank: 0 of 2 decoder layers\n"
            "  the final norm: rank 1 chunk 0 -> rank 0 chunk 1\n"
            "  the loss: rank 1 chunk 0 -> rank 0 chunk 1\n"
            "decoder layers of each rank that changes:\n"
            "  rank 0: 1 -> 2 (+1)\n"
            "the heaviest rank: 1 -> 2\n"
        ),
        "",
        1,
    )


def test_layers_that_stay_on_their_rank_are_told_apart() -> None:
    assert run("Et@0|tt@0|tL@1", "Ett@0|t@0|tmmL@1")[0].splitlines() == [
        "MTP layers: 0 -> 2",
        "to another rank: 0 of 4 decoder layers, to another chunk of their rank: 1",
        "  decoder layer 1: rank 0 chunk 1 -> rank 0 chunk 0",
        "each rank has as many decoder layers as before",
    ]


def test_mtp_layers_move() -> None:
    output = run("Et|t|tmm|L", "Et|t|t|mmL", "--pp", "4")[0]
    assert "  the final norm: " not in output
    assert "  MTP layers 0 to 1: rank 2 chunk 0 -> rank 3 chunk 0\n" in output


def test_json_has_all_of_it() -> None:
    output, errors, code = run("Et|ttL", "Ett|tL", "--pp", "2", "--output-format", "json")
    document = json.loads(output)
    assert [*document] == ["schema_version", "ppdsl_version", "same", "before", "after", "moves", "loads"]
    assert document["same"] is False
    assert document["before"]["layout"] == "Et|ttL"
    assert document["moves"] == [
        {"kind": "decoder", "layers": [1, 2], "before": {"pp_rank": 1, "vpp_rank": 0}, "after": {"pp_rank": 0, "vpp_rank": 0}},
    ]
    assert document["loads"] == [
        {"pp_rank": 0, "before": 1, "after": 2, "change": 1},
        {"pp_rank": 1, "before": 2, "after": 1, "change": -1},
    ]
    assert (errors, code) == ("", 1)


def test_an_invalid_layout_is_named() -> None:
    assert run("Ett|tL", "Et|t", "--pp", "2") == (
        "",
        "error[PP304]: layout has no loss\n  --> <B>:1:5\n   |\n 1 | Et|t\n   |     ^\n   = help: write `L` here: Et|tL\n",
        1,
    )
    assert run("Ett|tL", "Et|\udcff", "--pp", "2") == ("", "error[PP206]: the layout is not valid UTF-8\n", 2)


def test_an_invalid_layout_in_json_is_a_whole_document() -> None:
    output, errors, code = run("Ett|tL", "Et|t", "--pp", "2", "--output-format", "json")
    assert [result["valid"] for result in json.loads(output)["results"]] == [True, False]
    assert (errors, code) == ("", 1)


def test_plans_need_pp() -> None:
    output, errors, code = run("Ett|tL", "Et|ttL")
    assert (output, code) == ("", 2)
    assert errors == "error[PP202]: a plan needs --pp\n   = help: give --pp\n\nerror[PP202]: a plan needs --pp\n   = help: give --pp\n"


def test_a_huge_model_is_compared_at_once() -> None:
    assert run("Et*1000000000|t*1000000000L", "Et*999999999|t*1000000001L", "--pp", "2")[0] == (
        "to another rank: 1 of 2,000,000,000 decoder layers\n"
        "  decoder layer 999,999,999: rank 0 chunk 0 -> rank 1 chunk 0\n"
        "decoder layers of each rank that changes:\n"
        "  rank 0: 1,000,000,000 -> 999,999,999 (-1)\n"
        "  rank 1: 1,000,000,000 -> 1,000,000,001 (+1)\n"
        "the heaviest rank: 1,000,000,000 -> 1,000,000,001\n"
    )


def test_of_many_moves_the_first_are_told() -> None:
    lines = run("E(t|)*300L", "E|(t|)*299tL", "--pp", "301")[0].splitlines()
    assert lines[0] == "to another rank: 300 of 300 decoder layers"
    assert lines[101] == "  and 200 more moves"
    assert lines[-1] == "the heaviest rank: 1 -> 1"
    many = run("E(t|)*300L", "Et*300" + "|" * 300 + "L", "--pp", "301")[0].splitlines()
    assert many[-2:] == ["  and 200 more ranks", "the heaviest rank: 1 -> 300"]


@st.composite
def plans(draw: st.DrawFn) -> tuple[Plan, Plan]:
    """Two plans of one model over one number of ranks."""
    layers, pp = draw(st.integers(0, 8)), draw(st.integers(1, 3))

    def plan() -> Plan:
        cuts = sorted(draw(st.lists(st.integers(0, layers), min_size=2 * pp - 1, max_size=2 * pp - 1)))
        sizes = [stop - start for start, stop in zip([0, *cuts], [*cuts, layers], strict=True)]
        return compile_layout("E" + "|".join("t" * size for size in sizes) + "L", pp=pp, placement=draw(st.sampled_from(["loop", "v"])))

    return plan(), plan()


@given(plans())
def test_moves_are_those_that_remapping_layer_by_layer_finds(pair: tuple[Plan, Plan]) -> None:
    before, after = pair
    by_layer = {
        (move.kind, move.layer, move.before[:2], move.after[:2]) for move in before.remap(after) if move.before[:2] != move.after[:2]
    }
    comparison = compare(before, after)
    by_range = [(move.kind, layer, move.before, move.after) for move in comparison.moves for layer in range(*move.layers)]
    assert len(by_range) == len(set(by_range))
    assert set(by_range) == by_layer


@given(plans())
def test_loads_add_up_to_the_layers_of_the_model(pair: tuple[Plan, Plan]) -> None:
    before, after = pair
    comparison = compare(before, after)
    assert [sum(loads) for loads in zip(*comparison.loads, strict=True)] == [before.num_layers, after.num_layers]
    assert comparison.same == (before == after)


def test_nothing_moves_between_a_plan_and_itself() -> None:
    plan = compile_layout("Et|tt|tmL", pp=3)
    assert compare(plan, plan).moves == ()
