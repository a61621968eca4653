"""What the executor needs of a transport. It has three: torch.distributed, threads that rendezvous, and one that does nothing."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch

    from ppdsl_runtime.progress import Progress
    from ppdsl_runtime.transport.messages import Message, Metadata

Target = Callable[[bool], "tuple[torch.Tensor, ...] | None"]
"""Gives the tensors that a receive writes into, each in one piece.

Called with False it answers None where the metadata of the edge are not known yet; called with True it waits until they are.
"""


class Receipt(ABC):
    """A receive under way."""

    @abstractmethod
    def wait(self) -> tuple[torch.Tensor, ...]:
        """Wait until the tensors are there and give them. On a CUDA device the stream waits, not the host."""


class Transport(ABC):
    """One rank's end of all the channels of a pipeline.

    Attributes:
        rank: The pipeline rank.
        size: Number of pipeline ranks.
        device: Where the tensors are.
        progress: Where the rank is: the executor writes its instruction, the transport the message that it waits for.
    """

    rank: int
    size: int
    device: torch.device
    progress: Progress

    @abstractmethod
    def send(self, peer: int, message: Message, tensors: tuple[torch.Tensor, ...]) -> None:
        """Begin to send. The transport holds the tensors until they are sent; nobody may write to them. An empty tuple is a message too."""

    @abstractmethod
    def post(self, peer: int, message: Message, target: Target) -> Receipt:
        """Begin to receive. Messages of a channel, a (sender, receiver) pair, come in the order in which they are posted."""

    @abstractmethod
    def finish(self) -> None:
        """End a step: wait until all that was sent has gone. On a CUDA device the stream waits, not the host."""

    @abstractmethod
    def announce(self, key: str, edge: int, metadata: Metadata) -> None:
        """Tell the receiver of an edge, once for each key, what comes over it for microbatches of that key. Never blocks."""

    @abstractmethod
    def look_up(self, key: str, edge: int, *, wait: bool) -> Metadata | None:
        """Give what was announced; None where nothing was yet and ``wait`` is not set."""

    @abstractmethod
    def all_reduce(self, tensor: torch.Tensor, ranks: Sequence[int]) -> None:
        """Sum a tensor over some ranks, in place. All of them call it, in one order; ``ranks`` is sorted and holds this rank."""

    @abstractmethod
    def broadcast(self, value: Any, source: int) -> Any:  # noqa: ANN401 -- anything that can be pickled
        """Give every rank the value of one of them. All ranks call it. For small values, over the CPU."""

    @abstractmethod
    def gather(self, value: Any) -> list[Any]:  # noqa: ANN401 -- anything that can be pickled
        """Give every rank the values of all, by rank. All ranks call it. For small values, over the CPU."""

    @abstractmethod
    def close(self) -> None:
        """Let go of everything. The transport cannot be used afterwards."""
