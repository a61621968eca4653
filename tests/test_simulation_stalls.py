"""Which chunk keeps which waiting: the waits that a report counts, shared out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given

from ppdsl import compile_layout
from ppdsl.schedules import make_schedule
from ppdsl.schedules.timing import Durations, time_schedule
from ppdsl.simulation import simulate
from ppdsl.simulation.stalls import Stall, list_stalls
from tests.random_schedules import random_schedules
from tests.suggest_cases import weigh

if TYPE_CHECKING:
    from ppdsl.schedules.actions import Schedule


def test_a_heavy_last_stage_keeps_all_others_waiting() -> None:
    plan = compile_layout("Et|t|t|L", pp=4)
    schedule = make_schedule(plan, "1f1b", 8)
    report = simulate(plan, schedule, weigh(E=0.1, t=1.0, L=3.0))
    stalls = list_stalls(schedule, report.timing)
    assert {(stall.stage, stall.source) for stall in stalls} >= {(0, 1), (1, 2), (2, 3)}
    assert stalls[0]._replace(time=30.0) == Stall(2, 2, 3, 3, 30.0, 5)
    assert stalls[0].to_json() == {
        "stage": 2,
        "rank": 2,
        "source_stage": 3,
        "source_rank": 3,
        "time_ms": pytest.approx(30.0),
        "waits": 5,
    }


def test_equal_stages_keep_nobody_waiting() -> None:
    plan = compile_layout("Et|tL", pp=2)
    schedule = make_schedule(plan, "gpipe", 3)
    assert list_stalls(schedule, simulate(plan, schedule, weigh(t=1.0)).timing) == ()


@given(random_schedules())
def test_the_waits_add_up_to_imbalance_and_p2p(schedule: Schedule) -> None:
    from ppdsl.simulation.idling import split_idle_time  # noqa: PLC0415 -- the other way to count
    from ppdsl.simulation.producers import Producers  # noqa: PLC0415 -- the same

    durations = Durations.equal(schedule.stages, 1.0, 2.0, 1.0, 0.25)
    timing = time_schedule(schedule, durations)
    idle = split_idle_time(schedule, timing, durations, Producers(schedule, timing))
    for rank, parts in enumerate(idle):
        waits = sum(stall.time for stall in list_stalls(schedule, timing) if stall.rank == rank)
        expected = parts.imbalance + parts.p2p if schedule.ranks[rank] else 0.0
        assert waits == pytest.approx(expected)
