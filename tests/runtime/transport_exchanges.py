"""Cases of transport_worker in which all arrives: each rank runs them with the number of ranks."""

from __future__ import annotations

import time
import weakref
from typing import TYPE_CHECKING

import torch
from torch import distributed as dist

from ppdsl_runtime.transport.distributed import MOST_HELD, DistributedTransport
from ppdsl_runtime.transport.faults import PeerError
from ppdsl_runtime.transport.messages import Message, describe
from tests.runtime.transport_ends import BOTH, SHORT, WAIT, count_groups, expect, into, list_values, loop

if TYPE_CHECKING:
    from torch import Tensor

    from ppdsl_runtime.transport.interface import Target

DTYPES = (
    torch.float32,
    torch.float64,
    torch.bfloat16,
    torch.float16,
    torch.int64,
    torch.int32,
    torch.int16,
    torch.int8,
    torch.uint8,
    torch.bool,
    torch.complex64,
)


def move_every_type(size: int) -> None:
    """Tuples of all element types, shapes and strides go round the loop, and backward, and arrive as they were."""
    transport = DistributedTransport(loop(size), timeout=WAIT, debug=False)
    rank, groups = transport.rank, count_groups()
    ahead, behind = (rank + 1) % size, (rank - 1) % size
    made = [(torch.arange(12) % 2).reshape(3, 4).to(dtype) for dtype in DTYPES]
    number = torch.tensor([1 + 2j, 3 - 4j])
    lazy = (number.conj(), number.conj().imag)  # their memory is not what they say
    sources = (*made, made[0].T, torch.tensor(5, dtype=torch.int16), torch.empty(0, 3), torch.ones(4, requires_grad=True) * 2, *lazy)
    for direction, to, origin in (("F", ahead, behind), ("B", behind, ahead)):
        message = Message(rank, direction, 7)  # type: ignore[arg-type]
        targets = [torch.zeros(tensor.shape, dtype=tensor.dtype) for tensor in sources]
        receipt = transport.post(origin, message, into(*targets))
        transport.send(to, message, sources)
        received = receipt.wait()
        assert receipt.wait() is received
        assert all(one is other for one, other in zip(received, targets, strict=True))
        assert all(torch.equal(one, other) for one, other in zip(received, sources, strict=True))
        transport.send(to, message, ())
        assert transport.post(origin, message, into()).wait() == ()
    transport.finish()
    pairs = 2 if size == 2 else 4
    assert (transport.communicators, count_groups()) == (pairs + 1, groups), "one for each direction to each neighbour, and one that sums"
    assert transport.communicator_bytes > 0
    assert transport.in_flight() is None
    transport.close()


def make_source(value: int, alive: list[weakref.ref[Tensor]]) -> Tensor:
    """Make what is sent, and remember it without holding it."""
    source = torch.full((1000,), float(value))
    alive.append(weakref.ref(source))
    return source


def cross_without_deadlock(size: int) -> None:
    """Each rank sends to both neighbours more than a channel holds, sources are let go, order is kept by channel, strides do not matter."""
    transport = DistributedTransport(loop(size), timeout=WAIT, debug=False)
    rank = transport.rank
    peers = sorted({(rank + 1) % size, (rank - 1) % size})
    alive: list[weakref.ref[Tensor]] = []
    receipts = {peer: transport.post(peer, Message(0, "F", 0), into(torch.zeros(1000))) for peer in peers}
    for i in range(40):
        for peer in peers:
            transport.send(peer, Message(0, "F", i), (make_source(100 * rank + i, alive),))
        for peer in peers:
            before, receipts[peer] = receipts[peer], transport.post(peer, Message(0, "F", i + 1), into(torch.zeros(1000 if i < 39 else 0)))
            (tensor,) = before.wait()
            assert list_values(tensor) == [100 * peer + i]
        assert sum(reference() is not None for reference in alive) <= len(peers) * MOST_HELD
    transport.finish()
    assert not any(reference() is not None for reference in alive)
    transport.close()


def learn_metadata(size: int) -> None:
    """Receives whose metadata come late are queued; nobody's send waits meanwhile, and waits may come in any order."""
    transport = DistributedTransport(BOTH, timeout=WAIT, debug=False)
    messages = [Message(0, "F", i) for i in range(3 * MOST_HELD)]
    if transport.rank == 0:
        transport.broadcast(None, 1)
        metadata = describe([torch.zeros(2, 3, dtype=torch.bfloat16), torch.zeros(0, requires_grad=True)])
        transport.announce("key", 0, metadata)
        for message in messages:
            transport.send(1, message, (torch.full((2, 3), message.microbatch, dtype=torch.bfloat16), torch.zeros(0)))
        transport.broadcast("sent", 0)
        transport.finish()
        assert transport.look_up("key", 0, wait=False) == metadata
    elif transport.rank == 1:
        targets: list[list[Tensor]] = [[] for _ in messages]

        def make_target(i: int) -> Target:
            def target(wait: bool) -> tuple[Tensor, ...] | None:  # noqa: FBT001 -- as the protocol has it
                metadata = transport.look_up("key", 0, wait=wait)
                if metadata is not None and not targets[i]:
                    targets[i] = [torch.zeros(meta.shape, dtype=meta.dtype) for meta in metadata]
                return None if metadata is None else tuple(targets[i])

            return target

        receipts = [transport.post(0, message, make_target(message.microbatch)) for message in messages[:3]]
        assert targets == [[] for _ in messages]
        transport.broadcast(None, 1)
        assert transport.broadcast(None, 0) == "sent"
        receipts += [transport.post(0, message, make_target(message.microbatch)) for message in messages[3:]]
        for i in (1, 0, *range(2, len(messages))):
            assert list_values(receipts[i].wait()[0]) == [i]
        transport.finish()
    else:
        transport.broadcast(None, 1)
        transport.broadcast(None, 0)
    assert transport.look_up("another", 0, wait=False) is None
    assert transport.gather(transport.rank) == list(range(size)), "nobody closes while another looks up"
    transport.close()


