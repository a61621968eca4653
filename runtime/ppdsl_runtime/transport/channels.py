"""The two ends of a channel over torch.distributed: sends hold their sources, receives wait for their metadata."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

import torch

from ppdsl_runtime.transport.connecting import RECEIVER, SENDER
from ppdsl_runtime.transport.faults import MismatchError, PeerError, shorten
from ppdsl_runtime.transport.headers import check_header, empty_header, write_header
from ppdsl_runtime.transport.interface import Receipt

if TYPE_CHECKING:
    from torch.distributed import Work

    from ppdsl_runtime.progress import Progress
    from ppdsl_runtime.transport.communicators import Communicator
    from ppdsl_runtime.transport.interface import Target
    from ppdsl_runtime.transport.messages import Message

    Tensors = tuple[torch.Tensor, ...]

_NCCL_TYPES = frozenset(
    {
        torch.bfloat16,
        torch.bool,
        torch.float16,
        torch.float32,
        torch.float64,
        torch.int32,
        torch.int64,
        torch.int8,
        torch.uint8,
    }
)
"""What NCCL moves as it is; everything else goes as bytes."""


class Flight(NamedTuple):
    """A message under way.

    Attributes:
        message: Which one.
        works: One for each tensor that is not empty.
        tensors: What must stay until it is there.
    """

    message: Message
    works: list[Work]
    tensors: Tensors

    def has_landed(self) -> bool:
        """Say whether all of it is there; only where waits do not block, since Gloo learns it from a wait alone."""
        return all(work.is_completed() for work in self.works)


class Wire(NamedTuple):
    """What a channel runs over.

    Attributes:
        group: The communicator of this channel alone.
        rank: This rank.
        peer: The rank at the other end.
        device: Where the tensors are.
        debug: Whether headers are sent.
        progress: Where this rank is.
    """

    group: Communicator
    rank: int
    peer: int
    device: torch.device
    debug: bool
    progress: Progress


class Channel:
    """What both ends have in common: the fields of a wire, and more.

    Attributes:
        streams: Whether a wait holds up the stream and not the host.
        flights: What is under way, the oldest first; where waits do not block, also what has landed since it was last looked through.
    """

    def __init__(self, wire: Wire) -> None:
        self.group, self.rank, self.peer, self.device, self.debug, self.progress = wire
        self.streams = self.device.type == "cuda"
        self.flights: deque[Flight] = deque()

    def oldest(self) -> Message | None:
        """Give the oldest message that is not there yet; other threads may ask."""
        try:
            return next((flight.message for flight in tuple(self.flights) if not flight.has_landed()), None)
        except RuntimeError:  # the main thread has just changed them; or one has failed, which the main thread will find
            return None

    def fail(self, error: RuntimeError, message: Message, *, sending: bool) -> PeerError:
        """Say what went wrong with a message, in one error."""
        progress = self.progress
        progress.message, progress.peer, progress.sending = message, self.peer, sending
        return PeerError(self.rank, str(progress), shorten(error), message, self.peer)

    def drop_landed(self) -> None:
        """Let go of what is there, from the oldest on."""
        flights = self.flights
        while flights and flights[0].has_landed():
            flights.popleft()

    def wait_for(self, flight: Flight, *, sending: bool) -> None:
        """Wait for a message to be there or gone.

        Raises:
            PeerError: The peer died or took too long.
        """
        progress = self.progress
        progress.peer, progress.sending, progress.message = self.peer, sending, flight.message
        try:
            for work in flight.works:
                work.wait()
        except RuntimeError as error:
            raise self.fail(error, flight.message, sending=sending) from error
        progress.message = None
        progress.sending = False
        progress.peer = -1


class Outgoing(Channel):
    """The sender's end."""

    def send(self, message: Message, tensors: Tensors, most: int) -> None:
        """Begin to send.

        Args:
            message: Which message.
            tensors: What is sent.
            most: How many messages may be under way before the oldest is waited for; only where waits block, for there nothing else tells
                that a source is no longer needed. 0 sets no limit.

        Raises:
            PeerError: The peer died or took too long.
        """
        flights = self.flights
        if self.streams:
            self.drop_landed()
        elif most and len(flights) >= most:
            self.wait_for(flights[0], sending=True)
            flights.popleft()
        held = tuple(_make_movable(_write_out(tensor), streams=self.streams) for tensor in tensors if tensor.numel())
        if self.debug:
            held = (write_header(message, tensors, self.device), *held)
        try:
            works = [self.group.send([tensor], RECEIVER, 0) for tensor in held]
        except RuntimeError as error:
            raise self.fail(error, message, sending=True) from error
        if works:
            flights.append(Flight(message, works, held))

    def finish(self) -> None:
        """Wait until all has gone. Where waits do not block, what is still under way stays in sight of whoever asks for the oldest.

        Raises:
            PeerError: The peer died or took too long.
        """
        if self.streams:
            for flight in self.flights:
                self.wait_for(flight, sending=True)
            self.drop_landed()
            return
        while self.flights:
            self.wait_for(self.flights[0], sending=True)
            self.flights.popleft()


