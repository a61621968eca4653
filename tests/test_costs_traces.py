"""A trace of a run to costs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ppdsl import compile_layout
from ppdsl.costs import Costs, LayerCosts, cost_stages, read_costs, read_trace, recognize_costs
from ppdsl.costs.fitting import fit_kinds
from ppdsl.drawing import chrome_trace
from ppdsl.schedules import make_schedule
from ppdsl.simulation import simulate

if TYPE_CHECKING:
    from ppdsl import Plan

KNOWN = read_costs({"kinds": {"E": {"forward": 0.5}, "t": {"forward": 1.0}, "L": {"forward": 2.5, "backward": 4.0}}})
HALVES = read_costs({"kinds": {"t": {"forward": 1.0, "input_grad": 1.0, "weight_grad": 0.5}, "L": {"forward": 2.0}}})


def trace(plan: Plan, costs: Costs, name: str | None = None, microbatches: int = 4) -> dict[str, Any]:
    schedule = make_schedule(plan, name, microbatches, costs=costs)
    written: dict[str, Any] = json.loads(json.dumps(chrome_trace(schedule, simulate(plan, schedule, costs).timing)))
    return written


def slices(**times: float) -> list[dict[str, object]]:
    return [{"ph": "X", "name": name[1:], "ts": 0, "dur": time} for name, time in times.items()]


def close(found: LayerCosts, expected: LayerCosts) -> bool:
    names = ("forward", "input_grad", "weight_grad")
    return all(getattr(found, name) == pytest.approx(getattr(expected, name), abs=1e-6) for name in names)


@pytest.mark.parametrize(
    ("layout", "pp", "costs", "name"),
    [
        ("Et*3|t*4|t*3NL", 3, KNOWN, "1f1b"),
        ("Et*3|t*3|t*3|t*2NL", 2, KNOWN, "interleaved_1f1b"),
        ("E|t*4|t*4|L", 4, KNOWN, "gpipe"),
        ("Et*2||t*3|t*2L", 2, KNOWN, None),
        ("Et*3|t*4|t*3NL", 3, HALVES, "zb_h1"),
        ("Et|tt|t*3|tt|t|L", 6, HALVES, "zb_h1"),
    ],
)
def test_kinds_that_the_stages_tell_apart_are_found_again(layout: str, pp: int, costs: Costs, name: str | None) -> None:
    plan = compile_layout(layout, pp=pp)
    found = read_trace(trace(plan, costs, name), plan)
    for kind in ("E", "t", "L"):
        assert close(found.kinds[kind], costs.kinds.get(kind, LayerCosts())), kind
    assert all(close(layer, costs.kinds["t"]) for layer in found.layers.values())
    assert found.num_layers == plan.num_layers
    assert found.split == costs.split


layer_costs = st.builds(LayerCosts.of, *(st.floats(0.01, 10) for _ in range(3)))


@given(
    st.sampled_from(["Et*3|t*3L", "Et|tt|ttL", "Et|t|mL", "Et|tt|tmL", "Et||tt|tNmmL", "E|L", "EtmL", "Et*2|t|t*4|L"]),
    st.fixed_dictionaries(dict.fromkeys("EtmNL", layer_costs)),
    st.dictionaries(st.integers(0, 2), layer_costs),
)
def test_the_stages_of_the_traced_layout_take_again_what_they_took(
    layout: str, kinds: dict[str, LayerCosts], layers: dict[int, LayerCosts]
) -> None:
    plan = compile_layout(layout, pp=1)
    costs = Costs(kinds, {layer: own for layer, own in layers.items() if layer < plan.num_layers})
    stages = cost_stages(plan, costs)
    events = []
    for stage, own in enumerate(stages):
        parts = {"F": own.forward, "I": own.input_grad, "W": own.weight_grad}
        events += [{"ph": "X", "name": f"{stage}{kind}0", "ts": 0, "dur": time * 1000} for kind, time in parts.items()]
    again = cost_stages(plan, read_trace(events, plan))
    for found, own in zip(again, stages, strict=True):
        # a fitted kind that is not in a stage's measure leaves no less than nothing for the others
        assert found.forward >= own.forward - 1e-6
        assert found.input_grad >= own.input_grad - 1e-6
    assert "m" in layout or all(map(close, again, stages))


def test_stages_that_do_not_tell_are_divided_evenly() -> None:
    plan = compile_layout("Et*3|t*3L", pp=2)
    costs = read_trace(slices(_0F0=4000, _1F0=8000), plan)
    assert [costs.kinds[kind].forward for kind in "EtL"] == [1.0, 1.5, 2.0]
    assert [costs.layers[layer].forward for layer in (0, 2, 3, 5)] == [1.0, 1.0, 2.0, 2.0]


def test_a_trace_without_backwards_doubles_the_forward() -> None:
    plan = compile_layout("Et|t|tL", pp=3)
    costs = read_trace(slices(_0F0=1500, _1F0=1000, _2F0=3000), plan)
    assert costs.kinds["t"] == LayerCosts.of(1.0, 1.0, 1.0)
    assert costs.kinds["E"] == LayerCosts.of(0.5, 0.0, 1.0)
    assert costs.kinds["L"] == LayerCosts.of(2.0, 2.0, 2.0)
    assert costs.layers == {}


def test_the_median_of_each_stage_counts() -> None:
    plan = compile_layout("EtL", pp=1)
    times = slices(_0F0=900_000, _0F1=1000, _0F2=1002, _0B0=9, _0B1=2000, _0B2=2001)
    assert cost_stages(plan, read_trace(times, plan))[0].forward == pytest.approx(1.002)


def test_mtp_layers_are_told_apart_where_they_stand_alone() -> None:
    plan = compile_layout("Et|t|m|L", pp=4)
    costs = read_trace(slices(_0F0=1500, _1F0=1000, _2F0=700, _3F0=3000), plan)
    assert [costs.kinds[kind].forward for kind in "EtmL"] == [0.5, 1.0, 0.7, 3.0]
    joined = compile_layout("Et|t|tmL", pp=3)
    costs = read_trace(slices(_0F0=1500, _1F0=1000, _2F0=5000), joined)
    assert [costs.kinds[kind].forward for kind in "EtmL"] == [0.5, 1.0, 1.0, 3.0]


def test_mtp_layers_that_leave_nothing_are_no_fault() -> None:
    plan = compile_layout("Et|t|t|mL", pp=4)
    costs = read_trace(slices(_0F0=1000, _1F0=1000, _2F0=1000, _3F0=400), plan)
    assert cost_stages(plan, costs)[3].forward == pytest.approx(0.4)


def test_other_slices_and_events_count_for_nothing() -> None:
    plan = compile_layout("EtL", pp=1)
    others: list[dict[str, object]] = [
        {"ph": "M", "name": "0F0"},
        {"ph": "X", "name": "wait", "dur": "?"},
        {"ph": "X", "name": 3},
        {"ph": "X"},
        {"ph": "C", "name": "memory of rank 0"},
    ]
    assert read_trace([*others, *slices(_0F0=1000)], plan) == read_trace({"traceEvents": slices(_0F0=1000)}, plan)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([], "the trace has no slice that is named like an action, 0F0"),
        ({"traceEvents": {}}, "traceEvents is an object, not a list"),
        ([{}, 3], "traceEvents[1] is 3, not an object"),
        (slices(_7F0=1), "traceEvents[0] is 7F0, an action of stage 7: the layout has 2 stages"),
        (slices(_0F0=1), "the trace has no forward of stage 1"),
        (slices(_0F0=1, _1F0=1, _1B0=1), "the trace has no backward of stage 0"),
        (slices(_0F0=1, _1F0=1, _1B0=1, _0I0=1), "the trace has no weight gradient of stage 0"),
        (slices(_0F0=-1), "traceEvents[0].dur is -1, not a number from 0"),
        ([{"ph": "X", "name": "0F0"}], "traceEvents[0].dur is null, not a number from 0"),
    ],
)
def test_what_cannot_be_read_says_why(data: object, message: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 -- the whole text is compared
        read_trace(data, compile_layout("Et|tL", pp=2))
    assert str(caught.value) == message


def test_a_trace_is_told_by_its_content() -> None:
    plan = compile_layout("Et*3|t*4|t*3NL", pp=3)
    written = trace(plan, KNOWN)
    assert recognize_costs(json.dumps(written), "x", plan=plan) == read_trace(written["traceEvents"], plan)


def test_layers_without_number_are_only_told_apart_when_they_must_be() -> None:
    plan = compile_layout("Et*1000000000|t*1000000000|t*1000000000L", pp=3)
    assert read_trace(slices(_0F0=5e9, _1F0=4e9, _2F0=5e9), plan).layers == {}
    with pytest.raises(ValueError, match=r"^stages of 3000000000 decoder layers differ, at most 1048576 layers are told apart$"):
        read_trace(slices(_0F0=1e9, _1F0=4e9, _2F0=5e9), plan)


@pytest.mark.parametrize(
    ("counts", "totals", "costs"),
    [
        ([], [], ()),
        ([(1,)], [3.0], (3.0,)),
        ([(1, 1)], [3.0], None),
        ([(1, 1), (2, 2)], [3.0, 6.0], None),
        ([(1, 1), (2, 1)], [3.0, 4.0], (1.0, 2.0)),
        ([(1, 1), (1, 1), (0, 1)], [3.0, 5.0, 1.0], (3.0, 1.0)),
        ([(1, 1), (0, 1)], [1.0, 3.0], (0.0, 2.0)),
        ([(0, 1)], [1.0], None),
    ],
)
def test_kinds_are_fitted(counts: list[tuple[int, ...]], totals: list[float], costs: tuple[float, ...] | None) -> None:
    assert fit_kinds(counts, totals) == costs