def learn_while_waiting(_size: int) -> None:
    """A wait for metadata is the wait for their message: it ends once they are announced, and an error names the message."""
    transport = DistributedTransport(BOTH, timeout=SHORT, debug=False)
    if transport.rank == 1:

        def target(wait: bool) -> tuple[Tensor, ...] | None:  # noqa: FBT001 -- as the protocol has it
            return None if transport.look_up("key", 0, wait=wait) is None else (torch.zeros(2),)

        assert transport.post(0, Message(0, "F", 0), target).wait()[0].tolist() == [3.0, 3.0]
        never = transport.post(0, Message(0, "F", 1), lambda wait: () if transport.look_up("never", 0, wait=wait) else None)
        where = "rank 1, looking up edge 0, waiting for the activation of stage 0 for microbatch 1 from rank 0"
        error = expect(PeerError, f"{where}: nobody has announced edge 0 under the key 'never' within 1 s", never.wait)
        assert isinstance(error, PeerError)
        assert (error.message, error.peer) == (Message(0, "F", 1), 0)
    elif transport.rank == 0:
        time.sleep(SHORT / 4)
        transport.announce("key", 0, describe([torch.zeros(2)]))
        transport.send(1, Message(0, "F", 0), (torch.full((2,), 3.0),))
        transport.finish()
    dist.barrier()
    transport.close()


def sum_over_sets(size: int) -> None:
    """Sums over sets that were named, in place, whatever strides and type; sets that were not are refused."""
    outer = [0, size - 1]
    transport = DistributedTransport(BOTH, reductions=[outer, [0], range(size)], timeout=WAIT, debug=False)
    rank, total = transport.rank, sum(range(size))
    for dtype in (torch.float32, torch.bfloat16, torch.float64, torch.int64):
        tensor = torch.full((3, 2), rank, dtype=dtype).T
        transport.all_reduce(tensor, range(size))
        assert tensor.tolist() == [[total] * 3] * 2
    tensor = torch.tensor(float(rank), requires_grad=True)
    if rank in outer:
        transport.all_reduce(tensor, outer)
        assert tensor.item() == size - 1
    transport.all_reduce(tensor, [rank])
    expect(ValueError, r"the ranks \[1, 2, 9\] were not named among the sets that sum", lambda: transport.all_reduce(tensor, [1, 2, 9]))
    assert transport.broadcast({"a": rank}, size - 1) == {"a": size - 1}
    for length in (0, 4000, 4096, 4097, 100_000):
        assert transport.broadcast(bytes([rank]) * length, 1) == bytes([1]) * length
        assert transport.gather("x" * length * rank) == ["x" * length * other for other in range(size)]
    assert transport.gather([rank]) == [[other] for other in range(size)]
    transport.close()


def run_inside_subgroups(size: int) -> None:
    """Pipelines in groups of the world run side by side; their ranks are the groups', not the world's."""
    rank = dist.get_rank()
    members = [rank] if size == 2 else [rank % 2, rank % 2 + 2]
    group = dist.new_group(members, use_local_synchronization=True)
    assert group is not None
    transport = DistributedTransport([] if size == 2 else BOTH, group=group, timeout=WAIT, debug=False)
    assert (transport.rank, transport.size) == (members.index(rank), len(members))
    if size > 2:
        peer = 1 - transport.rank
        receipt = transport.post(peer, Message(0, "F", 0), into(torch.zeros(1)))
        transport.send(peer, Message(0, "F", 0), (torch.full((1,), float(rank)),))
        assert receipt.wait()[0].item() == members[peer]
        transport.announce("key", transport.rank, describe([torch.zeros(rank)]))
        assert transport.look_up("key", peer, wait=True) == describe([torch.zeros(members[peer])])
        tensor = torch.ones(1)
        transport.all_reduce(tensor, [0, 1])
        assert tensor.item() == 2
    transport.finish()
    assert transport.gather(rank) == members
    transport.close()


def live_side_by_side(size: int) -> None:
    """Two transports of the same ranks share neither messages nor boards."""
    first, second = (DistributedTransport(BOTH, timeout=WAIT, debug=False) for _ in range(2))
    one, other = Message(0, "F", 0), Message(0, "F", 1)
    if first.rank == 0:
        second.send(1, other, (torch.full((1,), 2.0),))
        first.send(1, one, (torch.full((1,), 1.0),))
        first.announce("key", 0, describe([torch.zeros(1)]))
    elif first.rank == 1:
        receipts = [first.post(0, one, into(torch.zeros(1))), second.post(0, other, into(torch.zeros(1)))]
        assert [receipt.wait()[0].item() for receipt in receipts] == [1.0, 2.0]
    for transport in (first, second):
        transport.finish()
    assert first.gather(size) == [size] * size
    assert (first.look_up("key", 0, wait=False) is None, second.look_up("key", 0, wait=False)) == (False, None)
    assert first.gather(size) == [size] * size
    first.close()
    second.close()
