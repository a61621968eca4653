from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ppdsl import compile_layout
from ppdsl.costs import Costs, LayerCosts, Link, read_costs
from ppdsl.lowering import lower
from ppdsl.schedules import make_schedule
from ppdsl.schedules.memory import count_in_flight, measure_memory
from ppdsl.simulation import simulate
from tests.random_schedules import schedules

if TYPE_CHECKING:
    from ppdsl.planning import Plan
    from ppdsl.schedules import Schedule


def plan_for(schedule: Schedule, layers: int = 1) -> Plan:
    """Compile a layout with the owners of a schedule, and the same number of layers in each stage."""
    stages = ["t" * layers] * schedule.stages
    stages[0] = "E" + stages[0]
    stages[-1] += "L"
    return compile_layout("|".join(f"{text}@{owner}" for text, owner in zip(stages, schedule.owners, strict=True)), pp=schedule.pp)


def test_parameters_take_their_bytes_on_the_rank_of_their_layer() -> None:
    plan = compile_layout("Ett|t|t|tNL", pp=2)
    kinds = {"E": {"params": 1000}, "t": {"forward": 1, "params": 100}, "N": {"params": 1}, "L": {"params": 2000}}
    costs = read_costs({"kinds": kinds, "layers": {"3": {"params": 50}}, "bytes_per_param": 16})
    assert measure_memory(plan, make_schedule(plan, None, 2), costs) == (16 * 1250, 16 * (100 + 100 + 1 + 2000))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("gpipe", (400, 400, 400)),
        ("1f1b", (300, 200, 100)),
        # zb_h1 keeps what is left of 30 for each W put off: on rank 0 none, on rank 1 one, on rank 2 two.
        ("zb_h1", (300, 230, 160)),
    ],
)
def test_activations_are_released_at_b_or_in_part_at_i_and_the_rest_at_w(name: str, expected: tuple[int, ...]) -> None:
    plan = compile_layout("Et|t|tL", pp=3)
    costs = Costs({"t": LayerCosts(1.0, 2.0, 1.0, 1.0, 0, 100, 30)})
    assert measure_memory(plan, make_schedule(plan, name, 4), costs) == expected


def test_buffers_count_messages_in_use_and_posted_ahead_and_one_for_each_communicator() -> None:
    plan = compile_layout("Et|t|tL", pp=3)
    costs = Costs({"t": LayerCosts(1.0, 2.0)}, link=Link(0, None, 10), message_bytes=10)
    schedule = make_schedule(plan, "1f1b", 4)
    # Rank 0 is sent gradients only, rank 2 inputs only; rank 1 has four channels, the others two.
    assert measure_memory(plan, schedule, costs) == (10 * (2 + 2), 10 * ((2 + 1) + 2 + 4), 10 * ((1 + 1) + 2))
    assert measure_memory(plan, schedule, costs, depth=3) == (10 * (4 + 2), 10 * ((2 + 3) + 4 + 4), 10 * ((1 + 3) + 2))


def test_buffers_fit_the_largest_message_of_their_side() -> None:
    plan = compile_layout("Et|tmm|L", pp=3)
    costs = Costs({}, link=Link(0, None, 10), message_bytes=10)
    schedule = make_schedule(plan, "1f1b", 1)
    # The edge behind the two MTP layers carries three messages.
    assert measure_memory(plan, schedule, costs) == (10 * (2 + 2), 10 * (2 + 2 * 3 + 2 + 2 * 3), 10 * (2 * 3 + 2 * 3))


def test_one_rank_needs_no_buffers() -> None:
    plan = compile_layout("Et|t|tL", pp=1)
    assert measure_memory(plan, make_schedule(plan, "gpipe", 4), Costs({}, message_bytes=10)) == (0,)


def test_memory_stands_in_the_report() -> None:
    plan = compile_layout("Et|tL", pp=2)
    costs = Costs({"t": LayerCosts(1.0, 2.0, 1.0, 1.0, 7, 100, 30)}, message_bytes=10, bytes_per_param=2)
    report = simulate(plan, make_schedule(plan, "1f1b", 3), costs, depth=2)
    assert [rank.peak_memory for rank in report.ranks] == [14 + 200 + 10 * (3 + 2), 14 + 100 + 10 * ((1 + 2) + 2)]


def test_of_layers_in_one_stage_the_largest_workspace_counts_and_only_beside_what_is_held_then() -> None:
    plan = compile_layout("Ett|tL", pp=2)
    kinds = {
        "E": {"workspace_bytes": 40},
        "t": {"forward": 1, "activation_bytes": 100, "workspace_bytes": 30},
        "L": {"workspace_bytes": 500},
    }
    assert measure_memory(plan, make_schedule(plan, "1f1b", 4), read_costs({"kinds": kinds})) == (2 * 200 + 40, 100 + 500)


class Sizes(NamedTuple):
    whole: int
    left: int
    workspace: int


SIZES = st.integers(0, 50).flatmap(lambda whole: st.builds(Sizes, st.just(whole), st.integers(0, whole), st.integers(0, 99)))


@given(schedules(), SIZES)
def test_activations_agree_with_a_list_of_what_is_held(schedule: Schedule, sizes: Sizes) -> None:
    expected = []
    for actions in schedule.ranks:
        held: dict[tuple[int, int], int] = {}
        most = 0
        for stage, kind, batch in actions:
            before = sum(held.values())
            held[stage, batch] = {"F": sizes.whole, "I": sizes.left}.get(kind, 0)
            most = max(most, before + sizes.workspace, sum(held.values()) + sizes.workspace)
        expected.append(most)
    costs = Costs({"t": LayerCosts(1.0, 2.0, 1.0, 1.0, 0, *sizes)})
    assert measure_memory(plan_for(schedule), schedule, costs) == tuple(expected)


@given(schedules())
def test_in_flight_agrees_with_a_set_of_what_is_in_flight(schedule: Schedule) -> None:
    expected = []
    for actions in schedule.ranks:
        flying: set[tuple[int, int]] = set()
        most = 0
        for stage, kind, batch in actions:
            if kind == "F":
                flying.add((stage, batch))
            elif kind in ("B", "I"):
                flying.remove((stage, batch))
            most = max(most, len(flying))
        expected.append(most)
    assert count_in_flight(schedule) == tuple(expected)


@given(schedules(), st.integers(0, 3))
def test_the_buffers_are_enough_for_the_program(schedule: Schedule, depth: int) -> None:
    program = lower(schedule, depth)
    channels = [sum(rank in channel for channel in program.channels()) for rank in range(schedule.pp)]
    counted = measure_memory(plan_for(schedule), schedule, Costs({}, message_bytes=1), depth=depth)
    for rank, count in enumerate(counted):
        assert program.forward_slots[rank] + program.backward_slots[rank] + channels[rank] <= count
