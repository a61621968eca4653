from __future__ import annotations

from dataclasses import replace

import pytest

from ppdsl.lowering import Instruction, Program, lower, read_instruction, read_program_csv
from ppdsl.proving import ProgramFault, Step, Verdict, verify
from ppdsl.schedules.orders import gpipe, one_forward_one_backward
from ppdsl.schedules.zero_bubble import zb_h1


def two_ranks() -> Program:
    """1F1B on two ranks with two microbatches."""
    return lower(one_forward_one_backward((0, 1), 2, 2))


def edit(program: Program, rank: int, change: str) -> Program:
    """Edit a rank's instructions: ``a b -> c d`` puts the second text in the place of the first, which is there once."""
    old, new = change.split("->")
    text = " ".join(map(str, program.ranks[rank])) + " "
    old, new = old.strip() + " ", new.strip() + " " * bool(new.strip())
    assert text.count(old) == 1
    instructions = tuple(map(read_instruction, text.replace(old, new).split()))
    return replace(program, ranks=(*program.ranks[:rank], instructions, *program.ranks[rank + 1 :]))


def test_the_program_that_the_edits_below_start_from() -> None:
    assert [" ".join(map(str, instructions)) for instructions in two_ranks().ranks] == [
        "0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0#0 0WAIT_B0 0RECV_B1#1 0B0 0WAIT_B1 0B1 0REDUCE_GRAD",
        "1RECV_F0#0 1WAIT_F0 1F0 1RECV_F1#1 1B0 1SEND_B0 1WAIT_F1 1F1 1B1 1SEND_B1 1REDUCE_GRAD",
    ]
    assert str(verify(two_ranks())) == "proved"


