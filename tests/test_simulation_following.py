"""What each rank holds over time agrees with its peak, and with what it holds at each action."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ppdsl import compile_layout
from ppdsl.costs import Costs, LayerCosts, read_costs
from ppdsl.schedules import make_schedule
from ppdsl.simulation import follow_memory, simulate
from ppdsl.strategies import ScheduledPlan, scheduled_plans

SIZES = st.integers(0, 9)


@st.composite
def layer_costs(draw: st.DrawFn) -> LayerCosts:
    """Draw the costs of a layer; a size left after the first half of the backward is at most the whole."""
    forward, input_grad, weight_grad, params, held, workspace = (draw(SIZES) for _ in range(6))
    return LayerCosts(forward, input_grad + weight_grad, input_grad, weight_grad, params, held, draw(st.integers(0, held)), workspace)


@given(scheduled_plans(), layer_costs(), layer_costs(), SIZES)
def test_the_largest_is_the_peak_and_times_never_fall(case: ScheduledPlan, layer: LayerCosts, ends: LayerCosts, message: int) -> None:
    costs = Costs({"t": layer, "m": layer, "E": ends, "L": ends}, message_bytes=message)
    report = simulate(case.plan, case.schedule, costs)
    followed = follow_memory(case.plan, case.schedule, costs, report)
    assert [*followed] == [*range(case.plan.pp)]
    for rank, steps in followed.items():
        times = [time for time, _ in steps]
        assert times == sorted(times)
        assert times[0] == 0
        assert max(size for _, size in steps) == report.ranks[rank].peak_memory
        assert steps[0][1] == steps[-1][1]


def test_activations_are_taken_when_a_forward_begins_and_given_up_when_a_backward_ends() -> None:
    plan = compile_layout("Et|tL", pp=2)
    costs = read_costs({"kinds": {"t": {"forward": 1, "params": 2, "activation_bytes": 5}}, "bytes_per_param": 1})
    schedule = make_schedule(plan, "1f1b", 2)
    followed = follow_memory(plan, schedule, costs, simulate(plan, schedule, costs))
    assert followed == {
        0: [(0, 2), (0, 7), (1, 12), (6, 7), (9, 2)],
        1: [(0, 2), (1, 7), (4, 2), (4, 7), (7, 2)],
    }


def test_workspace_is_there_while_an_action_runs() -> None:
    plan = compile_layout("Et|tL", pp=2)
    kinds = {"t": {"forward": 1, "activation_bytes": 5}, "L": {"forward": 1, "workspace_bytes": 9}}
    costs, schedule = read_costs({"kinds": kinds}), make_schedule(plan, "1f1b", 1)
    followed = follow_memory(plan, schedule, costs, simulate(plan, schedule, costs))
    assert followed == {0: [(0, 0), (0, 5), (9, 0)], 1: [(0, 0), (1, 14), (3, 5), (3, 14), (7, 0)]}


@pytest.mark.parametrize(("left", "sizes"), [(0, [0, 5, 0]), (2, [0, 5, 2, 0]), (5, [0, 5, 0])])
def test_a_split_backward_gives_up_in_parts(left: int, sizes: list[int]) -> None:
    plan = compile_layout("EtL", pp=1)
    layer = {"forward": 1, "input_grad": 1, "weight_grad": 1, "activation_bytes": 5, "activation_bytes_after_input_grad": left}
    costs = read_costs({"kinds": {"t": layer}})
    schedule = make_schedule(plan, "zb_h1", 1)
    assert [size for _, size in follow_memory(plan, schedule, costs, simulate(plan, schedule, costs))[0]] == sizes
