"""Cases of transport_worker in which something is found out, refused or given up: each rank runs them with the number of ranks."""

from __future__ import annotations

import os
import time
from functools import partial

import torch
from torch import distributed as dist

from ppdsl_runtime.failure.fingerprints import DifferenceError
from ppdsl_runtime.progress import Progress
from ppdsl_runtime.transport.distributed import MOST_HELD, DistributedTransport
from ppdsl_runtime.transport.faults import MismatchError, PeerError
from ppdsl_runtime.transport.messages import Message
from tests.runtime.transport_ends import BOTH, SHORT, WAIT, count_groups, expect, into, list_values


def send_headers(_size: int) -> None:
    """Debug mode moves the same, names both messages of a mix-up, and other sizes of one message."""
    os.environ["PPDSL_DEBUG_COMM"] = "1"
    transport = DistributedTransport(BOTH, timeout=WAIT)
    del os.environ["PPDSL_DEBUG_COMM"]
    assert transport.debug
    messages = [Message(0, "F", i) for i in range(2 * MOST_HELD)]
    sizes = [(i % 3, 2) for i in range(len(messages))]
    if transport.rank == 0:
        for message, shape in zip(messages, sizes, strict=True):
            transport.send(1, message, (torch.full(shape, message.microbatch), torch.ones(2))[: message.microbatch])
        transport.send(1, Message(0, "B", 3), (torch.ones(2),))
        transport.send(1, Message(0, "F", 9), (torch.ones(2),))
        transport.broadcast(None, 1)
    elif transport.rank == 1:
        receipts = [
            transport.post(0, message, into(*(torch.zeros(shape, dtype=torch.int64), torch.zeros(2))[: message.microbatch]))
            for message, shape in zip(messages, sizes, strict=True)
        ]
        for message, receipt in zip(messages, receipts, strict=True):
            assert all(list_values(part) in ([], [message.microbatch]) for part in receipt.wait()[:1])
        wrong = transport.post(0, Message(0, "F", 8), into(torch.zeros(2)))
        text = "rank 1 expects the activation of stage 0 for microbatch 8 from rank 0, but got the gradient from stage 1 for microbatch 3"
        expect(MismatchError, text, wrong.wait)
        transport.broadcast(None, 1)
    else:
        transport.broadcast(None, 1)
    dist.barrier()


def send_headers_of_other_sizes(size: int) -> None:
    """Debug mode tells sizes that differ before the transfer."""
    transport = DistributedTransport(BOTH, timeout=WAIT, debug=True)
    if transport.rank == 0:
        transport.send(1, Message(0, "F", 9), (torch.ones(2),))
    elif transport.rank == 1:
        text = "rank 1 expects the activation of stage 0 for microbatch 9 from rank 0 with 12 bytes, but it has 8"
        expect(MismatchError, text, transport.post(0, Message(0, "F", 9), into(torch.zeros(3))).wait)
    assert transport.gather(size) == [size] * size


def refuse_what_differs(size: int) -> None:
    """What the ranks were given is compared before any pair connects; what cannot be made is refused."""
    rank = dist.get_rank()
    facts = {"schedule": "gpipe" if rank == 1 else "1f1b"}
    others = "rank 0" if size == 2 else "ranks 0, 2, 3"
    text = f"the ranks were given different things: schedule is 1f1b on {others} and gpipe on rank 1"
    before = count_groups()
    expect(DifferenceError, text, lambda: DistributedTransport(BOTH, timeout=WAIT, facts=facts))
    assert count_groups() == before
    text = f"the ranks were given different things: debug mode is False on {others} and True on rank 1"
    expect(DifferenceError, text, lambda: DistributedTransport(BOTH, timeout=WAIT, debug=rank == 1))
    text = f"the ranks were given different things: channels is .* on {others} and .* on rank 1"
    expect(DifferenceError, text, lambda: DistributedTransport(BOTH[: 1 + (rank == 1)], timeout=WAIT))
    text = rf"\(0, {size}\) are not different ranks of 0 to {size - 1}"
    expect(ValueError, text, lambda: DistributedTransport([(0, size)], timeout=WAIT))
    expect(ValueError, r"\(1, 1\) are not different ranks of .*", lambda: DistributedTransport([(1, 1)], timeout=WAIT))
    expect(
        ValueError, r"the ranks \(1, 0\), which sum, have to be sorted", lambda: DistributedTransport([], reductions=[[1, 0]], timeout=WAIT)
    )
    chain = [pair for one in range(size - 1) for pair in ((one, one + 1), (one + 1, one))]
    worst, count = (0, 3) if size == 2 else (1, 5)  # the ends of a longer chain have fewer, and are refused like all others
    text = f"rank {worst} would take part in {count} communicators, at most {count - 1} are allowed"
    expect(ValueError, text, lambda: DistributedTransport(chain, timeout=WAIT, most_communicators=count - 1))


def give_up_receiving(_size: int) -> None:
    """A message that never comes is given up in time and named; progress says so meanwhile."""
    progress = Progress()
    transport = DistributedTransport(BOTH, timeout=SHORT, debug=False, progress=progress)
    assert transport.progress is progress
    begin = time.monotonic()
    if transport.rank == 0:
        message = Message(0, "B", 2)
        text = "rank 0, starting, waiting for the gradient from stage 1 for microbatch 2 from rank 1: .*"
        error = expect(PeerError, text, transport.post(1, message, into(torch.zeros(2))).wait)
        assert isinstance(error, PeerError)
        assert (error.rank, error.message, error.peer, progress.message) == (0, message, 1, message)
        assert SHORT / 2 < time.monotonic() - begin < SHORT + 5
    dist.barrier()


def give_up_sending(_size: int) -> None:
    """A message that nobody takes is given up in time and named, by the send that finds its channel full, or at the step's end."""
    for at_the_end in (False, True):
        transport = DistributedTransport(BOTH, timeout=SHORT, debug=False)
        if transport.rank == 1:
            begin = time.monotonic()
            for i in range(MOST_HELD):
                transport.send(0, Message(0, "F", i), (torch.zeros(2),))
            assert time.monotonic() - begin < SHORT / 2, "these wait for nobody"
            text = "rank 1, starting, waiting for rank 0 to take the activation of stage 0 for microbatch 0: .*"
            late = partial(transport.send, 0, Message(0, "F", MOST_HELD), (torch.zeros(2),))
            expect(PeerError, text, transport.finish if at_the_end else late)
            assert SHORT / 2 < time.monotonic() - begin < SHORT + 5
        dist.barrier()
