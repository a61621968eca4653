from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ppdsl import Plan, compile_layout, simulate
from ppdsl.costs import UNIT_COSTS
from ppdsl.schedules import NAMES, Durations, StuckError, default_name, find_obstacle, make_schedule, time_schedule, write_csv
from ppdsl.schedules.naming import make_named
from ppdsl.schedules.orders import interleaved
from tests.random_schedules import owner_lists, usual_owners

ONE_EACH = compile_layout("Et|t|tL", pp=3)
LOOP = compile_layout("Et|t|t|tL", pp=2)
VEE = compile_layout("Et|t|t|tL", pp=2, placement="v")
OWNERS = compile_layout("Et@0|t@1|t@1|t@0|tL@0", pp=2)


@pytest.mark.parametrize(("plan", "name"), [(ONE_EACH, "1f1b"), (LOOP, "interleaved_1f1b"), (VEE, "auto"), (OWNERS, "auto")])
def test_the_default_is_megatrons_order_where_the_placement_allows_it(plan: Plan, name: str) -> None:
    assert default_name(plan) == name
    assert make_schedule(plan, None, 4) == make_schedule(plan, name, 4)


@pytest.mark.parametrize(
    ("plan", "legal"),
    [
        (ONE_EACH, {"gpipe", "1f1b", "interleaved_1f1b", "zb_h1", "zb_h2", "auto"}),
        (LOOP, {"gpipe", "interleaved_1f1b", "auto"}),
        (VEE, {"gpipe", "zb_v", "auto"}),
        (OWNERS, {"gpipe", "auto"}),
    ],
)
def test_each_name_gives_a_schedule_where_it_is_legal_and_a_reason_elsewhere(plan: Plan, legal: set[str]) -> None:
    for name in NAMES:
        owners = tuple(chunk.pp_rank for chunk in plan.chunks)
        assert (find_obstacle(name, owners, plan.pp, 6) is None) == (name in legal)
        if name in legal:
            schedule = make_schedule(plan, name, 6)
            assert (schedule.name, schedule.owners, schedule.microbatches, schedule.pp) == (name, owners, 6, plan.pp)
        else:
            with pytest.raises(ValueError, match=f"^{name} needs "):
                make_schedule(plan, name, 6)


REASONS = [
    (LOOP, "1f1b", 4, None, "1f1b needs one stage on each rank"),
    (LOOP, "zb_h1", 4, None, "zb_h1 needs one stage on each rank"),
    (LOOP, "zb_h2", 4, None, "zb_h2 needs one stage on each rank"),
    (LOOP, "zb_v", 4, None, "zb_v needs the placement v with two chunks on each rank"),
    (VEE, "interleaved_1f1b", 4, None, "interleaved_1f1b needs the loop placement"),
    (
        LOOP,
        "interleaved_1f1b",
        1,
        None,
        "1 microbatch cannot be scheduled by interleaved_1f1b: 1 is less than the microbatch group of 2",
    ),
    (
        LOOP,
        None,
        3,
        None,
        "3 microbatches cannot be scheduled by interleaved_1f1b: 3 mod 2 = 1, which is neither 0 nor at least pp = 2",
    ),
    (
        LOOP,
        None,
        4,
        1,
        "4 microbatches cannot be scheduled by interleaved_1f1b: the microbatch group of 1 is smaller than pp = 2",
    ),
    (LOOP, "1F1B", 4, None, "unknown schedule '1F1B'; there are gpipe, 1f1b, interleaved_1f1b, zb_h1, zb_h2, zb_v, auto"),
    (
        LOOP,
        "x\n" * 50,
        4,
        None,
        "unknown schedule '" + r"x\n" * 20 + "'; there are gpipe, 1f1b, interleaved_1f1b, zb_h1, zb_h2, zb_v, auto",
    ),
    (LOOP, "gpipe", 0, None, "microbatches is '0', not an integer from 1"),
    (LOOP, "gpipe", True, None, "microbatches is 'True', not an integer from 1"),
    (LOOP, "gpipe", 2.0, None, "microbatches is '2.0', not an integer from 1"),
    (LOOP, "gpipe", 4, 0, "the microbatch group is '0', not an integer from 1"),
]


@pytest.mark.parametrize(("plan", "name", "microbatches", "group", "message"), REASONS)
def test_what_is_not_legal_is_refused_with_its_reason(
    plan: Plan, name: str | None, microbatches: int, group: int | None, message: str
) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        make_schedule(plan, name, microbatches, group=group)


@pytest.mark.parametrize("depth", [-1, True, 1.5])
def test_a_depth_below_0_is_refused(depth: int) -> None:
    message = f"^depth is '{depth}', not an integer from 0$"
    with pytest.raises(ValueError, match=message):
        make_schedule(LOOP, "gpipe", 4, depth=depth)
    with pytest.raises(ValueError, match=message):
        simulate(LOOP, make_schedule(LOOP, "gpipe", 4), UNIT_COSTS, depth=depth)


def test_the_group_is_that_of_the_interleaved_order() -> None:
    assert write_csv(make_schedule(LOOP, None, 3, group=3).ranks) == (
        "0F0,0F1,0F2,2F0,2F1,2F2,2B0,2B1,2B2,0B0,0B1,0B2\n1F0,1F1,1F2,3F0,3B0,3F1,3B1,3F2,3B2,1B0,1B1,1B2\n"
    )
    assert make_schedule(LOOP, "gpipe", 3, group=3) == make_schedule(LOOP, "gpipe", 3)


@given(st.one_of(owner_lists(), usual_owners()), st.integers(1, 12), st.integers(1, 12))
def test_what_is_legal_can_be_carried_out(owners: tuple[int, ...], microbatches: int, group: int) -> None:
    pp = max(owners) + 1
    for name in NAMES[:-1]:
        obstacle = find_obstacle(name, owners, pp, microbatches, group)
        if obstacle is None:
            schedule = make_named(name, owners, pp, microbatches, group)
            time_schedule(schedule, Durations.equal(len(owners), 1.0, 1.0, 1.0))
        else:
            with pytest.raises(ValueError, match=f"^{re.escape(obstacle)}$"):
                make_named(name, owners, pp, microbatches, group)


def test_microbatches_that_do_not_fit_their_groups_would_deadlock() -> None:
    owners = (0, 1, 2, 3) * 3
    assert find_obstacle("interleaved_1f1b", owners, 4, 5, 4) is not None
    with pytest.raises(StuckError):
        time_schedule(interleaved(owners, 4, 5, 4), Durations.equal(12, 1.0, 1.0, 1.0))
