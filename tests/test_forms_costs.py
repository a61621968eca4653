"""The costs of layers as a form of a layout: how it is read, what it comes to, and what is wrong with it."""

from __future__ import annotations

import sys
from itertools import combinations, pairwise
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from ppdsl import CostList, LayoutError, check_layout, compile_layout
from ppdsl.cli import main
from ppdsl.diagnostics import Diagnostic
from ppdsl.forms import lower, read_cost_list
from ppdsl.options import Options
from ppdsl.rendering import render_text

if TYPE_CHECKING:
    from pathlib import Path

HELP = "\n   = help: write one cost for each decoder layer, with commas between, and E:, m:, N: or L: before another's: 1,1,1.5,1,L:4.5"
LETTERS = "\n   = help: the letters are E, m, N and L; a decoder layer's cost stands alone"
NOTE = "\n   = note: no other split into one stage a rank has a lighter heaviest rank"
BOTH_HEAVY = f"warning[PP602]: ranks 0 and 1 carry a cost of 9, 1.42 times the mean of 6.33333{NOTE}"


def run(*arguments: str) -> tuple[str, str, int]:
    with CliRunner().isolation() as (output, errors, _):
        code = main(arguments)
        sys.stdout.flush()
        return output.getvalue().decode(), errors.getvalue().decode(), code


def split(text: str, pp: int, mtp_num_layers: int | None = None) -> list[int]:
    plan = compile_layout(read_form(text), pp=pp, mtp_num_layers=mtp_num_layers)
    return [last - first for first, last in (chunk.layers for chunk in plan.chunks)]


def read_form(text: str) -> CostList:
    form = read_cost_list(text)
    assert isinstance(form, CostList)
    return form


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("10,1,1", CostList((10, 1, 1))),
        (" 1.5 ,\t+.5\r\n, 2. , 1e3, 1E-2", CostList((1.5, 0.5, 2, 1000, 0.01))),
        ("1,L:4.5", CostList((1,), loss=4.5)),
        ("L:1,N:2,1,m:3,E:0", CostList((1,), embedding=0, mtp=3, norm=2, loss=1)),
        ("e : 1, M: 2 , n:3,l:4,5", CostList((5,), embedding=1, mtp=2, norm=3, loss=4)),
    ],
)
def test_costs_are_read(text: str, form: CostList) -> None:
    assert read_cost_list(text) == form


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (" ", f"error[PP208]: the cost list is empty{HELP}"),
        ("L:2", f"error[PP208]: the cost list has no decoder layer{HELP}"),
        ("1,,1", f"error[PP208]: entry 2 of the cost list is empty{HELP}"),
        *(
            (f"1,{entry}", f"error[PP208]: entry 2 of the cost list, `{entry}`, is not a number above 0, up to 1e18{HELP}")
            for entry in ("x", "nan", "inf", "-inf", "-1", "0", "1e999", "1e-999", "2e18", "0x1", "1_0", "1 2", "\u0663", "1e", ".", "++1")
        ),
        ("1,L:", f"error[PP208]: entry 2 of the cost list, `L:`, is not L: and a number from 0 to 1e18{HELP}"),
        ("1,m:nan", f"error[PP208]: entry 2 of the cost list, `m:nan`, is not m: and a number from 0 to 1e18{HELP}"),
        ("1,e:-1", f"error[PP208]: entry 2 of the cost list, `e:-1`, is not E: and a number from 0 to 1e18{HELP}"),
        (
            "1,t:2",
            f"error[PP208]: entry 2 of the cost list, `t:2`, names no layer: `t`{LETTERS}",
        ),
        (
            "1,:2",
            f"error[PP208]: entry 2 of the cost list, `:2`, names no layer: ``{LETTERS}",
        ),
        ("1,L:2,l:2", "error[PP208]: entry 3 of the cost list, `l:2`, is the second for `L`\n   = help: keep one of them"),
        ("1" * 1_048_577, "error[PP208]: the cost list has 1,048,577 characters, the limit is 1,048,576"),
    ],
)
def test_what_cannot_be_read_is_quoted(text: str, message: str) -> None:
    fault = read_cost_list(text)
    assert isinstance(fault, Diagnostic)
    assert render_text([fault], None) == message


@pytest.mark.parametrize(
    ("text", "pp", "layers"),
    [
        ("10,1,1,1,1,1", 2, [1, 5]),
        ("1,1,1,1,2,2,2,2,2,2,2,2", 2, [7, 5]),
        ("1,1,1,1,1,1,1,1", 2, [4, 4]),
        ("1,1,1,1,1,1,1,1,L:2", 2, [5, 3]),
        ("1,1,1,1,1,1,1,1,L:4.5", 2, [6, 2]),
        ("1,1,1,1,1,1,1,1,L:10.9", 2, [7, 1]),
        ("E:4.5,1,1,1,1,1,1,1,1", 2, [2, 6]),
        ("1,1,1,1,1,1,1,1,N:2,L:2.5", 2, [6, 2]),
        ("5", 1, [1]),
    ],
)
def test_the_heaviest_stage_is_as_light_as_it_can_be(text: str, pp: int, layers: list[int]) -> None:
    assert split(text, pp) == layers


