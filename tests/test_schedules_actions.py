from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ppdsl.schedules.actions import KINDS, Action, Schedule, read_action, read_csv, read_schedule_csv, write_csv
from tests.random_schedules import random_schedules

actions = st.builds(Action, st.integers(0, 10**9 - 1), st.sampled_from(sorted(KINDS)), st.integers(0, 10**9 - 1))


@given(actions)
def test_an_action_reads_back_from_its_text(action: Action) -> None:
    assert read_action(str(action)) == action


@given(st.text("0123456789FBIW_ \n\u0664", max_size=6))
def test_what_reads_as_an_action_is_its_text(text: str) -> None:
    try:
        action = read_action(text)
    except ValueError:
        return
    assert str(action) == text


@pytest.mark.parametrize(
    "text", ["", "0F0junk", "00F0", "0F00", "0F", "F0", "-1F0", "0X0", "0f0", " 0F0", "0F0\n", "0SEND_F0", "1_0F0", "٣F0", "1F1000000000"]
)
def test_what_is_no_action_is_refused(text: str) -> None:
    message = f"invalid action {text!a}: expected a stage, one of F B I W, and a microbatch, such as 2F0"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        read_action(text)


def test_what_is_refused_is_told_in_one_short_line() -> None:
    message = f"line 1, cell 2: invalid action '{'9' * 40}...': expected a stage, one of F B I W, and a microbatch, such as 2F0"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        read_csv(f"0F0,{'9' * 1_000_000}\n")


@given(st.lists(st.lists(actions, max_size=5), max_size=4))
def test_ranks_read_back_from_their_csv(ranks: list[list[Action]]) -> None:
    assert read_csv(write_csv(ranks)) == tuple(map(tuple, ranks))


@given(random_schedules())
def test_a_schedule_reads_back_from_its_csv(schedule: Schedule) -> None:
    assert read_schedule_csv(write_csv(schedule.ranks), "random") == schedule


def test_a_csv_of_torch_has_idle_slots_and_carriage_returns() -> None:
    assert read_csv(",0F0,,0B0\r\n, 1F0 ,\t1I0,1W0,\r\n") == (
        (Action(0, "F", 0), Action(0, "B", 0)),
        (Action(1, "F", 0), Action(1, "I", 0), Action(1, "W", 0)),
    )


def test_a_rank_may_have_nothing_to_do() -> None:
    assert read_csv("0F0\n\n1F0") == ((Action(0, "F", 0),), (), (Action(1, "F", 0),))
    assert read_csv("") == ()
    assert read_csv("\n") == ((),)


def test_actions_that_torch_overlaps_are_done_in_turn() -> None:
    assert read_csv("(0F1;3B0)OVERLAP_F_B,0B0\n") == ((Action(0, "F", 1), Action(3, "B", 0), Action(0, "B", 0)),)


@pytest.mark.parametrize(
    ("text", "place", "cell"),
    [
        ("0F0\n1F0,00F0\n", "line 2, cell 2", "00F0"),
        ("0F0;1F0\n", "line 1, cell 1", "0F0;1F0"),
        ("(0F1;3X0)OVERLAP_F_B\n", "line 1, cell 1", "3X0"),
        ("(0F1)OVERLAP_F_B\n", "line 1, cell 1", "(0F1)OVERLAP_F_B"),
        ("0F0\x0c1F0\n", "line 1, cell 1", "0F0\x0c1F0"),
    ],
)
def test_faults_of_a_csv_say_where_they_are(text: str, place: str, cell: str) -> None:
    message = f"{place}: invalid action {cell!r}: expected a stage, one of F B I W, and a microbatch, such as 2F0"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        read_csv(text)


def test_a_stage_below_the_highest_must_have_an_action() -> None:
    with pytest.raises(ValueError, match=r"^stage 1 has no action$"):
        read_schedule_csv("0F0\n2F0\n")


@pytest.mark.parametrize(("text", "microbatch"), [("0F1,0B1\n", 0), ("0F0,0B0,0F999999999,0B999999999\n", 1), ("0F0\n1F2\n", 1)])
def test_a_microbatch_below_the_highest_must_have_an_action(text: str, microbatch: int) -> None:
    with pytest.raises(ValueError, match=rf"^microbatch {microbatch} has no action$"):
        read_schedule_csv(text)


def test_a_schedule_knows_its_stages() -> None:
    schedule = read_schedule_csv("0F0,3F0\n1F0,2F0\n")
    assert (schedule.name, schedule.owners, schedule.microbatches, schedule.pp, schedule.stages) == ("csv", (0, 1, 1, 0), 1, 2, 4)
    assert (schedule.stages_of(0), schedule.stages_of(1)) == ((0, 3), (1, 2))
