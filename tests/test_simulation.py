from __future__ import annotations

import json
from dataclasses import replace

import jsonschema
import pytest

from ppdsl import compile_layout
from ppdsl.costs import Costs, LayerCosts, Link, read_costs
from ppdsl.schedules import Action, Durations, Schedule, StuckError, Timing, make_schedule, time_schedule
from ppdsl.simulation import SCHEMA, IdleTime, SimulationReport, simulate
from ppdsl.simulation.critical_path import find_critical_path
from ppdsl.simulation.idling import split_idle_time
from ppdsl.simulation.producers import Producers

T = LayerCosts.of(1.0, 1.0, 1.0)
BY_HAND = Costs({"t": T}, p2p_ms=0.5)


def run(layout: str, pp: int, microbatches: int, costs: Costs, name: str | None = None) -> SimulationReport:
    plan = compile_layout(layout, pp=pp)
    return simulate(plan, make_schedule(plan, name, microbatches, costs=costs), costs)


def write_path(report: SimulationReport) -> str:
    return " ".join(f"{step.action}" if step.receiver is None else f"-{step.end - step.start:g}->" for step in report.critical_path)


def test_1f1b_on_two_ranks_as_found_by_hand() -> None:
    report = run("Et|tL", 2, 4, BY_HAND)
    assert report.timing.starts == ([0, 1, 5, 7, 8, 10, 12, 15], [1.5, 2.5, 4.5, 5.5, 8.5, 9.5, 11.5, 12.5])
    assert (report.makespan, report.span) == (17.0, 17.0)
    assert report.bubble_ratio == report.bubble_ratio_makespan == 5 / 17
    assert [rank.busy for rank in report.ranks] == [12.0, 12.0]
    assert [rank.idle for rank in report.ranks] == [
        IdleTime(fill=3.0, drain=2.0, imbalance=0.0, p2p=0.0),
        IdleTime(fill=1.5, drain=2.5, imbalance=0.5, p2p=0.5),
    ]
    assert [rank.peak_in_flight for rank in report.ranks] == [2, 1]
    assert write_path(report) == "0F0 -0.5-> 1F0 1B0 -0.5-> 0B0 0F2 -0.5-> 1F2 1B2 1F3 1B3 -0.5-> 0B3"


def test_the_json_is_as_the_reference_prints_it() -> None:
    report = run("Et|tL", 2, 1, BY_HAND)
    assert json.loads(json.dumps(report.to_json())) == {
        "schema_version": "1.0",
        "layout": "Et|tL",
        "schedule": "1f1b",
        "microbatches": 1,
        "makespan_ms": 7.0,
        "span_ms": 7.0,
        "bubble_ratio": 4 / 7,
        "bubble_ratio_makespan": 4 / 7,
        "ranks": [
            {
                "busy_ms": 3.0,
                "idle_ms": {"fill": 4.0, "drain": 0.0, "imbalance": 0.0, "p2p": 0.0},
                "peak_in_flight": 1,
                "peak_memory_bytes": 0,
            },
            {
                "busy_ms": 3.0,
                "idle_ms": {"fill": 1.5, "drain": 2.5, "imbalance": 0.0, "p2p": 0.0},
                "peak_in_flight": 1,
                "peak_memory_bytes": 0,
            },
        ],
        "critical_path": [
            {"action": "0F0", "rank": 0, "start_ms": 0.0, "end_ms": 1.0},
            {"transfer": "0F0", "rank": 0, "to_rank": 1, "start_ms": 1.0, "end_ms": 1.5},
            {"action": "1F0", "rank": 1, "start_ms": 1.5, "end_ms": 2.5},
            {"action": "1B0", "rank": 1, "start_ms": 2.5, "end_ms": 4.5},
            {"transfer": "1B0", "rank": 1, "to_rank": 0, "start_ms": 4.5, "end_ms": 5.0},
            {"action": "0B0", "rank": 0, "start_ms": 5.0, "end_ms": 7.0},
        ],
    }


@pytest.mark.parametrize("name", ["gpipe", "interleaved_1f1b", "auto"])
def test_the_json_keeps_its_schema(name: str) -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    costs = replace(BY_HAND, link=Link(8, 50, 8388608), message_bytes=8388608)
    report = run("Et||t|tL", 2, 4, costs, name)
    jsonschema.validate(report.to_json(), SCHEMA)


def test_the_schema_refuses_a_report_with_a_field_less() -> None:
    data = run("Et|tL", 2, 1, BY_HAND).to_json()
    for name in data:
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({key: value for key, value in data.items() if key != name}, SCHEMA)


def test_an_empty_chunk_takes_no_time_but_still_receives_and_sends() -> None:
    report = run("Et||t|L", 2, 1, BY_HAND, "gpipe")
    assert report.timing.starts == ([0.0, 2.0, 4.0, 7.0], [1.5, 3.5, 3.5, 6.5])
    assert report.timing.ends == ([1.0, 3.0, 6.0, 9.0], [1.5, 3.5, 3.5, 6.5])
    assert report.ranks[1].busy == 0.0


def test_a_link_takes_one_message_at_a_time_in_each_direction() -> None:
    # 2 ms on the link and 1 ms of latency, with work of 1 ms: messages queue up.
    costs = Costs({"t": T}, link=Link(1000, 1, 2_000_000), message_bytes=2_000_000)
    report = run("Et|tL", 2, 3, costs, "gpipe")
    assert report.timing.starts[1][:3] == [4, 6, 8]
    assert report.timing.ready[0][3:] == [14, 16, 18]
    # The third message is sent when the link is through with the second, and that one when it is through with the first.
    assert write_path(report) == "0F0 -2-> -2-> -3-> 1F2 1B0 -3-> 0B0 0B1 0B2"
    assert [step.action for step in report.critical_path[1:4]] == [Action(0, "F", batch) for batch in range(3)]


