"""Programs as JSON: what is written reads back, what is damaged is refused with its reason, and nothing else is ever raised."""

from __future__ import annotations

import copy
import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ppdsl import compile_layout
from ppdsl.lowering import lower, program_from_json, program_to_json
from ppdsl.proving import verify
from ppdsl.schedules import make_schedule
from ppdsl.strategies import ScheduledPlan, scheduled_plans

if TYPE_CHECKING:
    from collections.abc import Iterator

PLAN = compile_layout("Et|t|t|tL", pp=2)


def document() -> dict[str, Any]:
    """Give a new file, as data that has been through JSON."""
    program = lower(make_schedule(PLAN, None, 2))
    data: dict[str, Any] = json.loads(json.dumps(PLAN.to_json() | {"schedule": program_to_json(program)}))
    return data


@given(scheduled_plans())
def test_a_program_that_was_written_reads_back(case: ScheduledPlan) -> None:
    data = case.plan.to_json() | {"schedule": program_to_json(case.program)}
    assert program_from_json(data) == program_from_json(json.dumps(data)) == case.program


def test_the_actions_stand_there_by_themselves() -> None:
    schedule = make_schedule(PLAN, "gpipe", 2)
    assert program_to_json(lower(schedule))["actions"] == [[*map(str, actions)] for actions in schedule.ranks]


def test_a_later_minor_version_may_add_fields() -> None:
    data = document()
    expected = program_from_json(data)
    for part in (data, data["schedule"], data["schedule"]["buffers"]):
        part["new"] = {"deep": [None]}
    assert program_from_json(data | {"schema_version": "1.7"}) == expected


DAMAGES: list[tuple[list[str | int], object, str]] = [
    (["schedule"], None, "schedule is missing"),
    (["schedule"], [], "schedule is a list, not an object"),
    (["schedule", "name"], None, "schedule.name is missing"),
    (["schedule", "name"], 1, "schedule.name is 1, not a string"),
    (["schedule", "microbatches"], 0, "schedule.microbatches is 0, not an integer from 1"),
    (["schedule", "depth"], True, "schedule.depth is true, not an integer from 0"),
    (["schedule", "owners"], {}, "schedule.owners is an object, not a list"),
    (["schedule", "owners", 1], -1, "schedule.owners[1] is -1, not an integer from 0"),
    (["schedule", "owners", 1], 0, "schedule.owners are not those of the plan"),
    (["schedule", "owners", 3], None, "schedule.program[1][8] is '3RECV_F0#2', which has no stage among 3"),
    (["schedule", "microbatches"], 1, "schedule.program[0][2] is '0F1', which has no microbatch among 1"),
    (["schedule", "buffers"], None, "schedule.buffers is missing"),
    (["schedule", "buffers", "in_flight"], None, "schedule.buffers.in_flight is missing"),
    (["schedule", "buffers", "send_slots", 1], None, "schedule.buffers.send_slots has 1 entries, there are 2 ranks"),
    (["schedule", "buffers", "forward_slots", 0], 0, "schedule.program[0][4] is '2RECV_F0#0', which has no buffer among 0"),
    (["schedule", "program"], [], "schedule.buffers.forward_slots has 2 entries, there are 0 ranks"),
    (["schedule", "program", 1], "0F0", "schedule.program[1] is '0F0', not a list"),
    (["schedule", "program", 0, 0], 7, "schedule.program[0][0] is 7, not a string"),
    (["schedule", "program", 0, 0], "0F0junk", "schedule.program[0][0]: invalid instruction '0F0junk'"),
    (["schedule", "program", 0, 0], "0F" + "0" * 5000, f"schedule.program[0][0]: invalid instruction '0F{'0' * 38}...'"),
    (["schedule", "program", 0, 0], "0F0#1", "schedule.program[0][0] is '0F0#1', which has a buffer"),
    (["schedule", "program", 0, 4], "2RECV_F0", "schedule.program[0][4] is '2RECV_F0', which has no buffer among 2"),
    (["schedule", "program", 0, 0], "0F1", "schedule.actions[0] are not those of schedule.program[0]"),
    (["schedule", "actions", 1], None, "schedule.actions has 1 ranks, schedule.program 2"),
    (["schedule", "actions", 1, 0], "1WAIT_F0", "schedule.actions[1][0]: invalid action '1WAIT_F0': expected a stage"),
]


@pytest.mark.parametrize(("path", "value", "reason"), DAMAGES, ids=[reason[:60] for _, _, reason in DAMAGES])
def test_a_damaged_file_is_refused_with_its_reason(path: list[str | int], value: object, reason: str) -> None:
    data = document()
    part: Any = data
    for step in path[:-1]:
        part = part[step]
    if value is None:
        del part[path[-1]]
    else:
        part[path[-1]] = value
    with pytest.raises(ValueError, match=f"^{re.escape(reason)}"):
        program_from_json(data)
    with pytest.raises(ValueError, match=f"^{re.escape(reason)}"):
        program_from_json(json.dumps(data))


def test_a_plan_without_a_program_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^schedule is missing$"):
        program_from_json(PLAN.to_json())


def places_of(data: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:  # noqa: ANN401 -- JSON of any kind
    """Give the path of every value inside a value."""
    for step, each in data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ():
        yield (*path, step)
        yield from places_of(each, (*path, step))


PLACES = [*places_of(document()["schedule"])]
TEXTS = st.sampled_from(
    ("0F0", "1F0", "3B1", "9F0", "0SEND_F0", "3SEND_F0", "0RECV_F0#0", "1RECV_F1#1", "3WAIT_B0", "0REDUCE_GRAD", "0F9", "")
)


@given(st.sampled_from(PLACES), st.one_of(st.none(), st.booleans(), st.integers(-2, 4), TEXTS, st.just([]), st.just({})))
def test_a_file_with_any_other_value_anywhere_is_refused_or_judged(path: tuple[str | int, ...], value: object) -> None:
    data = document()
    before = copy.deepcopy(data)
    part = data["schedule"]
    for step in path[:-1]:
        part = part[step]
    part[path[-1]] = value
    try:
        program = program_from_json(data)
    except ValueError:
        assert json.dumps(data) != json.dumps(before)  # False equals 0, but is another value
    else:
        verify(program, queues=1, pairs=True)
