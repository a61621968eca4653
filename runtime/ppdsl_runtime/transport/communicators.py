"""Communicators: the backends' own classes, Gloo's and NCCL's, outside torch's registry of groups."""

from __future__ import annotations

import pickle
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Protocol, cast

import torch
from torch import distributed as dist

if TYPE_CHECKING:
    from torch.distributed import Work
    from torch.distributed.distributed_c10d import AllreduceOptions, BroadcastOptions, GroupName, Store

_PATIENCE = 2
"""How many timeouts NCCL waits."""
_LENGTH = 8
_INLINE = 1 << 12
"""Bytes of a broadcast that go together with their number."""


class Communicator(Protocol):
    """What is used of a backend. Ranks are numbers inside the communicator."""

    def size(self) -> int:
        """Give the number of ranks."""

    def send(self, tensors: list[torch.Tensor], peer: int, tag: int) -> Work:
        """Begin to send one tensor."""

    def recv(self, tensors: list[torch.Tensor], peer: int, tag: int) -> Work:
        """Begin to receive one tensor."""

    def allreduce(self, tensors: list[torch.Tensor], options: AllreduceOptions) -> Work:
        """Begin to sum one tensor."""

    def broadcast(self, tensors: list[torch.Tensor], options: BroadcastOptions) -> Work:
        """Begin to send one tensor to all."""

    def allgather(self, outputs: list[list[torch.Tensor]], inputs: list[torch.Tensor]) -> Work:
        """Begin to give all tensors to all."""

    def abort(self) -> None:
        """Close it at once, whatever is under way."""

    def shutdown(self) -> None:
        """Close it; NCCL waits for what is under way first."""


def make_gloo(store: Store, rank: int, size: int, timeout: float) -> Communicator:
    """Make a Gloo communicator; it connects all of its ranks at once.

    Args:
        store: A store that these ranks alone write to.
        rank: This rank's number in it.
        size: Number of ranks.
        timeout: Seconds that each wait takes at most.
    """
    return cast("Communicator", dist.ProcessGroupGloo(store, rank, size, timedelta(seconds=timeout)))


def make_nccl(store: Store, rank: int, size: int, timeout: float, name: str) -> Communicator:
    """Make an NCCL communicator; its first operation connects it.

    Args:
        store: A store that these ranks alone write to.
        rank: This rank's number in it.
        size: Number of ranks.
        timeout: Seconds that each wait takes at most. NCCL counts from when an operation is issued, which the host does ahead of time, and
            ends the process without a word about the pipeline; so it is given twice as long, and a ``Watchdog`` speaks first.
        name: How it is called in the logs.
    """
    options = dist.ProcessGroupNCCL.Options()
    options._timeout = timedelta(seconds=_PATIENCE * timeout)  # noqa: SLF001 -- so is the option called
    options.group_name = cast("GroupName", name)
    return cast("Communicator", dist.ProcessGroupNCCL(store, rank, size, options))


def sum_tensor(group: Communicator, tensor: torch.Tensor) -> None:
    """Sum a tensor, in one piece, over all ranks of a communicator, in place."""
    group.allreduce([tensor], dist.AllreduceOptions()).wait()


def broadcast_object(group: Communicator, value: Any, source: int, rank: int) -> Any:  # noqa: ANN401 -- anything that can be pickled
    """Give every rank of a Gloo communicator the value of one; a small one goes in one piece with its length."""
    options = dist.BroadcastOptions()
    options.rootRank = source
    data = _pack(value) if rank == source else torch.empty(0, dtype=torch.uint8)
    first = torch.zeros(_LENGTH + _INLINE, dtype=torch.uint8)
    if rank == source:
        first[:_LENGTH] = torch.tensor([data.numel()]).view(torch.uint8)
        first[_LENGTH : _LENGTH + data.numel()] = data[:_INLINE]
    group.broadcast([first], options).wait()
    if rank == source:
        if data.numel() > _INLINE:
            group.broadcast([data], options).wait()
        return value
    length = int(first[:_LENGTH].view(torch.int64))
    if length <= _INLINE:
        return _unpack(first[_LENGTH : _LENGTH + length])
    data = torch.empty(length, dtype=torch.uint8)
    group.broadcast([data], options).wait()
    return _unpack(data)


def gather_objects(group: Communicator, value: Any) -> list[Any]:  # noqa: ANN401 -- anything that can be pickled
    """Give every rank of a Gloo communicator the values of all."""
    data = _pack(value)
    lengths = [torch.zeros(1, dtype=torch.int64) for _ in range(group.size())]
    group.allgather([lengths], [torch.tensor([data.numel()])]).wait()
    longest = max(int(length) for length in lengths)
    padded = torch.zeros(longest, dtype=torch.uint8)
    padded[: data.numel()] = data
    parts = [torch.empty_like(padded) for _ in lengths]
    group.allgather([parts], [padded]).wait()
    return [_unpack(part[: int(length)]) for part, length in zip(parts, lengths, strict=True)]


def _pack(value: object) -> torch.Tensor:
    return torch.frombuffer(bytearray(pickle.dumps(value)), dtype=torch.uint8)


def _unpack(data: torch.Tensor) -> Any:  # noqa: ANN401 -- what was packed
    return pickle.loads(bytes(data.tolist()))  # noqa: S301 -- another rank of the same job packed it