@pytest.mark.parametrize(
    ("rank", "change", "report"),
    [
        (0, "0F1 0SEND_F1 -> 0F1",
         ["unpaired: 1RECV_F1#1 from rank 0 to rank 1 has no other half",
          "deadlock: 0WAIT_B1 on rank 0 waits for 1WAIT_F1 on rank 1, which waits for 0SEND_F1 on rank 0, which never comes"]),
        (1, "1RECV_F1#1 ->",
         ["unready: 1WAIT_F1 on rank 1 comes before its receive",
          "unpaired: 0SEND_F1 from rank 0 to rank 1 has no other half",
          "deadlock: 0WAIT_B1 on rank 0 waits for 1WAIT_F1 on rank 1, which waits for 1RECV_F1 on rank 1, which never comes"]),
        (1, "1WAIT_F0 ->",
         ["unready: 1F0 on rank 1 comes before the wait for its input"]),
        (0, "0WAIT_B1 ->",
         ["unready: 0B1 on rank 0 comes before the wait for its input"]),
        (0, "0F1 ->",
         ["missing: 0F1 is never done",
          "unready: 0SEND_F1 on rank 0 comes before what it sends",
          "unready: 0B1 on rank 0 comes before its forward"]),
        (1, "1B1 ->",
         ["missing: 1B1 is never done",
          "unready: 1SEND_B1 on rank 1 comes before what it sends",
          "unready: 1REDUCE_GRAD on rank 1 comes before the last backward of its stage"]),
        (0, "0REDUCE_GRAD ->",
         ["missing: 0REDUCE_GRAD is never done"]),
        (0, "0REDUCE_GRAD -> 0REDUCE_GRAD 0REDUCE_GRAD",
         ["repeated: 0REDUCE_GRAD on rank 0 is done twice"]),
        (0, "0F1 -> 0F1 0F1",
         ["repeated: 0F1 on rank 0 is done twice"]),
        (0, "0B1 -> 0B1 0B1",
         ["repeated: 0B1 on rank 0 is done twice"]),
        (0, "0B1 -> 0I1 0W1 0W1",
         ["repeated: 0W1 on rank 0 is done twice"]),
        (0, "0B1 -> 0B1 0W1",
         ["repeated: 0W1 on rank 0 is done twice"]),
        (0, "0B1 -> 0I1 0B1",
         ["missing: 0I1 is done, 0W1 never",
          "repeated: 0B1 on rank 0 is done twice",
          "unready: 0REDUCE_GRAD on rank 0 comes before the last backward of its stage"]),
        (0, "0B1 -> 0I1",
         ["missing: 0I1 is done, 0W1 never",
          "unready: 0REDUCE_GRAD on rank 0 comes before the last backward of its stage"]),
        (0, "0B1 -> 0W1",
         ["missing: 0W1 is done, 0I1 never",
          "unready: 0W1 on rank 0 comes before its input gradient"]),
        (0, "0WAIT_B1 -> 0WAIT_B1 0WAIT_B1",
         ["repeated: 0WAIT_B1 on rank 0 is done twice"]),
        (1, "1WAIT_F1 -> 1WAIT_F1 1WAIT_F1",
         ["repeated: 1WAIT_F1 on rank 1 is done twice"]),
        (1, "1F1 1B1 -> 1B1 1F1",
         ["unready: 1B1 on rank 1 comes before its forward"]),
        (0, "0SEND_F1 -> 0SEND_F1 0SEND_F1",
         ["unpaired: 0SEND_F1 from rank 0 to rank 1 has no other half",
          "deadlock: 0SEND_F1 on rank 0 has no other half"]),
        (1, "1RECV_F1#1 -> 1RECV_F1#1 1RECV_F1#1",
         ["repeated: 1RECV_F1#1 on rank 1 is posted twice",
          "unpaired: 1RECV_F1#1 from rank 0 to rank 1 has no other half",
          "deadlock: 1RECV_F1#1 on rank 1 has no other half"]),
        (0, "0RECV_B1#1 -> 0RECV_B1#1 0RECV_B1#1",
         ["repeated: 0RECV_B1#1 on rank 0 is posted twice",
          "unpaired: 0RECV_B1#1 from rank 1 to rank 0 has no other half",
          "deadlock: 0RECV_B1#1 on rank 0 has no other half"]),
        (1, "1RECV_F1#1 -> 1RECV_F1#0",
         ["buffer: 1RECV_F1#0 on rank 1 overwrites a buffer that is in use"]),
        (1, "1RECV_F1#1 -> 1RECV_F1#2",
         ["buffer: 1RECV_F1#2 on rank 1 has no buffer among 2"]),
        (1, "1RECV_F1#1 -> 1RECV_F1",
         ["buffer: 1RECV_F1 on rank 1 has no buffer among 2"]),
        (0, "0RECV_B1#1 -> 0RECV_B1#0",
         ["buffer: 0RECV_B1#0 on rank 0 overwrites a buffer that is in use"]),
        (0, "0F0 -> 1F0",
         ["missing: 0F0 is never done",
          "misplaced: 1F0 on rank 0 belongs on rank 1",
          "unready: 0SEND_F0 on rank 0 comes before what it sends",
          "unready: 0B0 on rank 0 comes before its forward"]),
        (0, "0F0 -> 2F0",
         ["missing: 0F0 is never done",
          "misplaced: 2F0 on rank 0 has no stage among 2",
          "unready: 0SEND_F0 on rank 0 comes before what it sends",
          "unready: 0B0 on rank 0 comes before its forward"]),
        (0, "0F0 -> 0F2",
         ["missing: 0F0 is never done",
          "misplaced: 0F2 on rank 0 has no microbatch among 2",
          "unready: 0SEND_F0 on rank 0 comes before what it sends",
          "unready: 0B0 on rank 0 comes before its forward"]),
        (0, "0F0 -> 0SEND_B0",
         ["missing: 0F0 is never done",
          "misplaced: 0SEND_B0 on rank 0 has no peer",
          "unready: 0SEND_F0 on rank 0 comes before what it sends",
          "unready: 0B0 on rank 0 comes before its forward"]),
        (0, "0F0 -> 0RECV_F0#0",
         ["missing: 0F0 is never done",
          "misplaced: 0RECV_F0#0 on rank 0 has no peer",
          "unready: 0SEND_F0 on rank 0 comes before what it sends",
          "unready: 0B0 on rank 0 comes before its forward"]),
        (0, "0F0 -> 0WAIT_F0",
         ["missing: 0F0 is never done",
          "misplaced: 0WAIT_F0 on rank 0 has no peer",
          "unready: 0SEND_F0 on rank 0 comes before what it sends",
          "unready: 0B0 on rank 0 comes before its forward"]),
        (1, "1F0 -> 1SEND_F0",
         ["missing: 1F0 is never done",
          "misplaced: 1SEND_F0 on rank 1 has no peer",
          "unready: 1B0 on rank 1 comes before its forward"]),
        (1, "1F0 -> 1RECV_B0#0",
         ["missing: 1F0 is never done",
          "misplaced: 1RECV_B0#0 on rank 1 has no peer",
          "unready: 1B0 on rank 1 comes before its forward"]),
        (1, "1F0 -> 1WAIT_B0",
         ["missing: 1F0 is never done",
          "misplaced: 1WAIT_B0 on rank 1 has no peer",
          "unready: 1B0 on rank 1 comes before its forward"]),
        (0, "0F1 0SEND_F1 -> 0SEND_F1 0F1",
         ["unready: 0SEND_F1 on rank 0 comes before what it sends"]),
        (1, "1B0 1SEND_B0 -> 1SEND_B0 1B0",
         ["unready: 1SEND_B0 on rank 1 comes before what it sends"]),
        (1, "1RECV_F0#0 1WAIT_F0 -> 1WAIT_F0 1RECV_F0#0",
         ["unready: 1WAIT_F0 on rank 1 comes before its receive",
          "deadlock: 0WAIT_B0 on rank 0 waits for 1WAIT_F0 on rank 1, which waits for 1RECV_F0, which comes behind it"]),
    ],
)  # fmt: skip
def test_a_fault_is_said_in_full(rank: int, change: str, report: list[str]) -> None:
    assert str(verify(edit(two_ranks(), rank, change))).splitlines() == report


