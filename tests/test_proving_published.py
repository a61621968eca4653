"""Verdicts on action lists that others published, and on the naive ways to add communication to a schedule."""

from __future__ import annotations

from pathlib import Path

import pytest

from ppdsl.lowering import Instruction, lower, read_program_csv, write_program_csv
from ppdsl.lowering.program import COMPUTE
from ppdsl.proving import Step, verify
from ppdsl.schedules.orders import interleaved, one_forward_one_backward
from tests.schedule_cases import loop, write_naively

PUBLISHED = Path(__file__).parent / "corpus" / "schedules"


def read(name: str) -> str:
    """Read a published list."""
    return (PUBLISHED / f"{name}.csv").read_text(encoding="utf-8")


def test_every_published_list_has_a_verdict_here() -> None:
    names = {path.stem for path in PUBLISHED.glob("*.csv")}
    assert names == {"pytorch_172668_as_lowered", "pytorch_172833_deferred", "pytorch_172668_swapped"}


def test_the_list_that_torch_makes_is_proved() -> None:
    program = read_program_csv(read("pytorch_172668_as_lowered"))
    assert (program.owners, program.microbatches) == ((0, 1, 0, 1), 2)
    for queues in (None, 1):
        assert str(verify(program, queues=queues, pairs=True)) == "proved"


@pytest.mark.parametrize("channels", [{"pairs": True}, {"queues": 1}])
def test_the_pair_of_lists_that_hung_is_found_to_deadlock(channels: dict[str, int]) -> None:
    text = read("pytorch_172833_deferred")
    assert "0SEND_F1,2RECV_F0,2F0" in text.splitlines()[0]
    assert "1SEND_F0,1RECV_F1,1F1" in text.splitlines()[1]
    verdict = verify(read_program_csv(text), **channels)  # type: ignore[arg-type]  # one of two keywords
    assert str(verdict) == "deadlock: 0SEND_F1 on rank 0 waits for 1SEND_F0 on rank 1, which waits for 0SEND_F1 on rank 0"
    assert verdict.faults[0].steps == (Step(0, 3, Instruction(0, "SEND_F", 1)), Step(1, 3, Instruction(1, "SEND_F", 0)))


def test_its_second_form_is_found_to_deadlock_where_it_hung() -> None:
    text = read("pytorch_172668_swapped")
    assert "2SEND_F1,0F2,0SEND_F2,2RECV_B0,2B0" in text.splitlines()[0]
    assert "3RECV_F1,3SEND_B0,3F1,3B1,1RECV_F2,3SEND_B1,1F2" in text.splitlines()[1]
    assert str(verify(read_program_csv(text), pairs=True)) == (
        "deadlock: 0SEND_F2 on rank 0 waits for 3SEND_B0 on rank 1, which waits for 0SEND_F2 on rank 0"
    )


@pytest.mark.parametrize("name", ["pytorch_172833_deferred", "pytorch_172668_swapped"])
def test_both_forms_pass_with_a_channel_for_each_direction(name: str) -> None:
    assert str(verify(read_program_csv(read(name)))) == "proved"


def test_cyclic_sends_with_two_ranks_and_two_chunks_are_found() -> None:
    program = read_program_csv(write_naively(interleaved(loop(2, 2), 2, 4, 2)))
    assert str(verify(program, pairs=True)) == (
        "deadlock: 0SEND_F1 on rank 0 waits for 1SEND_F0 on rank 1, which waits for 0SEND_F1 on rank 0"
    )


@pytest.mark.parametrize("pp", [2, 3, 4, 8])
def test_receives_posted_two_ahead_deadlock_over_one_queue_only(pp: int) -> None:
    program = read_program_csv(write_naively(one_forward_one_backward(loop(pp), pp, 2 * pp), ahead=2))
    assert program.depth == 2
    assert str(verify(program)) == "proved"
    assert [fault.kind for fault in verify(program, queues=1).faults] == ["deadlock"]


def test_the_cycle_of_receives_posted_two_ahead_is_named() -> None:
    program = read_program_csv(write_naively(one_forward_one_backward(loop(2), 2, 4), ahead=2))
    assert str(verify(program, queues=1)) == (
        "deadlock: 0RECV_B0#0 on rank 0 waits for 1WAIT_F0 on rank 1, which waits for 0RECV_B0#0 on rank 0"
    )


def move_receives_up(text: str, actions: int) -> str:
    """Move each receive before so many more actions than stand before its use, but not before another receive."""
    lines = []
    for line in text.splitlines():
        cells: list[str] = []
        for cell in line.split(","):
            at, passed = len(cells), 0
            while "RECV" in cell and at and passed < actions and "RECV" not in cells[at - 1]:
                at -= 1
                passed += cells[at].lstrip("0123456789")[0] in COMPUTE
            cells.insert(at, cell)
        lines.append(",".join(cells) + "\n")
    return "".join(lines)


@pytest.mark.parametrize("pp", [2, 3, 4])
def test_receives_moved_up_by_hand_to_two_ahead_deadlock_over_one_queue_only(pp: int) -> None:
    """One ahead is proved over one queue; the same program with each receive an action earlier is not."""
    text = write_program_csv(lower(one_forward_one_backward(loop(pp), pp, 2 * pp), depth=1))
    assert str(verify(read_program_csv(text), queues=1)) == "proved"
    moved = read_program_csv(move_receives_up(text, 1))
    assert moved.depth == 2
    assert str(verify(moved)) == "proved"
    assert [fault.kind for fault in verify(moved, queues=1).faults] == ["deadlock"]


@pytest.mark.parametrize("pp", [2, 3, 4])
def test_a_depth_of_two_is_proved_over_one_queue_when_all_transfers_have_one_order(pp: int) -> None:
    program = lower(one_forward_one_backward(loop(pp), pp, 2 * pp), depth=2)
    assert str(verify(program, queues=1)) == "proved"
