from __future__ import annotations

from dataclasses import astuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ppdsl import compile_layout
from ppdsl.costs import FREE, UNIT_COSTS, Costs, LayerCosts, Link, cost_stages, count_messages, read_costs
from ppdsl.schedules.durations import durations_for

EXAMPLE = {
    "schema_version": "1.0",
    "kinds": {
        "E": {"forward": 0.05, "backward": 0.1, "params": 39000000, "activation_bytes": 0, "activation_bytes_after_input_grad": 0},
        "t": {"forward": 1.0, "backward": 2.0, "params": 7, "activation_bytes": 90, "activation_bytes_after_input_grad": 30},
        "m": {"forward": 1.5},
        "N": {"forward": 0.01, "backward": 0.02},
        "L": {"forward": 2.4, "input_grad": 2.5, "weight_grad": 2.6},
    },
    "layers": {"0": {"forward": 1.4, "backward": 2.8}},
    "link": {"latency_us": 8, "gigabytes_per_s": 50, "message_bytes": 8388608},
    "bytes_per_param": 16,
    "memory_limit_bytes": 150000000000,
}


def test_stages_cost_the_sum_of_their_layers() -> None:
    plan = compile_layout("Et*2||t*3N|mL", pp=2)
    stages = cost_stages(plan, read_costs(EXAMPLE))
    assert [round(stage.forward, 9) for stage in stages] == [0.05 + 1.4 + 1.0, 0.0, 3.01, 1.5 + 2.4]
    assert [round(stage.backward, 9) for stage in stages] == [0.1 + 2.8 + 2.0, 0.0, 6.02, 3.0 + 5.1]
    assert [round(stage.input_grad, 9) for stage in stages] == [1.4 + 1.0, 0.0, 3.01, 1.5 + 2.5]
    assert [round(stage.weight_grad, 9) for stage in stages] == [0.1 + 1.4 + 1.0, 0.0, 3.01, 1.5 + 2.6]
    assert [stage.params for stage in stages] == [39000014, 0, 21, 0]
    assert [stage.activation_bytes for stage in stages] == [180, 0, 270, 0]
    assert [stage.activation_bytes_after_input_grad for stage in stages] == [60, 0, 90, 0]


def test_an_implied_norm_costs_what_a_written_one_does() -> None:
    costs = read_costs(EXAMPLE)
    assert cost_stages(compile_layout("Et|tL", pp=2), costs) == cost_stages(compile_layout("Et|tNL", pp=2), costs)


def test_layers_are_not_listed() -> None:
    plan = compile_layout("Et*1000000000|t*1000000000L", pp=2)
    costs = read_costs({"kinds": {"t": {"forward": 1}}, "layers": {"1000000007": {"forward": 3}}})
    assert [stage.forward for stage in cost_stages(plan, costs)] == [10**9, 10**9 + 2]


@given(st.lists(st.integers(0, 4), min_size=2, max_size=5), st.dictionaries(st.integers(0, 7), st.integers(0, 9)))
def test_the_stages_cost_what_all_layers_cost(counts: list[int], special: dict[int, int]) -> None:
    stages = ["t" * count for count in counts]
    plan = compile_layout(f"E{'|'.join(stages)}L", pp=len(counts))
    layers = {layer: LayerCosts(float(time)) for layer, time in special.items() if layer < sum(counts)}
    found = cost_stages(plan, Costs({"t": LayerCosts(1.0), "E": LayerCosts(5.0)}, layers))
    owner = [stage for stage, count in enumerate(counts) for _ in range(count)]
    expected = [5.0 if stage == 0 else 0.0 for stage in range(len(counts))]
    for layer, stage in enumerate(owner):
        expected[stage] += special.get(layer, 1)
    assert [stage.forward for stage in found] == expected


def test_the_edge_behind_mtp_layers_carries_their_outputs_up_to_the_loss() -> None:
    assert count_messages(compile_layout("Et|t|tmm|L", pp=4)) == (1, 1, 3)
    assert count_messages(compile_layout("Et@0|tmm@1|@2|L@0", pp=3)) == (1, 3, 3)
    assert count_messages(compile_layout("EtL", pp=1)) == ()


def test_durations_with_a_delay() -> None:
    plan = compile_layout("Et|tL", pp=2)
    durations = durations_for(plan, Costs({"t": LayerCosts(1, 3, 2, 1), "L": LayerCosts.of(1.0, 0.5, 0.25)}, p2p_ms=0.05))
    assert durations.forward == (1.0, 2.0)
    assert durations.backward == (3.0, 3.75)
    assert durations.input_grad == (2.0, 2.5)
    assert durations.weight_grad == (1.0, 1.25)
    assert (durations.delay, durations.link_busy) == (0.05, 0.0)
    assert all(isinstance(time, float) for time in (*durations.forward, *durations.backward, *durations.input_grad, *durations.weight_grad))


def test_durations_with_a_link() -> None:
    plan = compile_layout("Et|tmm|L", pp=3)
    durations = durations_for(plan, Costs({}, link=Link(8, 50, 5_000_000)))
    assert durations.delay == 0.008
    assert durations.link_busy == pytest.approx((0.1, 0.3))


@pytest.mark.parametrize("link", [Link(8), Link(8, 50, 0), Link(8, None, 1000)])
def test_a_link_that_takes_no_time_is_a_delay(link: Link) -> None:
    durations = durations_for(compile_layout("Et|tL", pp=2), Costs({}, link=link))
    assert (durations.delay, durations.link_busy) == (0.008, 0.0)


def test_without_costs_a_decoder_layer_is_the_unit() -> None:
    durations = durations_for(compile_layout("Et*2|t*3L", pp=2), UNIT_COSTS)
    assert (durations.forward, durations.backward, durations.input_grad) == ((2.0, 3.0), (4.0, 6.0), (2.0, 3.0))
    assert not UNIT_COSTS.split


def test_layers_of_a_stage_take_turns_with_their_workspace() -> None:
    kinds = {"t": {"forward": 1, "workspace_bytes": 8}, "m": {"workspace_bytes": 1}, "L": {"workspace_bytes": 20}}
    costs = read_costs({"kinds": kinds, "layers": {"1": {"workspace_bytes": 9}}})
    stages = cost_stages(compile_layout("Et*2||t*3N|mL", pp=2), costs)
    assert [stage.workspace_bytes for stage in stages] == [9, 0, 8, 20]


def test_the_share_of_the_input_gradient() -> None:
    assert LayerCosts.of(1.0, 1.0, 3.0).input_share == 0.25
    assert FREE.input_share == 0.5
    assert not any(astuple(FREE))