def test_swapped_receives_are_found() -> None:
    program = edit(two_ranks(), 0, "0RECV_B0#0 0WAIT_B0 0RECV_B1#1 -> 0RECV_B1#1 0RECV_B0#0 0WAIT_B0")
    verdict = verify(program)
    assert str(verdict) == (
        "unpaired: message 0 from rank 1 to rank 0 is sent as 1SEND_B0 and received as 0RECV_B1#1\n"
        "deadlock: 0RECV_B1#1 on rank 0 waits for 1SEND_B0 on rank 1, which waits for 0RECV_B1#1 on rank 0"
    )
    assert verdict.faults == (
        ProgramFault(
            "unpaired",
            "message 0 from rank 1 to rank 0 is sent as 1SEND_B0 and received as 0RECV_B1#1",
            (Step(1, 5, Instruction(1, "SEND_B", 0)), Step(0, 4, Instruction(0, "RECV_B", 1, 1))),
        ),
        ProgramFault(
            "deadlock",
            "0RECV_B1#1 on rank 0 waits for 1SEND_B0 on rank 1, which waits for 0RECV_B1#1 on rank 0",
            (Step(0, 4, Instruction(0, "RECV_B", 1, 1)), Step(1, 5, Instruction(1, "SEND_B", 0))),
        ),
    )
    assert not verdict.proved


@pytest.mark.parametrize(
    ("text", "report"),
    [
        ("1F0,0F0,1B0,0B0\n", "unready: 1F0 on rank 0 comes before the forward of the stage before"),
        ("0F0,1F0,0B0,1B0\n", "unready: 0B0 on rank 0 comes before the backward of the stage behind"),
        ("0F0,1F0,0I0,1B0,0W0\n", "unready: 0I0 on rank 0 comes before the backward of the stage behind"),
    ],
)  # fmt: skip
def test_inputs_from_the_rank_itself_must_be_made_before(text: str, report: str) -> None:
    assert str(verify(read_program_csv(text))) == report


def test_the_stated_limits_are_held() -> None:
    program = lower(gpipe((0, 1), 2, 3))
    assert (program.in_flight, program.send_slots, program.forward_slots) == ((3, 3), (1, 1), (0, 3))
    assert str(verify(replace(program, in_flight=(2, 3)))) == "limit: 0F2 on rank 0 is number 3 in flight, the limit is 2"
    assert str(verify(replace(program, send_slots=(1, 0)))) == "\n".join(
        f"limit: 1B{batch} on rank 1 makes output number 1 that waits to be sent, the limit is 0" for batch in range(3)
    )
    assert str(verify(replace(program, forward_slots=(0, 2)))) == "buffer: 1RECV_F2#2 on rank 1 has no buffer among 2"
    assert str(verify(replace(program, in_flight=(9, 9), send_slots=(9, 9), forward_slots=(9, 9), backward_slots=(9, 9)))) == "proved"


