"""The schedule as a Chrome trace, read back by the rules of Perfetto's importer: its trace processor is fetched when it is first used."""

from __future__ import annotations

import json
from itertools import pairwise
from math import isclose
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ppdsl.drawing import chrome_trace
from ppdsl.schedules.actions import Action, Schedule, read_action
from ppdsl.schedules.timing import Durations, time_schedule
from tests.drawn_cases import HOSTILE, full_size, nothing, two_ranks, with_empty_stage
from tests.random_schedules import all_durations, schedules

if TYPE_CHECKING:
    from collections.abc import Callable

    from hypothesis.strategies import DataObject

    from ppdsl.schedules.timing import Timing

Event = dict[str, Any]
Place = tuple[int, int, str]
"""A thread, when its slice starts in ns, and the slice's name."""


def trace_of(schedule: Schedule, timing: Timing) -> list[Event]:
    events: list[Event] = json.loads(json.dumps(chrome_trace(schedule, timing), allow_nan=False))["traceEvents"]
    return events


def round_to_ns(time: float) -> int:
    return round(time * 1000.0)


def cut_to_ns(time: float) -> int:
    """As Perfetto's importer did until 2025."""
    return int(time * 1000.0)


def import_trace(events: list[Event], to_ns: Callable[[float], int]) -> tuple[list[tuple[Place, int]], list[tuple[Place, Place]]]:
    """Read slices, with their lengths, and arrows as Perfetto does.

    Events are sorted by time, those of one time as they come. A slice is closed by one that starts when it has ended, not before; an end of
    an arrow belongs to the slice that is open on its thread.
    """
    timed = sorted((event for event in events if event["ph"] in "Xsf"), key=lambda event: to_ns(event["ts"]))
    open_slices: dict[int, tuple[Place, int]] = {}
    slices: list[tuple[Place, int]] = []
    tails: dict[int, Place] = {}
    arrows = []
    for event in timed:
        time, thread = to_ns(event["ts"]), event["tid"]
        if event["ph"] == "X":
            before = open_slices.get(thread)
            assert before is None or before[0][1] + before[1] <= time, "slices overlap"
            open_slices[thread] = ((thread, time, event["name"]), to_ns(event["dur"]))
            slices.append(open_slices[thread])
        elif event["ph"] == "s":
            assert event["id"] not in tails, "an arrow starts twice"
            tails[event["id"]] = open_slices[thread][0]
        else:
            assert event["bp"] == "e"
            arrows.append((tails.pop(event["id"]), open_slices[thread][0]))
    assert not tails, "an arrow does not end"
    return slices, arrows


def test_whole_trace() -> None:
    schedule = Schedule("1f1b", (0, 1), 1, ((Action(0, "F", 0), Action(0, "B", 0)), (Action(1, "F", 0), Action(1, "B", 0))))
    timing = time_schedule(schedule, Durations.equal(2, 1.0, 1.0, 1.0, 0.5))
    memory: dict[int, list[tuple[float, float]]] = {0: [(0.0, 100), (0.0010005, 250.5)], 1: [(0.5, 7)]}
    here: list[Event] = [{"pid": 1, "tid": 1}, {"pid": 1, "tid": 2}]
    first: Event = {"stage": 0, "microbatch": 0}
    second: Event = {"stage": 1, "microbatch": 0}
    sent: list[Event] = [{"cat": "transfer", "name": "activation", "id": 1}, {"cat": "transfer", "name": "gradient", "id": 4}]
    assert chrome_trace(schedule, timing, memory) == {
        "displayTimeUnit": "ms",
        "traceEvents": [
            {"ph": "M", "pid": 1, "name": "process_name", "args": {"name": "1f1b, predicted"}},
            {**here[0], "ph": "M", "name": "thread_name", "args": {"name": "rank 0"}},
            {**here[0], "ph": "M", "name": "thread_sort_index", "args": {"sort_index": 0}},
            {**here[1], "ph": "M", "name": "thread_name", "args": {"name": "rank 1"}},
            {**here[1], "ph": "M", "name": "thread_sort_index", "args": {"sort_index": 1}},
            {**here[0], "ph": "X", "name": "0F0", "cat": "forward", "ts": 0, "dur": 1000, "args": first},
            {**here[0], **sent[0], "ph": "s", "ts": 999.999},
            {**here[1], "ph": "X", "name": "1F0", "cat": "forward", "ts": 1500, "dur": 1000, "args": second},
            {**here[1], **sent[0], "ph": "f", "bp": "e", "ts": 1500.001},
            {**here[1], "ph": "X", "name": "1B0", "cat": "backward", "ts": 2500, "dur": 2000, "args": second},
            {**here[1], **sent[1], "ph": "s", "ts": 4499.999},
            {**here[0], "ph": "X", "name": "0B0", "cat": "backward", "ts": 5000, "dur": 2000, "args": first},
            {**here[0], **sent[1], "ph": "f", "bp": "e", "ts": 5000.001},
            {"ph": "C", "pid": 1, "name": "memory of rank 0", "ts": 0, "args": {"bytes": 100}},
            {"ph": "C", "pid": 1, "name": "memory of rank 0", "ts": 1.0010000000000001, "args": {"bytes": 250.5}},
            {"ph": "C", "pid": 1, "name": "memory of rank 1", "ts": 500, "args": {"bytes": 7}},
        ],
    }