def test_the_wait_for_a_link_is_p2p() -> None:
    plan = compile_layout("Et|tL", pp=2)
    costs = Costs({"t": T}, link=Link(0, 1, 3_000_000), message_bytes=3_000_000)
    report = simulate(plan, make_schedule(plan, "1f1b", 3), costs)
    # Rank 1 is free from 10 on; its third input is made at 13, when its gradient has come back, and is sent until 16.
    assert report.timing.starts[1] == [4, 5, 7, 8, 16, 17]
    assert report.ranks[1].idle == IdleTime(fill=4.0, drain=report.makespan - 19.0, imbalance=3.0, p2p=3.0)


def test_mtp_layers_send_more_and_so_take_the_link_for_longer() -> None:
    costs = Costs({"t": T, "m": T}, link=Link(0, 1, 1_000_000), message_bytes=1_000_000)
    report = run("Et|tmm|L", 3, 1, costs)
    # One message of 1 ms to the MTP layers, three from there to the loss; their gradients the same way back.
    assert report.timing.ready[1] == [2, 3 + 2 + 3 + 3]
    assert report.timing.starts[2][0] == 2 + 3 + 3


def test_one_rank_is_never_idle() -> None:
    report = run("EttL", 1, 3, BY_HAND)
    assert report.makespan == report.ranks[0].busy == 18.0
    assert report.bubble_ratio == report.bubble_ratio_makespan == 0.0
    assert report.ranks[0].idle == IdleTime(0.0, 0.0, 0.0, 0.0)


def test_without_any_cost_nothing_takes_time() -> None:
    report = run("Et|tL", 2, 2, Costs({}))
    assert (report.makespan, report.span, report.bubble_ratio, report.bubble_ratio_makespan) == (0.0, 0.0, 0.0, 0.0)
    assert write_path(report) == "0F0 0F1 0B0 0B1"
    jsonschema.validate(report.to_json(), SCHEMA)


def test_the_bubble_of_the_makespan_counts_the_late_start_of_a_rank() -> None:
    costs = Costs({"t": LayerCosts.of(1.0, 1.0, 1.0)})
    report = run("Et|t|tL", 3, 5, costs, "zb_h2")
    assert report.span < report.makespan
    mean = sum(rank.busy for rank in report.ranks) / 3
    assert report.bubble_ratio == (report.span - mean) / report.span
    assert report.bubble_ratio_makespan == (report.makespan - mean) / report.makespan


def test_a_schedule_of_other_stages_is_refused() -> None:
    plan = compile_layout("Et|tL", pp=2)
    other = make_schedule(compile_layout("Et|t|tL", pp=3), None, 2)
    with pytest.raises(ValueError, match=r"^the schedule is for other stages than those of the plan$"):
        simulate(plan, other, BY_HAND)


def test_a_schedule_that_cannot_be_carried_out_is_refused() -> None:
    plan = compile_layout("Et|tL", pp=2)
    forward, backward = ((Action(stage, "F", 0), Action(stage, "B", 0)) for stage in (0, 1))
    stuck = Schedule("mine", (0, 1), 1, (forward[::-1], backward))
    with pytest.raises(StuckError, match=r"^deadlock: rank 0 at 0B0 waits for 1B0; rank 1 at 1F0 waits for 0F0$"):
        simulate(plan, stuck, BY_HAND)


def test_a_layer_that_the_plan_does_not_have_is_refused() -> None:
    costs = read_costs({"kinds": {"t": {"forward": 1}}, "layers": {"2": {"forward": 2}}})
    with pytest.raises(ValueError, match=r"^layers\.2: there is no such layer, the layout has 2 of kind t$"):
        run("Et|tL", 2, 2, costs)


def test_a_rank_without_actions_is_idle_for_want_of_balance() -> None:
    schedule = Schedule("mine", (1,), 1, ((), (Action(0, "F", 0), Action(0, "B", 0))))
    durations = Durations.equal(1, 1.0, 1.0, 1.0)
    timing = time_schedule(schedule, durations)
    producers = Producers(schedule, timing)
    assert split_idle_time(schedule, timing, durations, producers) == (IdleTime(0.0, 0.0, 3.0, 0.0), IdleTime(0.0, 0.0, 0.0, 0.0))
    assert [str(step.action) for step in find_critical_path(schedule, timing, durations, producers)] == ["0F0", "0B0"]


def test_nothing_at_all_has_no_critical_path() -> None:
    schedule = Schedule("mine", (0,), 1, ((),))
    durations = Durations.equal(1, 1.0, 1.0, 1.0)
    timing = time_schedule(schedule, durations)
    assert (timing.makespan, timing.span) == (0.0, 0.0)
    assert timing == Timing(([],), ([],), ([],))
    assert find_critical_path(schedule, timing, durations, Producers(schedule, timing)) == ()


def test_one_link_speed_for_all_edges_is_the_same_as_one_for_each() -> None:
    plan = compile_layout("Et|t|t|tL", pp=2)
    schedule = make_schedule(plan, None, 4)
    one = replace(Durations.equal(4, 1.0, 1.0, 1.0, 0.25), link_busy=0.5)
    assert time_schedule(schedule, one) == time_schedule(schedule, replace(one, link_busy=(0.5, 0.5, 0.5)))
