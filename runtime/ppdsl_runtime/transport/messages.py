"""What goes from one stage to its neighbour: which message, and what its tensors look like."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    import torch

Direction = Literal["F", "B"]
"""Activations go forward, their gradients backward."""


class Message(NamedTuple):
    """The name of a message, the same at both of its ends.

    Attributes:
        edge: Number of the stage before the cut that it crosses: edge 2 is the one between the stages 2 and 3.
        direction: ``F`` for the activations of stage ``edge``, ``B`` for their gradients from stage ``edge + 1``.
        microbatch: Number of the microbatch.
    """

    edge: int
    direction: Direction
    microbatch: int

    def __str__(self) -> str:
        """Say what it is: ``the activation of stage 2 for microbatch 0``."""
        what = f"the activation of stage {self.edge}" if self.direction == "F" else f"the gradient from stage {self.edge + 1}"
        return f"{what} for microbatch {self.microbatch}"


class TensorMeta(NamedTuple):
    """What a receiver has to know of one tensor before it comes.

    Attributes:
        shape: Its sizes.
        dtype: Its element type.
        needs_grad: Whether its sender wants a gradient for it.
    """

    shape: tuple[int, ...]
    dtype: torch.dtype
    needs_grad: bool


Metadata = tuple[TensorMeta, ...]
"""Of all the tensors that cross one edge forward."""


def describe(tensors: Iterable[torch.Tensor]) -> Metadata:
    """Describe tensors as their receiver has to know them."""
    return tuple(TensorMeta(tuple(tensor.shape), tensor.dtype, tensor.requires_grad) for tensor in tensors)


def backward_metadata(forward: Metadata) -> Metadata:
    """Give what comes back across an edge: a gradient for each tensor that needs one."""
    return tuple(meta for meta in forward if meta.needs_grad)
