"""Ranks as threads of one process: a send blocks until its message has been posted, the strictest that a transport may be.

What runs here without a deadlock runs over any transport. It needs no network, so tests of the executor use it.
"""

from __future__ import annotations

import threading
from collections import deque
from copy import deepcopy
from typing import TYPE_CHECKING, Any, TypeVar

import torch

from ppdsl_runtime.progress import Progress
from ppdsl_runtime.transport.faults import MismatchError, PeerError
from ppdsl_runtime.transport.interface import Receipt, Transport

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ppdsl_runtime.transport.interface import Target
    from ppdsl_runtime.transport.messages import Message, Metadata

    Result = TypeVar("Result")


class _Round:
    """One collective call: what each rank has brought to it."""

    def __init__(self, what: str) -> None:
        self.what = what
        self.values: dict[int, Any] = {}


class _Meeting:
    """Where the threads meet: all that they share, behind one lock."""

    def __init__(self, timeout: float) -> None:
        self.timeout = timeout
        self.changed = threading.Condition()
        self.posts: dict[tuple[int, int], deque[_ThreadReceipt]] = {}
        self.rounds: dict[tuple[int, ...], _Round] = {}
        self.board: dict[tuple[str, int], Metadata] = {}
        self.failure: str | None = None

    def abort(self, reason: str) -> None:
        """Release every thread that waits, now or later, with an error; the first reason is kept."""
        with self.changed:
            if self.failure is None:
                self.failure = reason
            self.changed.notify_all()

    def wait(self, done: Callable[[], object], progress: Progress, rank: int) -> None:
        """Wait, with the lock held, until something is so; what for is told by ``progress``."""
        self.changed.wait_for(lambda: self.failure is not None or done(), self.timeout)
        if self.failure is not None:
            raise PeerError(rank, str(progress), f"stopped because {self.failure}", progress.message, progress.peer)
        if not done():
            raise PeerError(rank, str(progress), f"nothing came within {self.timeout:g} s", progress.message, progress.peer)


class _ThreadReceipt(Receipt):
    """A receive that waits for its sender."""

    def __init__(self, end: RendezvousTransport, peer: int, message: Message, target: Target) -> None:
        self.end = end
        self.peer = peer
        self.message = message
        self.target = target
        self.sent: tuple[torch.Tensor, ...] | None = None
        self.taken = False

    def wait(self) -> tuple[torch.Tensor, ...]:
        """Wait for the sender, then copy what it sent into the target's tensors.

        Raises:
            PeerError: The sender failed or took too long.
            MismatchError: The tensors sent are not those that the target expects.
        """
        meeting, progress = self.end.meeting, self.end.progress
        progress.message, progress.peer = self.message, self.peer
        with meeting.changed:
            meeting.wait(lambda: self.sent is not None, progress, self.end.rank)
        tensors = self.target(True)  # noqa: FBT003 -- a Target takes it by position
        if tensors is None:
            raise MismatchError(f"{self.message} from rank {self.peer} has no metadata on rank {self.end.rank}")
        self._copy(self.sent or (), tensors)
        progress.message, progress.peer = None, -1
        with meeting.changed:
            self.taken = True
            self.sent = None
            meeting.changed.notify_all()
        return tensors

    def _copy(self, sources: tuple[torch.Tensor, ...], tensors: tuple[torch.Tensor, ...]) -> None:
        sent, wanted = ([(tuple(tensor.shape), tensor.dtype) for tensor in end] for end in (sources, tensors))
        if sent != wanted:
            raise MismatchError(f"{self.message}: rank {self.peer} sent {sent}, rank {self.end.rank} expects {wanted}")
        with torch.no_grad():
            for tensor, source in zip(tensors, sources, strict=True):
                tensor.copy_(source)


