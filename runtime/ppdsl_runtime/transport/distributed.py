"""The transport over torch.distributed: NCCL on CUDA devices, Gloo on CPUs."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import torch
from torch import distributed as dist

from ppdsl_runtime.progress import Progress
from ppdsl_runtime.transport import connecting
from ppdsl_runtime.transport.board import Board
from ppdsl_runtime.transport.channels import Incoming, Outgoing, Wire
from ppdsl_runtime.transport.communicators import broadcast_object, gather_objects, sum_tensor
from ppdsl_runtime.transport.faults import naming_peer
from ppdsl_runtime.transport.interface import Receipt, Transport

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from torch.distributed import ProcessGroup

    from ppdsl_runtime.transport.interface import Target
    from ppdsl_runtime.transport.messages import Message, Metadata

MOST_COMMUNICATORS = 64
"""How many communicators a rank may take part in unless told otherwise."""
MOST_HELD = 4
"""How many sends a channel over Gloo may have under way: only a wait can tell that one is done, and each holds its source."""


class DistributedTransport(Transport):
    """One rank's end, with one communicator for each (sender, receiver) pair that it is part of.

    On a CUDA device no transfer makes the host wait, but for the headers of debug mode and for metadata that are not known yet. Over Gloo
    ``Receipt.wait`` and ``finish`` wait, and so does a send when ``MOST_HELD`` are under way on its channel: until the receiver has posted
    the oldest, which a proven program never makes it wait for in vain. In a step in which this rank has announced metadata, or has seen
    some for the first time, no send waits, since its receiver may not be able to post yet.

    Attributes:
        progress: Where the rank is.
        timeout: Seconds that any wait takes at most.
        debug: Whether each message is preceded by a header that is compared.
        communicators: In how many communicators for tensors this rank takes part.
        communicator_bytes: An estimate of what they hold besides the tensors, in bytes.
    """

    def __init__(  # noqa: PLR0913 -- all but the first by name, and each has a default
        self,
        channels: Iterable[tuple[int, int]],
        *,
        group: ProcessGroup | None = None,
        device: str | torch.device = "cpu",
        reductions: Iterable[Sequence[int]] = (),
        timeout: float = 600.0,
        debug: bool | None = None,
        facts: Mapping[str, str] | None = None,
        progress: Progress | None = None,
        most_communicators: int = MOST_COMMUNICATORS,
    ) -> None:
        """Meet the other ranks, compare what they were given, and connect to those that this one has a channel with.

        All ranks of the group make one at the same time, and all equally often.

        Args:
            channels: All (sender, receiver) pairs of the pipeline: ``Program.channels()``.
            group: The pipeline ranks, in their order; the whole world by default.
            device: Where this rank's tensors are.
            reductions: Sets of pipeline ranks that sum; that of all ranks need not be named.
            timeout: Seconds that any wait takes at most; what NCCL does by itself is given twice as long, see ``make_nccl``.
            debug: Whether to send and compare headers; by default whether ``PPDSL_DEBUG_COMM`` is 1.
            facts: What else has to be alike on all ranks: see ``failure.fingerprints``.
            progress: Where the rank is; a new one by default.
            most_communicators: How many communicators a rank may take part in.

        Raises:
            ValueError: A channel or a set of ranks is not one of the group's; or there are too many for some rank.
            DifferenceError: The ranks were not given the same.
            PeerError: A rank died or took too long.
        """
        self.rank, self.size = dist.get_rank(group), dist.get_world_size(group)
        self.device = torch.device(device)
        self.progress = Progress() if progress is None else progress
        self.timeout = timeout
        self.debug = os.environ.get("PPDSL_DEBUG_COMM") == "1" if debug is None else debug
        sums = {tuple(ranks) for ranks in (*reductions, range(self.size)) if len(ranks) > 1}
        request = connecting.Request(self.rank, self.size, self.device, timeout, tuple(sorted({*channels})), tuple(sorted(sums)))
        store = connecting.open_store(group)
        request.check(most_communicators)
        every_fact = dict(facts or {}) | request.list_facts() | {"debug mode": str(self.debug)}
        self._connections = connecting.connect(request, store, every_fact, self.progress)
        self._board = Board(self._connections.board, timeout)
        self._outgoing, self._incoming = self._open()
        self._learning = False

    def _open(self) -> tuple[dict[int, Outgoing], dict[int, Incoming]]:
        outgoing: dict[int, Outgoing] = {}
        incoming: dict[int, Incoming] = {}
        for (sender, receiver), group in self._connections.channels.items():
            peer = sender + receiver - self.rank
            wire = Wire(group, self.rank, peer, self.device, self.debug, self.progress)
            if sender == self.rank:
                outgoing[peer] = Outgoing(wire)
            else:
                incoming[peer] = Incoming(wire)
        return outgoing, incoming

    @property
    def communicators(self) -> int:
        """In how many communicators for tensors this rank takes part: channels and sets that sum."""
        return len(self._connections.channels) + len(self._connections.reductions)

    @property
    def communicator_bytes(self) -> int:
        """An estimate of what they hold besides the tensors, in bytes."""
        return self._connections.estimate_bytes(self.device)

    def send(self, peer: int, message: Message, tensors: tuple[torch.Tensor, ...]) -> None:
        """Begin to send. Empty tensors and empty messages take no transfer, but for the header of debug mode.

        Raises:
            PeerError: The peer died or took too long.
        """
        self._outgoing[peer].send(message, tensors, 0 if self._learning or self.debug else MOST_HELD)

    def post(self, peer: int, message: Message, target: Target) -> Receipt:
        """Begin to receive, or queue it until the metadata of this message and those before it are known.

        Raises:
            PeerError: The peer died.
        """
        return self._incoming[peer].post(message, target)

    def finish(self) -> None:
        """Wait until all that was sent has gone; on a CUDA device the stream waits.

        Raises:
            PeerError: A receiver died or took too long.
        """
        for channel in self._outgoing.values():
            channel.finish()
        self._learning = False

    def in_flight(self) -> str | None:
        """Say which message is under way, for the watchdog on CUDA devices; None where waits block, for then ``progress`` says it."""
        if self.device.type != "cuda":
            return None
        for ends, word in ((self._incoming, "from"), (self._outgoing, "to")):
            for peer, channel in ends.items():
                message = channel.oldest()
                if message is not None:
                    return f"{message} {word} rank {peer}"
        return None

    def announce(self, key: str, edge: int, metadata: Metadata) -> None:
        """Write it on the board.

        Raises:
            PeerError: The store is gone.
        """
        self._learning = True
        with naming_peer(self.rank, self.progress, f"announcing edge {edge}"):
            self._board.write(key, edge, metadata)

    def look_up(self, key: str, edge: int, *, wait: bool) -> Metadata | None:
        """Read the board.

        Raises:
            PeerError: Nobody announced it in time, or the store is gone.
        """
        self._learning = True
        with naming_peer(self.rank, self.progress, f"looking up edge {edge}", self.progress.peer):
            return self._board.read(key, edge, wait=wait)

    def all_reduce(self, tensor: torch.Tensor, ranks: Sequence[int]) -> None:
        """Sum a tensor over some ranks, in place.

        Raises:
            ValueError: The set was not named when the transport was made.
            PeerError: Another rank died or took too long.
        """
        if len(ranks) == 1:
            return
        group = self._connections.reductions.get(tuple(ranks))
        if group is None:
            raise ValueError(f"the ranks {list(ranks)} were not named among the sets that sum")
        with naming_peer(self.rank, self.progress, f"summing over the ranks {', '.join(map(str, ranks))}"), torch.no_grad():
            whole = tensor.contiguous()
            sum_tensor(group, whole)
            if whole is not tensor:
                tensor.copy_(whole)

    def broadcast(self, value: Any, source: int) -> Any:  # noqa: ANN401 -- anything that can be pickled
        """Give every rank the value of one of them.

        Raises:
            PeerError: A rank died or took too long.
        """
        with naming_peer(self.rank, self.progress, f"in a broadcast from rank {source}", source):
            return broadcast_object(self._connections.control, value, source, self.rank)

    def gather(self, value: Any) -> list[Any]:  # noqa: ANN401 -- anything that can be pickled
        """Give every rank the values of all, by rank.

        Raises:
            PeerError: A rank died or took too long.
        """
        with naming_peer(self.rank, self.progress, "in a gather"):
            return gather_objects(self._connections.control, value)

    def close(self) -> None:
        """Close the communicators, after ``finish`` or after an error; over Gloo the other ranks need not do so at the same time.

        NCCL is shut down between steps, which waits for all that is under way and for the other ranks. Inside a step that an error has
        ended what is under way may never arrive, so there it is aborted.
        """
        failed = self.progress.instruction is not None or self.progress.message is not None
        self._outgoing, self._incoming = {}, {}
        for groups in (self._connections.channels, self._connections.reductions):
            for group in groups.values():
                if failed:
                    group.abort()
                else:
                    group.shutdown()
            groups.clear()
        self._connections.control.shutdown()
