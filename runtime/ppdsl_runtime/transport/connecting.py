"""The communicators of a pipeline over torch.distributed: made once, in one order, and connected before the first step.

They are made of the backends' own classes and not by ``new_group``: that either has every rank of the world make every group, or, with
``use_local_synchronization``, names a group after the number of groups that a rank has made before, in which two neighbours in a pipeline
differ, so that they never meet.
"""

from __future__ import annotations

import os
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import distributed as dist
from torch.distributed.distributed_c10d import PrefixStore

from ppdsl_runtime.failure.fingerprints import refuse_differences
from ppdsl_runtime.transport.communicators import gather_objects, make_gloo, make_nccl, sum_tensor
from ppdsl_runtime.transport.faults import naming_peer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch.distributed.distributed_c10d import Store

    from ppdsl_runtime.progress import Progress
    from ppdsl_runtime.transport.communicators import Communicator

Pair = tuple[int, int]
SENDER, RECEIVER = 0, 1
"""The ranks of a channel inside its communicator."""

_NCCL_CHANNELS = 2
_NCCL_BUFFER = 4 << 20
_SOCKET_BUFFERS = 1 << 19


class Request(NamedTuple):
    """What is asked for.

    Attributes:
        rank: This pipeline rank.
        size: Number of pipeline ranks.
        device: Where the tensors are.
        timeout: Seconds that any wait takes at most.
        channels: All (sender, receiver) pairs of the pipeline, sorted.
        reductions: All sets of ranks that sum, each sorted, and sorted among themselves.
    """

    rank: int
    size: int
    device: torch.device
    timeout: float
    channels: tuple[Pair, ...]
    reductions: tuple[tuple[int, ...], ...]

    def check(self, most: int) -> None:
        """Refuse what cannot be made: on every rank alike, so that none waits for one that was refused.

        Args:
            most: How many communicators a rank may take part in.

        Raises:
            ValueError: A rank is none of the pipeline's, a channel has one end, a set is not sorted, or a rank has too many communicators.
        """
        everything = (*self.channels, *self.reductions)
        for ranks in everything:
            if len(set(ranks)) != len(ranks) or not all(0 <= rank < self.size for rank in ranks):
                raise ValueError(f"{ranks} are not different ranks of 0 to {self.size - 1}")
        for ranks in self.reductions:
            if list(ranks) != sorted(ranks):
                raise ValueError(f"the ranks {ranks}, which sum, have to be sorted")
        counts = Counter(rank for ranks in everything for rank in ranks)
        for rank, count in sorted(counts.items()):
            if count > most:
                raise ValueError(f"rank {rank} would take part in {count} communicators, at most {most} are allowed")

    def list_facts(self) -> dict[str, str]:
        """List what all ranks must ask for alike, each as text, by its name."""
        return {"channels": str(self.channels), "sets that sum": str(self.reductions), "device": self.device.type}


class Connections(NamedTuple):
    """What a rank has made.

    Attributes:
        control: A Gloo communicator of all pipeline ranks, for small values.
        board: A store for what is announced.
        channels: The communicator of each channel that begins or ends at this rank, by (sender, receiver).
        reductions: The communicator of each set of ranks that sums, by its sorted ranks.
    """

    control: Communicator
    board: Store
    channels: dict[Pair, Communicator]
    reductions: dict[tuple[int, ...], Communicator]

    def estimate_bytes(self, device: torch.device) -> int:
        """Estimate what the communicators hold besides the tensors, in bytes; nobody has measured it.

        NCCL: its buffer (``NCCL_BUFFSIZE``, else 4 MiB) for each of the two channels that a pair gets at least. Gloo: sockets' buffers.
        """
        count = len(self.channels) + len(self.reductions)
        if device.type != "cuda":
            return count * _SOCKET_BUFFERS
        return count * _NCCL_CHANNELS * int(os.environ.get("NCCL_BUFFSIZE", _NCCL_BUFFER))


def open_store(group: dist.ProcessGroup | None) -> Store:
    """Give a store that the next transport of a group has for itself; all ranks of the group call it equally often.

    The ranks count the calls in the store itself: torch gives a later group the name of one that was destroyed, with what its store held.
    """
    store = (group or dist.distributed_c10d._get_default_group()).get_group_store()  # noqa: SLF001 -- dist.group.WORLD has no type
    count = store.add(f"ppdsl/transports of {dist.get_rank(group)}", 1)
    return PrefixStore(f"ppdsl/{count}", store)


def connect(request: Request, store: Store, facts: Mapping[str, str], progress: Progress) -> Connections:
    """Compare what the ranks were given, then make and connect the communicators.

    Each rank goes through those that concern it in one order, which is the same for all, so that no ring of ranks can wait for each other.

    Raises:
        DifferenceError: The ranks were not given the same.
        PeerError: A rank died or took too long.
    """
    rank = request.rank
    with naming_peer(rank, progress, "meeting the other ranks"):
        control = make_gloo(PrefixStore("control", store), rank, request.size, request.timeout)
        everybody = gather_objects(control, dict(facts))
    refuse_differences(everybody)
    connections = Connections(control, PrefixStore("board", store), {}, {})
    for pair in request.channels:
        if rank in pair:
            peer = sum(pair) - rank
            with naming_peer(rank, progress, f"connecting to rank {peer}", peer):
                connections.channels[pair] = _connect_pair(request, store, pair)
    for ranks in request.reductions:
        if rank in ranks:
            with naming_peer(rank, progress, f"connecting to the ranks {', '.join(map(str, ranks))}"):
                connections.reductions[ranks] = _connect_ranks(request, store, ranks)
    if request.device.type == "cuda":
        with naming_peer(rank, progress, "connecting to the other ranks"):
            torch.cuda.synchronize(request.device)
    return connections


def _make(request: Request, store: Store, ranks: tuple[int, ...], name: str) -> Communicator:
    own = PrefixStore(name, store)
    number = ranks.index(request.rank)
    if request.device.type == "cuda":
        return make_nccl(own, number, len(ranks), request.timeout, f"ppdsl {name}")
    return make_gloo(own, number, len(ranks), request.timeout)


def _connect_pair(request: Request, store: Store, pair: Pair) -> Communicator:
    """Make a channel's communicator and send one number over it, the way in which all is sent later."""
    sender, receiver = pair
    channel = _make(request, store, pair, f"from {sender} to {receiver}")
    number = [torch.ones(1, device=request.device)]
    work = channel.send(number, RECEIVER, 0) if request.rank == sender else channel.recv(number, SENDER, 0)
    work.wait()
    return channel


def _connect_ranks(request: Request, store: Store, ranks: tuple[int, ...]) -> Communicator:
    group = _make(request, store, ranks, f"sum over {', '.join(map(str, ranks))}")
    sum_tensor(group, torch.ones(1, device=request.device))
    return group