def test_one_heavy_layer_is_the_heaviest_stage() -> None:
    layers = split("1,1,1,1,4,1,1,1", 4)
    costs = [1, 1, 1, 1, 4, 1, 1, 1]
    at = [sum(layers[:stage]) for stage in range(5)]
    assert max(sum(costs[first:last]) for first, last in pairwise(at)) == 4


def test_mtp_layers_weigh_on_the_last_stage() -> None:
    assert split("1,1,1,1,1,1,1,1,m:2.25", 2, mtp_num_layers=2) == [6, 2]
    assert split("1,1,1,1,1,1,1,1,m:9", 2, mtp_num_layers=0) == [4, 4]
    assert split("1,1,1,1,1,1,2,2", 2, mtp_num_layers=2) == split("1,1,1,1,1,1,2,2,m:2", 2, mtp_num_layers=2)


def test_a_text_has_the_special_layers_and_the_sizes_are_filled_in() -> None:
    form = read_form("3,3,4,m:1,L:2")
    lowered = lower(form, Options(pp=2, mtp_num_layers=1))
    assert (lowered.text, lowered.diagnostics) == ("Ett|tNmL", ())
    assert (lowered.options.pp, lowered.options.vpp, lowered.options.num_layers) == (2, 1, 3)
    assert lower(form, Options(pp=2, mtp_num_layers=1, target="megatron")).text == "Ett|tmL"


def test_decimals_are_weighed_as_they_are_written() -> None:
    # in binary, 0.1 + 0.2 is more than 0.3, and the ranks would differ
    assert lower(read_form("0.3,0.1,0.2"), Options(pp=2)).text == "Et|ttNL"
    assert split("0.1,0.2,0.3,N:0.1,L:0.2", 2) == [2, 1]


@pytest.mark.parametrize(
    ("form", "options", "text"),
    [
        (CostList((1, 1)), Options(), "error[PP202]: a split by layer costs needs --pp\n   = help: give --pp"),
        (
            CostList((1, 1), mtp=2),
            Options(pp=2),
            "error[PP202]: the cost of MTP layers needs --mtp-num-layers\n   = help: give --mtp-num-layers",
        ),
        (CostList(()), Options(pp=1), "error[PP208]: the cost list has no decoder layer"),
        (
            CostList((0, 1, float("nan"), 10**19), loss=-1.0),
            Options(pp=1),
            """\
error[PP208]: entry 1 of the cost list is 0, the range is above 0, up to 1e18

error[PP208]: entry 3 of the cost list is nan, the range is above 0, up to 1e18

error[PP208]: entry 4 of the cost list is over 10^15, the range is above 0, up to 1e18

error[PP208]: `L` of the cost list is -1.0, the range is 0 to 1e18""",
        ),
        (
            CostList((1, 1, 1)),
            Options(pp=4, vpp=2, num_layers=8),
            """\
error[PP208]: cost list has 3 decoder layers, --num-layers says 8
   = help: write one cost for each decoder layer

error[PP208]: a split by layer costs has one stage on each rank, --vpp says 2
   = help: leave out --vpp

error[PP208]: cost list has 3 decoder layers, fewer than --pp 4: each rank has one at least
   = help: lower --pp""",
        ),
        (
            CostList((1,) * 20_000),
            Options(pp=10_000),
            "error[PP208]: cost list has 20,000 decoder layers, which times --pp 10,000 is over the limit of 100,000,000",
        ),
    ],
)
def test_a_form_at_fault_says_all_that_is_wrong(form: CostList, options: Options, text: str) -> None:
    lowered = lower(form, options)
    assert render_text(lowered.diagnostics, None) == text
    assert (lowered.text, lowered.options) == (None, options)


def test_of_a_thousand_bad_costs_twenty_are_told() -> None:
    assert len(lower(CostList((0,) * 1000), Options(pp=1)).diagnostics) == 20


def test_values_of_the_wrong_kind_are_diagnostics() -> None:
    result = check_layout(CostList((True, "1")), pp=1)  # type: ignore[arg-type]  # what Python lets through
    assert [fault.message for fault in result.diagnostics] == [
        "entry 1 of the cost list is True, the range is above 0, up to 1e18",
        "entry 2 of the cost list is '1', the range is above 0, up to 1e18",
    ]
    with pytest.raises(LayoutError, match="PP208"):
        compile_layout(CostList((0,)), pp=1)