def test_only_chrome_phases_and_no_idle_thread() -> None:
    events = trace_of(*two_ranks())
    assert {event["ph"] for event in events} == {"M", "X", "s", "f"}
    assert {event["pid"] for event in events} == {1}
    assert {event["tid"] for event in events if "tid" in event} == {1, 2}
    assert all("ts" not in event for event in events if event["ph"] == "M")


def test_nothing_to_show() -> None:
    assert [event["name"] for event in trace_of(*nothing())] == ["process_name", "thread_name", "thread_sort_index"]


def test_name_is_only_text() -> None:
    schedule, timing = two_ranks()
    events = trace_of(Schedule(HOSTILE, schedule.owners, schedule.microbatches, schedule.ranks), timing)
    assert events[0]["args"]["name"] == r"""</script><b title="'">&amp; \u{d800}\u{202e}\u{0}\u{a}<!-- ]]>, predicted"""


def test_no_arrow_to_an_action_that_is_not_there() -> None:
    schedule = Schedule("torch's", (0, 1), 2, ((Action(0, "F", 0), Action(0, "F", 1)), (Action(1, "F", 1),)))
    _, arrows = import_trace(trace_of(schedule, time_schedule(schedule, Durations.equal(2, 1.0, 1.0, 1.0, 0.5))), round_to_ns)
    assert [(tail[2], head[2]) for tail, head in arrows] == [("0F1", "1F1")]


@pytest.mark.parametrize("to_ns", [round_to_ns, cut_to_ns])
def test_arrows_to_and_from_slices_without_length(to_ns: Callable[[float], int]) -> None:
    schedule, timing = with_empty_stage()
    slices, arrows = import_trace(trace_of(schedule, timing), to_ns)
    assert len(slices) == 12
    assert sorted((tail[2], head[2]) for tail, head in arrows) == [
        *(("0F0", "1F0"), ("0F1", "1F1"), ("1B0", "0B0"), ("1B1", "0B1")),
        *(("1F0", "2F0"), ("1F1", "2F1"), ("2B0", "1B0"), ("2B1", "1B1")),
    ]


def test_full_size() -> None:
    schedule, timing = full_size(64)
    slices, arrows = import_trace(trace_of(schedule, timing), cut_to_ns)
    assert len(slices) == 64 * 64 * 2 * 3
    assert len(arrows) == 64 * 2 * 126  # both ways over the edges between 128 stages, but for the one inside the last rank


@given(st.data())
@pytest.mark.parametrize("to_ns", [round_to_ns, cut_to_ns])
def test_slices_are_the_actions_and_arrows_the_transfers(to_ns: Callable[[float], int], data: DataObject) -> None:
    schedule = data.draw(schedules())
    lengths = st.sampled_from([0.0, 1e-6, 0.0010005, 1 / 3, 1.0, 7.123456789])
    timing = time_schedule(schedule, data.draw(all_durations(schedule.stages, lengths)))
    events = trace_of(schedule, timing)
    slices, arrows = import_trace(events, to_ns)
    by_name = {read_action(place[2]): (place, length) for place, length in slices}
    assert len(by_name) == len(slices) == sum(map(len, schedule.ranks))
    for rank, actions in enumerate(schedule.ranks):
        here = [event for event in events if event.get("tid") == rank + 1 and event["ph"] == "X"]
        assert [read_action(event["name"]) for event in here] == [*actions]
        assert all(event["dur"] >= 0 for event in here)
        assert all(one["ts"] <= other["ts"] for one, other in pairwise(here))
        for action, start, end in zip(actions, timing.starts[rank], timing.ends[rank], strict=True):
            place, length = by_name[action]
            assert isclose(place[1], start * 1e6, abs_tol=1.001)
            assert isclose(length, (end - start) * 1e6, abs_tol=1.001)
    assert sorted((read_action(tail[2]), read_action(head[2])) for tail, head in arrows) == sorted(transfers(schedule))


def transfers(schedule: Schedule) -> list[tuple[Action, Action]]:
    """Every action whose output another rank uses, with the one that uses it."""
    owner = {action: rank for rank, actions in enumerate(schedule.ranks) for action in actions}
    back = {(action.stage, action.microbatch): action for action in owner if action.kind in "BI"}
    found = []
    for action, rank in owner.items():
        stage, kind, batch = action
        user = Action(stage + 1, "F", batch) if kind == "F" else back.get((stage - 1, batch))
        if kind != "W" and user in owner and owner[user] != rank:
            found.append((action, user))
    return found


@given(st.lists(st.tuples(st.floats(0, 1e7), st.integers(0, 2**50)), max_size=20))
def test_memory_steps_keep_their_order(steps: list[tuple[float, int]]) -> None:
    steps.sort()
    schedule, timing = two_ranks()
    events: Any = chrome_trace(schedule, timing, {1: steps})["traceEvents"]
    counters = [event for event in events if event["ph"] == "C"]
    assert [event["args"] for event in counters] == [{"bytes": size} for _, size in steps]
    assert {event["name"] for event in counters} <= {"memory of rank 1"}
    assert all(one["ts"] <= other["ts"] for one, other in pairwise(counters))
