"""The named orders against those of megatron-core and torch, action for action, and verdicts on what torch lowers."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest

from ppdsl.lowering import lower, read_program_csv, write_program_csv
from ppdsl.proving import verify
from ppdsl.schedules.actions import read_csv, read_schedule_csv, write_csv
from ppdsl.schedules.orders import gpipe, interleaved, one_forward_one_backward
from ppdsl.schedules.zero_bubble import zb_v
from tests.schedule_cases import groups, loop, named_schedules, vee

if TYPE_CHECKING:
    from collections.abc import Callable

    from ppdsl.schedules.actions import Schedule

pytestmark = pytest.mark.peer

if sys.version_info < (3, 11):
    pytest.skip("megatron-core needs Python 3.11", allow_module_level=True)


class Group:
    """What Megatron-LM asks a process group."""

    def __init__(self, size: int, rank: int) -> None:
        self._size = size
        self._rank = rank

    def size(self) -> int:
        return self._size

    def rank(self) -> int:
        return self._rank


class Communicator:
    """What Megatron-LM asks its communicator when it counts warm-up steps."""

    def __init__(self, size: int, rank: int, vpp: int | None) -> None:
        self.pp_group = Group(size, rank)
        self.virtual_pipeline_model_parallel_size = vpp


def megatron_order(pp: int, rank: int, vpp: int, m: int, group: int) -> list[str]:
    """The actions of a rank: the peer's table and warm-up count, taken through its warm-up, steady and cool-down loops."""
    schedules = pytest.importorskip("megatron.core.pipeline_parallel.schedules")
    table = schedules.get_schedule_table(m, vpp, group)
    total, _, warm_up, remaining = schedules.get_pp_rank_microbatches(m, vpp, group, p2p_communicator=Communicator(pp, rank, vpp))
    forward = [f"{chunk * pp + rank}F{batch}" for batch, chunk in table]
    backward = [f"{(vpp - 1 - chunk) * pp + rank}B{batch}" for batch, chunk in table]
    steady = [name for k in range(remaining) for name in (forward[warm_up + k], backward[k])]
    assert total == len(table)
    return [*forward[:warm_up], *steady, *backward[remaining:]]


@pytest.mark.parametrize("pp", [2, 3, 4, 8])
@pytest.mark.parametrize("vpp", [2, 3, 4])
def test_the_interleaved_order_is_that_of_megatron(pp: int, vpp: int) -> None:
    tried = 0
    for m in sorted({*range(1, 14), 2 * pp, 3 * pp, 4 * pp}):
        for group in groups(pp, m):
            schedule = interleaved(loop(pp, vpp), pp, m, group)
            for rank in range(pp):
                assert [str(action) for action in schedule.ranks[rank]] == megatron_order(pp, rank, vpp, m, group)
                tried += 1
    assert tried >= 20


def torch_order(name: str, pp: int, m: int, **options: Any) -> list[list[str]]:  # noqa: ANN401 -- the peer's options
    """What torch makes of one of its schedules."""
    visualizer = pytest.importorskip("torch.distributed.pipelining._schedule_visualizer")
    ranks = visualizer.get_schedule_ops(name, pp, m, **options)
    return [[str(action) for action in rank if action is not None] for rank in ranks]


def torch_csv(name: str, pp: int, m: int, **options: Any) -> str:  # noqa: ANN401 -- the peer's options
    return "".join(",".join(rank) + "\n" for rank in torch_order(name, pp, m, **options))


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("1F1B", lambda pp, m: one_forward_one_backward(loop(pp), pp, m)),
        ("GPipe", lambda pp, m: gpipe(loop(pp), pp, m)),
        ("Interleaved1F1B", lambda pp, m: interleaved(loop(pp, 2), pp, m, pp)),
    ],
)
@pytest.mark.parametrize("pp", [2, 3, 4])
def test_orders_are_those_of_torch(name: str, make: Callable[[int, int], Schedule], pp: int) -> None:
    for m in (pp, 2 * pp, 3 * pp):
        theirs = [[word for word in rank if "REDUCE" not in word] for rank in torch_order(name, pp, m)]
        ours = [[str(action) for action in rank] for rank in make(pp, m).ranks]
        if name == "1F1B":
            # torch 2.13 numbers the last rank's forwards from 1 in this list, though it runs them from 0
            assert theirs.pop() == [word if "B" in word else f"{pp - 1}F{int(word.split('F')[1]) + 1}" for word in ours.pop()]
        assert ours == theirs


@pytest.mark.parametrize("pp", [2, 3, 4])
def test_zb_v_is_no_slower_than_that_of_torch(pp: int) -> None:
    from ppdsl.schedules.timing import Durations, time_schedule  # noqa: PLC0415 -- of no use to the other tests

    durations = Durations.equal(2 * pp, 1.0, 1.0, 1.0)
    for m in (2 * pp, 3 * pp):
        theirs = read_schedule_csv(torch_csv("ZBVZeroBubble", pp, m))
        assert theirs.owners == vee(pp)
        assert time_schedule(zb_v(vee(pp), pp, m), durations).span <= time_schedule(theirs, durations).span


def test_torch_reads_what_is_written() -> None:
    schedules = pytest.importorskip("torch.distributed.pipelining.schedules")
    for schedule in named_schedules((2, 3), (2, 4)):
        for text in (write_csv(schedule.ranks), write_program_csv(lower(schedule))):
            words = [word for line in text.splitlines() for word in line.split(",")]
            assert [str(schedules._Action.from_str(word)) for word in words] == words  # noqa: SLF001 -- its reader has no other name


@pytest.mark.parametrize("name", ["Interleaved1F1B", "LoopedBFS", "InterleavedZeroBubble", "ZBVZeroBubble", "DualPipeV"])
@pytest.mark.parametrize("pp", [2, 4])
def test_what_torch_lowers_is_proved_over_its_own_channels(name: str, pp: int) -> None:
    for m in (2 * pp, 3 * pp):
        program = read_program_csv(torch_csv(name, pp, m, with_comms=True))
        assert str(verify(program, pairs=True)) == "proved"


@pytest.mark.parametrize("name", ["Interleaved1F1B", "InterleavedZeroBubble", "ZBVZeroBubble", "DualPipeV"])
def test_what_torch_makes_is_lowered_and_proved(name: str) -> None:
    schedule = read_schedule_csv(torch_csv(name, 4, 8))
    assert read_csv(write_csv(schedule.ranks)) == schedule.ranks
    for depth in (0, 1, 2):
        assert str(verify(lower(schedule, depth), queues=1)) == "proved"


def test_what_torch_makes_of_deferred_receives_is_found_to_deadlock() -> None:
    """With defer_pp_recv, torch 2.13 moves receives behind sends that wait for them, where sends are done only with their receives."""
    program = read_program_csv(torch_csv("Interleaved1F1B", 2, 2, with_comms=True, defer_pp_recv=True))
    assert str(verify(program, pairs=True)) == (
        "deadlock: 2SEND_F1 on rank 0 waits for 3SEND_B0 on rank 1, which waits for 2SEND_F1 on rank 0"
    )


def test_what_torch_makes_of_deferred_receives_is_found_to_mix_up_messages() -> None:
    """The deferred receives are in the order of their uses, the sends in that of their making."""
    program = read_program_csv(torch_csv("ZBVZeroBubble", 2, 4, with_comms=True, defer_pp_recv=True))
    assert str(verify(program)).splitlines()[0] == (
        "unpaired: message 2 from rank 0 to rank 1 is sent as 0SEND_F2 and received as 2RECV_B0#0"
    )