def test_an_activation_is_held_until_its_weight_gradient_is_done() -> None:
    program = lower(zb_h1((0, 1), 2, 3), depth=0)
    text = " ".join(map(str, program.ranks[1]))
    assert "1I0 1SEND_B0 1RECV_F1#1" in text
    assert str(verify(edit(program, 1, "1RECV_F1#1 -> 1RECV_F1#0"))) == (
        "buffer: 1RECV_F1#0 on rank 1 overwrites a buffer that is in use\nbuffer: 1RECV_F2#0 on rank 1 overwrites a buffer that is in use"
    )


def test_what_is_no_instruction_is_misplaced() -> None:
    program = lower(gpipe((0,), 1, 1))
    for row, report in (
        (Instruction(0, "X", 0), "misplaced: 0X0 on rank 0 is no instruction"),
        (Instruction(0, "REDUCE_GRAD", 0), "misplaced: 0REDUCE_GRAD0 on rank 0 is no instruction"),
        (Instruction(0, "F", -1), "misplaced: 0F on rank 0 has no microbatch among 1"),
        (Instruction(-1, "F", 0), "misplaced: -1F0 on rank 0 has no stage among 1"),
        (Instruction(1, "REDUCE_GRAD", -1), "misplaced: 1REDUCE_GRAD on rank 0 has no stage among 1"),
    ):
        assert str(verify(replace(program, ranks=((*program.ranks[0], row),)))) == report


def test_a_rank_that_does_nothing_leaves_everything_missing() -> None:
    program = two_ranks()
    report = str(verify(replace(program, ranks=(program.ranks[0], ()))))
    assert report.splitlines() == [
        *(f"missing: 1{kind}{batch} is never done" for batch in (0, 1) for kind in "FB"),
        "missing: 1REDUCE_GRAD is never done",
        "unpaired: 0SEND_F0 from rank 0 to rank 1 has no other half",
        "unpaired: 0RECV_B0#0 from rank 1 to rank 0 has no other half",
        "deadlock: 0WAIT_B0 on rank 0 waits for 1SEND_B0 on rank 1, which never comes",
    ]


def test_no_more_than_twenty_faults_of_a_kind_are_given() -> None:
    program = lower(gpipe((0,), 1, 30))
    faults = verify(replace(program, ranks=((),), in_flight=(0,))).faults
    assert [fault.kind for fault in faults] == ["missing"] * 20
    faults = verify(replace(program, in_flight=(0,))).faults
    assert [fault.kind for fault in faults] == ["limit"] * 20


def test_two_queues_may_be_enough_where_one_is_not() -> None:
    text = "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1\n"
    program = read_program_csv(text)
    assert str(verify(program, queues=1)) == "deadlock: 0SEND_F1 on rank 0 waits for 1SEND_B0 on rank 1, which waits for 0SEND_F1 on rank 0"
    assert verify(program, queues=2) == Verdict((), 2)
    assert verify(program, pairs=True).faults == verify(program, queues=1).faults
    assert verify(program) == Verdict((), None, pairs=False)


def test_channels_share_queues_in_turn() -> None:
    """Rank 1 of three has four channels; over three queues, its two receives share one, the first and the last."""
    text = "0F0,0SEND_F0,0RECV_B0,0B0\n1RECV_B0,1RECV_F0,1F0,1SEND_F0,1B0,1SEND_B0\n2RECV_F0,2F0,2B0,2SEND_B0\n"
    program = read_program_csv(text)
    assert [verify(program, queues=queues).proved for queues in (1, 2, 3, 4, None)] == [False, True, False, True, True]
    assert str(verify(program, queues=3)) == (
        "deadlock: 1RECV_B0#0 on rank 1 waits for 2WAIT_F0 on rank 2, which waits for 1WAIT_F0 on rank 1, "
        "which waits for 1RECV_B0#0 on rank 1"
    )
