from __future__ import annotations

import gc
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ppdsl.lowering import Instruction, Program, lower, read_instruction
from ppdsl.schedules.actions import Schedule, read_schedule_csv
from ppdsl.schedules.memory import count_in_flight
from ppdsl.schedules.orders import gpipe, interleaved, one_forward_one_backward
from ppdsl.schedules.timing import StuckError
from ppdsl.schedules.zero_bubble import zb_v
from tests.schedule_cases import loop, vee

NUMBERS = st.integers(0, 10**9 - 1)
NO_SLOT = st.just(-1)
KINDS = [
    st.builds(Instruction, NUMBERS, st.sampled_from(["F", "B", "I", "W", "SEND_F", "SEND_B", "WAIT_F", "WAIT_B"]), NUMBERS, NO_SLOT),
    st.builds(Instruction, NUMBERS, st.sampled_from(["RECV_F", "RECV_B"]), NUMBERS, NUMBERS),
    st.builds(Instruction, NUMBERS, st.just("REDUCE_GRAD"), NO_SLOT, NO_SLOT),
]


@given(st.one_of(*KINDS))
def test_an_instruction_reads_back_from_its_text(instruction: Instruction) -> None:
    assert read_instruction(str(instruction)) == instruction


@given(st.text("0123FBSEND_RCVREDUCE_GRAD#", max_size=14))
def test_what_reads_as_an_instruction_is_its_text(text: str) -> None:
    try:
        instruction = read_instruction(text)
    except ValueError:
        return
    assert str(instruction) == text


@pytest.mark.parametrize("text", ["", "0F0junk", "00F0", "0RECV_F0#", "0RECV_F0#01", "0REDUCE_GRAD0", "REDUCE_GRAD", "0UNSHARD", "0F0 "])
def test_what_is_no_instruction_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=f"^invalid instruction {re.escape(repr(text))}$"):
        read_instruction(text)


def lines(program: Program) -> list[str]:
    """The text of each rank's instructions."""
    return [" ".join(map(str, instructions)) for instructions in program.ranks]


def test_a_program_is_written_out_in_full() -> None:
    program = lower(one_forward_one_backward(loop(2), 2, 2))
    assert lines(program) == [
        "0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0#0 0WAIT_B0 0RECV_B1#1 0B0 0WAIT_B1 0B1 0REDUCE_GRAD",
        "1RECV_F0#0 1WAIT_F0 1F0 1RECV_F1#1 1B0 1SEND_B0 1WAIT_F1 1F1 1B1 1SEND_B1 1REDUCE_GRAD",
    ]
    assert (program.schedule, program.owners, program.microbatches, program.depth, program.pp) == ("1f1b", (0, 1), 2, 1, 2)
    assert (program.forward_slots, program.backward_slots, program.in_flight, program.send_slots) == ((0, 2), (2, 0), (2, 1), (1, 1))


def test_receives_right_before_their_use() -> None:
    program = lower(one_forward_one_backward(loop(2), 2, 2), depth=0)
    assert lines(program) == [
        "0F0 0SEND_F0 0F1 0RECV_B0#0 0SEND_F1 0WAIT_B0 0B0 0RECV_B1#0 0WAIT_B1 0B1 0REDUCE_GRAD",
        "1RECV_F0#0 1WAIT_F0 1F0 1B0 1SEND_B0 1RECV_F1#0 1WAIT_F1 1F1 1B1 1SEND_B1 1REDUCE_GRAD",
    ]
    assert (program.forward_slots, program.backward_slots, program.send_slots) == ((0, 1), (1, 0), (1, 1))


def test_neighbours_on_one_rank_hand_over_without_a_message() -> None:
    program = lower(zb_v(vee(2), 2, 1))
    assert lines(program) == [
        "0F0 0SEND_F0 3RECV_F0#0 3WAIT_F0 3F0 3I0 3SEND_B0 0RECV_B0#0 3W0 3REDUCE_GRAD 0WAIT_B0 0I0 0W0 0REDUCE_GRAD",
        "1RECV_F0#0 1WAIT_F0 1F0 2F0 2SEND_F0 2RECV_B0#0 2WAIT_B0 2I0 2W0 2REDUCE_GRAD 1I0 1SEND_B0 1W0 1REDUCE_GRAD",
    ]