class Incoming(Channel):
    """The receiver's end.

    Attributes:
        queue: Receipts that are not posted since the metadata of one of them, or of one before, are not known; in debug mode, since the
            header of one before has not come.
    """

    def __init__(self, wire: Wire) -> None:
        super().__init__(wire)
        self.queue: deque[ChannelReceipt] = deque()

    def post(self, message: Message, target: Target) -> ChannelReceipt:
        """Begin to receive, now or as soon as it is known what."""
        receipt = ChannelReceipt(self, message, target)
        queue = self.queue
        queue.append(receipt)
        if self.streams:
            self.drop_landed()
        while queue and not self.debug:
            tensors = queue[0].target(False)  # noqa: FBT003 -- a Target takes it by position
            if tensors is None:
                break
            self._receive(queue.popleft(), tensors)
        return receipt

    def catch_up(self, receipt: ChannelReceipt) -> None:
        """Post all up to this one; wait for their metadata and, in debug mode, for their headers.

        Raises:
            PeerError: The peer died or took too long.
            MismatchError: Debug mode: another message came. Or a target has no metadata.
        """
        progress = self.progress
        while receipt.flight is None:
            first = self.queue[0]
            progress.peer, progress.message = self.peer, first.message
            tensors = first.target(True)  # noqa: FBT003 -- a Target takes it by position
            if tensors is None:
                raise MismatchError(f"{first.message} from rank {self.peer} has no metadata on rank {self.rank}")
            if self.debug:
                header = empty_header(self.device)
                self.wait_for(Flight(first.message, self._post([header], first.message), (header,)), sending=False)
                check_header(header, first.message, tensors, self.peer, self.rank)
            self._receive(self.queue.popleft(), tensors)
            progress.message = None
            progress.peer = -1

    def _receive(self, receipt: ChannelReceipt, tensors: Tensors) -> None:
        parts = [_make_movable(tensor, streams=self.streams) for tensor in tensors if tensor.numel()]
        receipt.flight = Flight(receipt.message, self._post(parts, receipt.message), tensors)
        if self.streams:
            self.flights.append(receipt.flight)

    def _post(self, parts: list[torch.Tensor], message: Message) -> list[Work]:
        try:
            return [self.group.recv([part], SENDER, 0) for part in parts]
        except RuntimeError as error:
            raise self.fail(error, message, sending=False) from error


class ChannelReceipt(Receipt):
    """A receive, posted or not yet."""

    __slots__ = ("channel", "done", "flight", "message", "target")

    def __init__(self, channel: Incoming, message: Message, target: Target) -> None:
        self.channel = channel
        self.message = message
        self.target = target
        self.flight: Flight | None = None
        self.done = False

    def wait(self) -> Tensors:
        """Wait for the tensors. A second wait gives them again: Gloo would wait for another message.

        Raises:
            PeerError: The peer died or took too long.
            MismatchError: Debug mode: another message came. Or the target has no metadata.
        """
        if self.flight is None:
            self.channel.catch_up(self)
        flight: Flight = self.flight  # type: ignore[assignment]  # it has caught up
        if not self.done and flight.works:
            self.channel.wait_for(flight, sending=False)
        self.done = True
        return flight.tensors


def _write_out(tensor: torch.Tensor) -> torch.Tensor:
    """Give a tensor as it is in memory, in one piece: itself, or a copy where it is strided, or conjugated or negated on reading."""
    if not tensor.is_contiguous() or tensor.is_conj() or tensor.is_neg():
        return tensor.detach().resolve_conj().resolve_neg().contiguous()
    return tensor


def _make_movable(tensor: torch.Tensor, *, streams: bool) -> torch.Tensor:
    """Give a tensor in one piece as a type that can be moved: itself, or a view of its bytes."""
    return tensor.detach().view(-1).view(torch.uint8) if streams and tensor.dtype not in _NCCL_TYPES else tensor
