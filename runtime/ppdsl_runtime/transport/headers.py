"""Debug mode: a header before every message says which one it is, so that a mix-up is found where it happens."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from ppdsl_runtime.transport.faults import MismatchError
from ppdsl_runtime.transport.messages import Message

if TYPE_CHECKING:
    from collections.abc import Iterable

_DIRECTIONS = ("F", "B")


def count_bytes(tensors: Iterable[torch.Tensor]) -> int:
    """Count the bytes of tensors."""
    return sum(tensor.nbytes for tensor in tensors)


def empty_header(device: torch.device) -> torch.Tensor:
    """Give the tensor that a header is received into."""
    return torch.zeros(4, dtype=torch.int64, device=device)


def write_header(message: Message, tensors: Iterable[torch.Tensor], device: torch.device) -> torch.Tensor:
    """Write a header: edge, direction, microbatch, bytes."""
    fields = [message.edge, _DIRECTIONS.index(message.direction), message.microbatch, count_bytes(tensors)]
    return torch.tensor(fields, dtype=torch.int64, device=device)


def check_header(header: torch.Tensor, message: Message, tensors: Iterable[torch.Tensor], peer: int, rank: int) -> None:
    """Compare what came with what is expected. On a CUDA device the host waits for the header.

    Raises:
        MismatchError: It is the header of another message, or of other tensors.
    """
    edge, direction, microbatch, size = header.tolist()
    sent = Message(edge, "B" if direction else "F", microbatch)
    if sent != message:
        raise MismatchError(f"rank {rank} expects {message} from rank {peer}, but got {sent}")
    expected = count_bytes(tensors)
    if size != expected:
        raise MismatchError(f"rank {rank} expects {message} from rank {peer} with {expected} bytes, but it has {size}")
