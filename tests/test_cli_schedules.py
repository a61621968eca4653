"""Schedules on the command line: the program that ``ppdsl compile`` adds, its proof, and the times that ``ppdsl diff`` adds."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner
from jsonschema import Draft202012Validator

from ppdsl import Plan, compile_layout
from ppdsl.cli import main
from ppdsl.cli.simulations import UnprovedError, require_proof
from ppdsl.lowering import lower, program_from_json
from ppdsl.proving import verify
from ppdsl.schedules import make_schedule
from ppdsl.schemas import schema_for

if TYPE_CHECKING:
    from pathlib import Path


def run(*arguments: str, stdin: str = "") -> tuple[str, str, int]:
    with CliRunner().isolation(input=stdin) as (output, errors, _):
        code = main(arguments)
        sys.stdout.flush()
        return output.getvalue().decode(), errors.getvalue().decode(), code


def compiled(*arguments: str) -> str:
    output, errors, code = run("compile", *arguments)
    assert (errors, code) == ("", 0)
    Draft202012Validator(schema_for("plan")).validate(json.loads(output))
    return output


def test_a_schedule_adds_what_each_rank_does() -> None:
    arguments = ("Et|tL", "--pp", "2", "--microbatches", "2")
    output = compiled(*arguments, "--schedule", "1f1b")
    plan, brace, schedule = output.partition(',\n  "schedule": {\n')
    assert f"{plan}\n}}\n" == compiled(*arguments)
    assert f"{brace}{schedule}" == (
        ",\n"
        '  "schedule": {\n'
        '    "name": "1f1b",\n'
        '    "microbatches": 2,\n'
        '    "depth": 1,\n'
        '    "owners": [0, 1],\n'
        '    "actions": [["0F0", "0F1", "0B0", "0B1"], ["1F0", "1B0", "1F1", "1B1"]],\n'
        '    "program": [\n'
        '      ["0F0", "0SEND_F0", "0F1", "0SEND_F1", "0RECV_B0#0", "0WAIT_B0", "0RECV_B1#1", "0B0", "0WAIT_B1", "0B1", "0REDUCE_GRAD"],\n'
        '      ["1RECV_F0#0", "1WAIT_F0", "1F0", "1RECV_F1#1", "1B0", "1SEND_B0", "1WAIT_F1", "1F1", "1B1", "1SEND_B1", "1REDUCE_GRAD"]\n'
        "    ],\n"
        '    "buffers": {"forward_slots": [0, 2], "backward_slots": [2, 0], "send_slots": [1, 1], "in_flight": [2, 1]}\n'
        "  }\n"
        "}\n"
    )


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (["Et|t|t|tL", "--pp", "2", "--microbatches", "5", "--microbatch-group-size", "3"], "interleaved_1f1b"),
        (["Et|t|t|tL", "--pp", "2", "--microbatches", "3", "--placement", "v"], "zb_v"),
        (["Et@0|t@1|t@1|tL@0", "--microbatches", "7", "--depth", "3"], "auto"),
        (["Et|t|tL", "--pp", "3", "--microbatches", "4", "--depth", "0"], "zb_h2"),
        (["EtL", "--pp", "1", "--microbatches", "1"], "gpipe"),
    ],
)
def test_the_file_reads_back_as_a_plan_and_as_a_program_that_is_proved(arguments: list[str], name: str) -> None:
    output = compiled(*arguments, "--schedule", name)
    program = program_from_json(output)
    assert Plan.from_json(output).to_json() | {"schedule": None} == json.loads(output) | {"schedule": None}
    assert program.schedule == name
    assert verify(program, queues=1, pairs=True).proved


def test_costs_choose_what_auto_does(tmp_path: Path) -> None:
    path = tmp_path / "costs.json"
    path.write_text('{"kinds": {"t": {"forward": 1, "input_grad": 1, "weight_grad": 1}, "E": {"forward": 3}}}')
    arguments = ("Et@0|t@1|t@1|tL@0", "--microbatches", "4", "--schedule", "auto")
    alike, split = (json.loads(compiled(*arguments, *more))["schedule"] for more in ([], ["--costs", str(path)]))
    assert not any("W" in action for actions in alike["actions"] for action in actions)
    assert any("W" in action for actions in split["actions"] for action in actions)


def test_microbatches_alone_add_nothing() -> None:
    arguments = ("Et|tL", "--pp", "2")
    assert compiled(*arguments, "--microbatches", "2") == compiled(*arguments)


@pytest.mark.parametrize(
    ("arguments", "errors", "code"),
    [
        (["--pp", "2"], "error[PP202]: a schedule needs --microbatches\n   = help: give --microbatches\n\ninvalid: 1 error\n", 2),
        ([], "error[PP202]: a schedule needs --pp and --microbatches\n   = help: give --pp and --microbatches\n\ninvalid: 1 error\n", 2),
        (
            ["--pp", "1", "--microbatches", "2"],
            (
                "error: 1f1b needs one stage on each rank; what --schedule can be here: gpipe, interleaved_1f1b, zb_v, auto "
                "(see ppdsl compile --help)\n"
            ),
            2,
        ),
        (
            ["--pp", "2", "--microbatches", "2", "--costs", "missing"],
            "error[PP206]: cannot read the costs file missing: no such file or directory\n\ninvalid: 1 error\n",
            2,
        ),
    ],
)
def test_what_cannot_be_scheduled_is_refused(arguments: list[str], errors: str, code: int) -> None:
    assert run("compile", "Et|tL", *arguments, "--schedule", "1f1b") == ("", errors, code)


def test_a_program_that_is_not_right_is_a_fault_of_ppdsl() -> None:
    program = lower(make_schedule(compile_layout("Et|tL", pp=2), "1f1b", 2))
    require_proof(program)
    broken = replace(program, ranks=(program.ranks[0][:-1], program.ranks[1]))
    with pytest.raises(UnprovedError, match=r"^the program of 1f1b is not proved: 0REDUCE_GRAD is never done$"):
        require_proof(broken)


def test_diff_tells_times_with_microbatches() -> None:
    arguments = ("diff", "Et*3||t*3|t*6NL", "Et*3|t*3|t*3|t*3NL", "--pp", "2")
    without = run(*arguments)[0]
    assert run(*arguments, "--microbatches", "8") == (
        (
            f"{without}simulated with 8 microbatches, interleaved_1f1b, all layers alike:\n"
            "  step time: 198 ms -> 153 ms (-22.7%)\n"
            "  bubble: 27.27% -> 5.88% of the step time\n"
        ),
        "",
        1,
    )


def test_diff_tells_memory_where_it_is_known(tmp_path: Path) -> None:
    path = tmp_path / "costs.json"
    path.write_text('{"kinds": {"t": {"forward": 0, "params": 1000000}}}')
    lines = run("diff", "Et|tttL", "Ett|ttL", "--pp", "2", "--microbatches", "1", "--costs", str(path))[0].splitlines()
    assert lines[-4:] == [
        "simulated with 1 microbatch, 1f1b, costs from the file:",
        "  step time: 0 ms -> 0 ms",
        "  bubble: 0.00% -> 0.00% of the step time",
        "  peak memory of the fullest rank: 54.0 MB -> 36.0 MB (-33.3%)",
    ]


def test_diff_in_json_has_both_simulations() -> None:
    arguments = ("diff", "Et@0|t@1|tL@0", "Et@0|ttL@1", "--schedule", "gpipe", "--output-format", "json")
    document = json.loads(run(*arguments, "--microbatches", "2")[0])
    assert [*document["simulations"]] == ["before", "after"]
    assert document["simulations"]["before"] == {
        "schedule": "gpipe",
        "microbatches": 2,
        "costs_from": "none",
        "makespan_ms": 12.0,
        "span_ms": 12.0,
        "bubble_ratio": pytest.approx(0.25),
        "bubble_ratio_makespan": pytest.approx(0.25),
        "peak_memory_bytes": [0, 0],
    }
    assert "simulations" not in json.loads(run(*arguments)[0])


def test_diff_of_layouts_that_mean_the_same_has_no_more_to_tell() -> None:
    assert run("diff", "Ett|tL", "E(t)*2|tNL", "--pp", "2", "--microbatches", "4") == ("no difference in meaning\n", "", 0)


def test_diff_refuses_costs_that_cannot_be_read() -> None:
    arguments = ("diff", "Et|tL", "Et|tNL", "--pp", "2", "--microbatches", "4", "--costs", "missing")
    message = "cannot read the costs file missing: no such file or directory"
    assert run(*arguments) == ("", f"error[PP206]: {message}\n", 2)
    output, errors, code = run(*arguments, "--output-format", "json")
    assert [result["valid"] for result in json.loads(output)["results"]] == [False, True]
    assert (errors, code) == ("", 2)
