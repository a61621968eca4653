from __future__ import annotations

import re

import pytest

from ppdsl.lowering import Program, lower, read_program_csv, write_program_csv
from ppdsl.proving import verify
from ppdsl.schedules.orders import one_forward_one_backward
from ppdsl.schedules.zero_bubble import zb_v
from tests.schedule_cases import vee


def lines(program: Program) -> list[str]:
    """The text of each rank's instructions."""
    return [" ".join(map(str, instructions)) for instructions in program.ranks]


def test_a_program_is_written_as_torch_writes_it() -> None:
    assert write_program_csv(lower(one_forward_one_backward((0, 1), 2, 2))) == (
        "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0RECV_B1,0B0,0B1,0REDUCE_GRAD\n"
        "1RECV_F0,1F0,1RECV_F1,1B0,1SEND_B0,1F1,1B1,1SEND_B1,1REDUCE_GRAD\n"
    )


def test_a_csv_gets_waits_buffers_and_reductions() -> None:
    text = (
        "0UNSHARD,0F0,0SEND_F0,,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1,0RESHARD\r\n"
        "1UNSHARD,1RECV_F0,1RECV_F1,1F0,1I0,1SEND_B0,1F1,1W0,1B1,1SEND_B1,1RESHARD\r\n"
    )
    program = read_program_csv(text)
    assert lines(program) == [
        "0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0#0 0WAIT_B0 0B0 0RECV_B1#0 0WAIT_B1 0B1 0REDUCE_GRAD",
        "1RECV_F0#0 1RECV_F1#1 1WAIT_F0 1F0 1I0 1SEND_B0 1WAIT_F1 1F1 1W0 1B1 1SEND_B1 1REDUCE_GRAD",
    ]
    assert (program.schedule, program.owners, program.microbatches, program.depth) == ("csv", (0, 1), 2, 2)
    assert (program.forward_slots, program.backward_slots, program.in_flight, program.send_slots) == ((0, 2), (1, 0), (2, 1), (1, 1))
    assert str(verify(program)) == "proved"


def test_reductions_that_are_there_are_kept_where_they_are() -> None:
    program = read_program_csv("0F0,0F1,0B0,0REDUCE_GRAD,0B1\n")
    assert lines(program) == ["0F0 0F1 0B0 0REDUCE_GRAD 0B1"]
    assert str(verify(program)) == (
        "unready: 0REDUCE_GRAD on rank 0 comes before the last backward of its stage\n"
        "unready: 0B1 on rank 0 comes behind the reduction of its stage's gradients"
    )


def test_actions_that_overlap_are_done_in_turn() -> None:
    assert lines(read_program_csv("0F0,0F1,(0B0;0B1)OVERLAP_F_B\n")) == ["0F0 0F1 0B0 0B1 0REDUCE_GRAD"]


def test_neighbours_on_one_rank_need_no_wait() -> None:
    text = write_program_csv(lower(zb_v(vee(2), 2, 3)))
    assert "2WAIT_F" not in "".join(lines(read_program_csv(text)))


def test_owners_may_be_given() -> None:
    text = "0F0,0B0\n1F0,1B0\n"
    assert read_program_csv(text, (1, 0)).owners == (1, 0)
    assert "misplaced: 0F0 on rank 0 belongs on rank 1" in str(verify(read_program_csv(text, (1, 0)))).splitlines()


@pytest.mark.parametrize(
    ("text", "owners", "message"),
    [
        ("0F0\n1F0,0F0junk\n", None, "line 2, cell 2: invalid instruction '0F0junk'"),
        ("00F0\n", None, "line 1, cell 1: invalid instruction '00F0'"),
        ("0WAIT_F0\n", None, "line 1, cell 1: invalid instruction '0WAIT_F0': a schedule CSV has no waits and no buffers"),
        ("0RECV_F0#1\n", None, "line 1, cell 1: invalid instruction '0RECV_F0#1': a schedule CSV has no waits and no buffers"),
        ("0UNSHARD1\n", None, "line 1, cell 1: invalid instruction '0UNSHARD1'"),
        ("0F0,2F0\n", None, "stage 1 has no action"),
        ("0F0,1SEND_B0\n", None, "stage 1 has no owner"),
        ("0F0,1F0\n", (0,), "stage 1 has no owner"),
        ("0F0\n", (1,), "stage 0 belongs on rank 1, which has no line"),
    ],
)
def test_faults_of_a_csv_are_named(text: str, owners: tuple[int, ...] | None, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        read_program_csv(text, owners)


def test_an_empty_csv_is_a_program_of_nothing() -> None:
    program = read_program_csv("")
    assert (program.ranks, program.owners, program.microbatches, program.depth) == ((), (), 0, 0)
    assert str(verify(program)) == "proved"