def test_a_channel_carries_messages_as_the_receiver_uses_them() -> None:
    schedule = read_schedule_csv("0F0,0F1,0B1,0B0\n1F1,1B1,1F0,1B0\n")
    program = lower(schedule)
    assert lines(program)[0] == "0F0 0F1 0SEND_F1 0SEND_F0 0RECV_B1#0 0WAIT_B1 0RECV_B0#1 0B1 0WAIT_B0 0B0 0REDUCE_GRAD"
    assert program.send_slots == (2, 1)


def test_one_rank_sends_nothing() -> None:
    program = lower(gpipe((0, 0), 1, 1))
    assert lines(program) == ["0F0 1F0 1B0 1REDUCE_GRAD 0B0 0REDUCE_GRAD"]
    assert (program.channels(), program.send_slots) == ((), (0,))


def test_a_rank_may_own_no_stage() -> None:
    program = lower(gpipe((0, 2), 3, 1))
    assert lines(program)[1] == ""
    assert program.channels() == ((0, 2), (2, 0))


def test_channels_are_the_pairs_of_neighbouring_stages_in_both_directions() -> None:
    assert lower(interleaved(loop(3, 2), 3, 3, 3)).channels() == ((0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1))
    program = lower(one_forward_one_backward(loop(3), 3, 1))
    assert program.channels() == ((0, 1), (1, 0), (1, 2), (2, 1))
    assert [program.peer(read_instruction(text)) for text in ("1SEND_F0", "1RECV_F0#0", "1SEND_B0", "1RECV_B0#0")] == [2, 0, 0, 2]


def test_a_schedule_that_deadlocks_by_itself_has_no_program() -> None:
    message = (
        "deadlock: rank 0 at 8F4 waits for 7F4; rank 1 at 9F4 waits for 8F4; rank 2 at 10F4 waits for 9F4; rank 3 at 7B0 waits for 8B0"
    )
    with pytest.raises(StuckError, match=f"^{re.escape(message)}$"):
        lower(interleaved(loop(4, 3), 4, 5, 4))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0B0,0F0\n1F0,1B0\n", "deadlock: rank 0 at 0B0 waits for 1B0; rank 1 at 1F0 waits for 0F0"),
        ("0F0,0W0,0I0\n1F0,1B0\n", "deadlock: rank 0 at 0W0 waits for 0I0"),
        ("0F0,0B0\n1F0\n", "deadlock: rank 0 at 0B0 waits for 1B0"),
        ("1F0,0F0,1B0,0B0\n", "deadlock: rank 0 at 1F0 waits for 0F0"),
    ],
)
def test_what_a_stuck_rank_waits_for_is_named(text: str, message: str) -> None:
    with pytest.raises(StuckError, match=f"^{re.escape(message)}$") as raised:
        lower(read_schedule_csv(text))
    assert str(raised.value) == message


@pytest.mark.parametrize("depth", [-1, True, 1.5])
def test_receives_are_not_posted_behind_their_use(depth: int) -> None:
    with pytest.raises(ValueError, match=f"^depth is '{depth}', not an integer from 0$"):
        lower(gpipe((0, 1), 2, 2), depth)


def test_lowering_leaves_the_garbage_collector_as_it_was() -> None:
    schedule = gpipe((0,), 1, 1)
    assert gc.isenabled()
    lower(schedule)
    assert gc.isenabled()
    gc.disable()
    try:
        lower(schedule)
        assert not gc.isenabled()
    finally:
        gc.enable()
    with pytest.raises(StuckError):
        lower(read_schedule_csv("0B0,0F0\n"))
    assert gc.isenabled()


def test_a_schedule_of_nothing_has_a_program_of_nothing() -> None:
    assert lower(Schedule("nothing", (), 0, ((), ()))).ranks == ((), ())
    assert lower(Schedule("nothing", (0, 1), 0, ((), ()))).ranks == ((), ())


def test_peaks_count_forwards_without_a_backward_of_any_kind() -> None:
    assert count_in_flight(read_schedule_csv("0F0,0F1,0I0,0F2,0W0,0B1,0B2\n")) == (2,)