class RendezvousTransport(Transport):
    """One thread's end; made by ``make_rendezvous``.

    Attributes:
        progress: Where the rank is.
    """

    def __init__(self, meeting: _Meeting, rank: int, size: int, device: torch.device) -> None:
        self.meeting = meeting
        self.rank = rank
        self.size = size
        self.device = device
        self.progress = Progress()
        self._sent: list[_ThreadReceipt] = []

    def send(self, peer: int, message: Message, tensors: tuple[torch.Tensor, ...]) -> None:
        """Wait until the receiver has posted this message, then hand it the tensors; it copies them when it waits for them.

        Raises:
            PeerError: The receiver failed or took too long.
            MismatchError: The next message that the receiver has posted is another.
        """
        meeting = self.meeting
        with meeting.changed:
            posts = meeting.posts.setdefault((self.rank, peer), deque())
            self.progress.message, self.progress.peer, self.progress.sending = message, peer, True
            meeting.wait(lambda: posts, self.progress, self.rank)
            receipt = posts.popleft()
            if receipt.message != message:
                raise MismatchError(f"rank {self.rank} sends {message}, but rank {peer} expects {receipt.message} from it")
            self.progress.message, self.progress.peer, self.progress.sending = None, -1, False
            receipt.sent = tuple(tensor.detach() for tensor in tensors)
            self._sent.append(receipt)
            meeting.changed.notify_all()

    def post(self, peer: int, message: Message, target: Target) -> Receipt:
        """Say that this message may come; the target is not asked before the wait."""
        receipt = _ThreadReceipt(self, peer, message, target)
        with self.meeting.changed:
            self.meeting.posts.setdefault((peer, self.rank), deque()).append(receipt)
            self.meeting.changed.notify_all()
        return receipt

    def finish(self) -> None:
        """Wait until each receiver has copied what was sent to it.

        Raises:
            PeerError: A receiver failed or took too long.
        """
        with self.meeting.changed:
            for receipt in self._sent:
                self.progress.message, self.progress.peer, self.progress.sending = receipt.message, receipt.end.rank, True
                self.meeting.wait(lambda receipt=receipt: receipt.taken, self.progress, self.rank)  # type: ignore[misc]
        self.progress.message, self.progress.peer, self.progress.sending = None, -1, False
        self._sent.clear()

    def announce(self, key: str, edge: int, metadata: Metadata) -> None:
        """Write it on the common board."""
        with self.meeting.changed:
            self.meeting.board[key, edge] = metadata
            self.meeting.changed.notify_all()

    def look_up(self, key: str, edge: int, *, wait: bool) -> Metadata | None:
        """Read the common board.

        Raises:
            PeerError: Nothing was announced in time.
        """
        board = self.meeting.board
        with self.meeting.changed:
            if wait:
                self.meeting.wait(lambda: (key, edge) in board, self.progress, self.rank)
            return board.get((key, edge))

    def all_reduce(self, tensor: torch.Tensor, ranks: Sequence[int]) -> None:
        """Sum in the order of ranks, so that all get the same bits.

        Raises:
            PeerError: Another rank failed or took too long.
            MismatchError: Another rank calls another collective, or brings a tensor of another shape or type.
        """
        what = f"all_reduce of {tensor.dtype} {tuple(tensor.shape)}"
        values = self._meet(what, tuple(ranks), tensor.detach().clone())
        with torch.no_grad():
            total = values[0].clone()
            for value in values[1:]:
                total += value
            tensor.copy_(total)

    def broadcast(self, value: Any, source: int) -> Any:  # noqa: ANN401 -- anything that can be copied
        """Give every rank a deep copy of one rank's value.

        Raises:
            PeerError: Another rank failed or took too long.
            MismatchError: Another rank calls another collective.
        """
        values = self._meet(f"broadcast from rank {source}", tuple(range(self.size)), deepcopy(value) if self.rank == source else None)
        return deepcopy(values[source])

    def gather(self, value: Any) -> list[Any]:  # noqa: ANN401 -- anything that can be copied
        """Give every rank deep copies of all values, by rank.

        Raises:
            PeerError: Another rank failed or took too long.
            MismatchError: Another rank calls another collective.
        """
        return deepcopy(self._meet("gather", tuple(range(self.size)), deepcopy(value)))

    def _meet(self, what: str, ranks: tuple[int, ...], value: Any) -> list[Any]:  # noqa: ANN401 -- whatever is exchanged
        meeting = self.meeting
        with meeting.changed:
            turn = meeting.rounds.setdefault(ranks, _Round(what))
            if turn.what != what:
                raise MismatchError(f"rank {self.rank} calls {what}, but rank {next(iter(turn.values))} calls {turn.what}")
            turn.values[self.rank] = value
            if len(turn.values) == len(ranks):
                del meeting.rounds[ranks]
                meeting.changed.notify_all()
            before, self.progress.phase = self.progress.phase, f"in {what}"
            meeting.wait(lambda: len(turn.values) == len(ranks), self.progress, self.rank)
            self.progress.phase = before
            return [turn.values[rank] for rank in ranks]

    def abort(self, reason: str) -> None:
        """Release all other ranks, wherever they wait, with a PeerError that gives the reason; nothing can be sent any more."""
        self.meeting.abort(reason)

    def close(self) -> None:
        """Let go of what was sent."""
        self._sent.clear()


def make_rendezvous(size: int, timeout: float = 60.0, device: str | torch.device = "cpu") -> list[RendezvousTransport]:
    """Make the ends of all ranks, for one thread each.

    Args:
        size: Number of ranks.
        timeout: Seconds after which every wait is given up with an error.
        device: Where the tensors are.
    """
    meeting = _Meeting(timeout)
    return [RendezvousTransport(meeting, rank, size, torch.device(device)) for rank in range(size)]


def run_ranks(ends: Sequence[RendezvousTransport], work: Callable[[RendezvousTransport], Result]) -> list[Result]:
    """Run a function once for each rank, each in a thread of its own; where one fails the others are released.

    Args:
        ends: What ``make_rendezvous`` gave.
        work: What a rank does with its end.

    Returns:
        What each rank gave.

    Raises:
        BaseException: What the rank that failed first raised.
    """
    results: dict[int, Result] = {}
    failures: list[BaseException] = []

    def run(end: RendezvousTransport) -> None:
        try:
            results[end.rank] = work(end)
        except BaseException as error:  # noqa: BLE001 -- raised again below, in the caller's thread
            failures.append(error)
            end.abort(f"rank {end.rank} failed: {type(error).__name__}: {error}")

    threads = [*_start(run, ends)]
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return [results[end.rank] for end in ends]


def _start(run: Callable[[RendezvousTransport], None], ends: Sequence[RendezvousTransport]) -> Iterator[threading.Thread]:
    for end in ends:
        thread = threading.Thread(target=run, args=(end,), name=f"rank {end.rank}", daemon=True)
        thread.start()
        yield thread
