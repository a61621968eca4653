"""A transport that transfers nothing: it lets one rank run alone, so that its host time can be measured."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from ppdsl_runtime.progress import Progress
from ppdsl_runtime.transport.interface import Receipt, Transport

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ppdsl_runtime.transport.interface import Target
    from ppdsl_runtime.transport.messages import Message, Metadata


class _NoopReceipt(Receipt):
    """Gives the target's tensors, zeroed when their memory is first seen."""

    __slots__ = ("target", "zeroed")

    def __init__(self, target: Target, zeroed: dict[int, int]) -> None:
        self.target = target
        self.zeroed = zeroed

    def wait(self) -> tuple[torch.Tensor, ...]:
        tensors = self.target(True) or ()  # noqa: FBT003 -- a Target takes it by position
        for tensor in tensors:
            address = tensor.data_ptr()
            if self.zeroed.get(address, -1) < tensor.nbytes:
                self.zeroed[address] = tensor.nbytes
                with torch.no_grad():
                    tensor.zero_()
        return tensors


class NoopTransport(Transport):
    """One rank without the others: sends do nothing, receives give the tensors of their target as they are.

    The tensors of a target are zeroed once, when their memory is first seen, since indices of tokens must be valid ones.

    Attributes:
        progress: Where the rank is.
    """

    def __init__(
        self,
        rank: int,
        size: int,
        metadata: Sequence[Metadata],
        *,
        values: Mapping[int, Any] | None = None,
        device: str | torch.device = "cpu",
    ) -> None:
        """Make the only end.

        Args:
            rank: The rank that runs.
            size: Number of ranks that it believes in.
            metadata: What crosses each edge, for any key.
            values: What a broadcast from another rank gives, by that rank; where it is missing, the caller's own value.
            device: Where the tensors are.
        """
        self.rank = rank
        self.size = size
        self.device = torch.device(device)
        self.progress = Progress()
        self._metadata = tuple(metadata)
        self._values = dict(values or {})
        self._zeroed: dict[int, int] = {}

    def send(self, peer: int, message: Message, tensors: tuple[torch.Tensor, ...]) -> None:
        """Do nothing."""

    def post(self, peer: int, message: Message, target: Target) -> Receipt:  # noqa: ARG002 -- nobody is at the other end
        """Give a receipt that never waits."""
        return _NoopReceipt(target, self._zeroed)

    def finish(self) -> None:
        """Do nothing."""

    def announce(self, key: str, edge: int, metadata: Metadata) -> None:
        """Do nothing: what crosses the edges was given at the start."""

    def look_up(self, key: str, edge: int, *, wait: bool) -> Metadata | None:  # noqa: ARG002 -- the same for any key
        """Give what was given at the start.

        Raises:
            IndexError: There is no such edge.
        """
        return self._metadata[edge]

    def all_reduce(self, tensor: torch.Tensor, ranks: Sequence[int]) -> None:
        """Do nothing."""

    def broadcast(self, value: Any, source: int) -> Any:  # noqa: ANN401 -- anything
        """Give the caller's own value, or what was given for that source at the start."""
        return value if source == self.rank else self._values.get(source, value)

    def gather(self, value: Any) -> list[Any]:  # noqa: ANN401 -- anything
        """Give the caller's own value for each rank."""
        return [value] * self.size

    def close(self) -> None:
        """Do nothing."""