def test_a_rank_is_judged_by_what_it_costs_and_not_by_its_layers() -> None:
    heavy = check_layout(read_form("10,1,1,1,1,1"), pp=2)
    assert render_text(heavy.diagnostics, None).startswith(f"warning[PP602]: rank 0 carries a cost of 10, 1.33 times the mean of 7.5{NOTE}")
    assert heavy.count("warning") == 1
    assert check_layout(read_form("4,1,1,1,1"), pp=2).count("warning") == 0
    assert check_layout("Et|t*4L", pp=2).count("warning") == 1
    assert render_text(lower(read_form("9,9,1"), Options(pp=3)).diagnostics, None) == BOTH_HEAVY


def test_the_command_line_takes_costs_by_either_name() -> None:
    assert run("fmt", "--layer-costs", "10,1,1,1,1,1", "--pp", "2")[0] == "Et|t*5NL\n"
    assert run("fmt", "--pipeline_layer_costs=10,1,1,1,1,1", "--pipeline_parallel", "2")[0] == "Et|t*5NL\n"
    output, errors, code = run("simulate", "--layer-costs", "1,1,1,1,1,1,1,1,L:2", "--pp", "2", "--microbatches", "4")
    assert (output.splitlines()[0].split(",")[0], errors, code) == ("1f1b", "", 0)
    assert run("compile", "--layer-costs", "1,1", "--pp", "2")[2] == 0
    assert run("explain", "--layer-costs", "1,1", "--pp", "2")[2] == 0


def test_a_bad_cost_and_a_second_form_are_refused() -> None:
    assert run("check", "--layer-costs", "1,nan", "--pp", "2") == (
        f"error[PP208]: entry 2 of the cost list, `nan`, is not a number above 0, up to 1e18{HELP}\n\ninvalid: 1 error\n",
        "",
        1,
    )
    assert run("check", "--layer-costs", "1,1", "--partition", "1,1") == (
        ("error[PP201]: 2 forms of the layout at once: --partition and --layer-costs\n   = help: give one of them\n\ninvalid: 1 error\n"),
        "",
        2,
    )


def test_a_launch_file_may_say_costs(tmp_path: Path) -> None:
    path = tmp_path / "run.sh"
    path.write_text("./gpt2 --pipeline_parallel 2 --pipeline_layer_costs '1,1,1,1,1,1,1,1,L:4.5'\n")
    assert run("fmt", "--from", str(path))[0] == "Et*6|ttNL\n"
    path.write_text("./gpt2 --pipeline_parallel 2 --pipeline_layer_costs 1,-1\n")
    assert run("check", "--from", str(path))[0] == (
        f"""\
{path}:1: 1,-1
pp 2 from {path}:1

error[PP208]: entry 2 of the cost list, `-1`, is not a number above 0, up to 1e18
  --> {path}:1:53
   |
 1 | ./gpt2 --pipeline_parallel 2 --pipeline_layer_costs 1,-1
   |                                                     ^^^^
{HELP[1:]}

invalid: 1 error
"""
    )
    yaml = tmp_path / "run.yaml"
    yaml.write_text("pipeline_model_parallel_size: 2\npipeline_layer_costs: [10, 1, 1, 1, 1, 1]\n")
    assert run("fmt", "--from", str(yaml))[0] == "Et|t*5NL\n"


costs = st.lists(st.integers(1, 9), min_size=1, max_size=9)


@given(costs, st.integers(1, 4), st.integers(0, 9), st.integers(0, 9))
def test_no_split_has_a_lighter_heaviest_rank(layers: list[int], pp: int, embedding: int, loss: int) -> None:
    form = CostList(tuple(layers), embedding=embedding, loss=loss)
    result = check_layout(form, pp=pp)
    assert result.valid == (len(layers) >= pp)
    if result.plan is None:
        return

    def heaviest(cuts: tuple[int, ...]) -> int:
        ends = [0, *cuts, len(layers)]
        loads = [sum(layers[first:last]) for first, last in pairwise(ends)]
        loads[0] += embedding
        loads[-1] += loss
        return max(loads)

    cuts = tuple(chunk.layers[1] for chunk in result.plan.chunks[:-1])
    assert all(chunk.layers[0] < chunk.layers[1] for chunk in result.plan.chunks)
    assert heaviest(cuts) == min(map(heaviest, combinations(range(1, len(layers)), pp - 1)))


@given(st.lists(st.floats(1e-30, 1e18), min_size=1), st.dictionaries(st.sampled_from("EmNL"), st.floats(0, 1e18)))
def test_costs_that_are_written_are_read_back(layers: list[float], special: dict[str, float]) -> None:
    text = ",".join([*map(repr, layers), *(f"{letter}:{cost!r}" for letter, cost in special.items())])
    form = read_form(text)
    assert form.layers == tuple(layers)
    found = {"E": form.embedding, "m": form.mtp, "N": form.norm, "L": form.loss}
    assert found == {"E": 0, "m": None, "N": 0, "L": 0} | special


@given(st.text() | st.text(alphabet="0123456789.,:eE+-mNLt \t"))
def test_reading_is_total(text: str) -> None:
    assert isinstance(read_cost_list(text), CostList | Diagnostic)
