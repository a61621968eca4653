"""What a stage receives and sends, microbatch by microbatch."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ppdsl_runtime.transport.messages import Message

if TYPE_CHECKING:
    import torch

    from ppdsl_runtime.executor.buffers import Slot
    from ppdsl_runtime.executor.edges import Edge
    from ppdsl_runtime.transport.interface import Receipt, Target, Transport

Tensors = tuple["torch.Tensor", ...]


class ForwardPort:
    """The activations that a stage gets from another rank, and the gradients that it returns for them.

    Attributes:
        payloads: What has come, by microbatch, until the backward is done with it.
        returned: The gradients that are to be sent back, by microbatch.
        slots: The receive buffer of each microbatch.
    """

    __slots__ = ("_edge", "_gradients", "_messages", "_peer", "_receipts", "_targets", "_transport", "payloads", "returned", "slots")

    def __init__(self, edge: Edge, peer: int, transport: Transport, payloads: list[Tensors | None]) -> None:
        batches = len(payloads)
        self.payloads = payloads
        self.returned: list[Tensors | None] = [None] * batches
        self.slots: list[Slot | None] = [None] * batches
        self._edge = edge
        self._peer = peer
        self._transport = transport
        self._receipts: list[Receipt | None] = [None] * batches
        self._targets: list[Target | None] = [None] * batches
        self._messages = [Message(edge.number, "F", batch) for batch in range(batches)]
        self._gradients = [Message(edge.number, "B", batch) for batch in range(batches)]

    def use(self, batch: int, slot: Slot) -> None:
        """Receive a microbatch's activation into a buffer, in every step."""
        self.slots[batch] = slot
        self._targets[batch] = partial(self._find_target, batch, slot)

    def _find_target(self, batch: int, slot: Slot, wait: bool) -> Tensors | None:  # noqa: FBT001 -- a Target takes it by position
        forms = self._edge.forms[batch] or self._edge.expect(batch, wait=wait)
        return None if forms is None else slot.take(forms[0])

    def post(self, batch: int) -> None:
        """Begin to receive an activation."""
        self._receipts[batch] = self._transport.post(self._peer, self._messages[batch], self._targets[batch])  # type: ignore[arg-type]  # bound

    def wait(self, batch: int) -> None:
        """Wait for an activation, and mark what needs a gradient."""
        tensors = self._receipts[batch].wait()  # type: ignore[union-attr]  # the program posts before it waits
        self._receipts[batch] = None
        forms = self._edge.forms[batch]
        for tensor, meta in zip(tensors, forms[0]):  # type: ignore[index]  # noqa: B905 -- known once it has come, and as many
            if meta.needs_grad:
                tensor.requires_grad_()
        self.payloads[batch] = tensors

    def send(self, batch: int) -> None:
        """Send the gradients back."""
        tensors = self.returned[batch]
        self.returned[batch] = None
        self._transport.send(self._peer, self._gradients[batch], tensors)  # type: ignore[arg-type]  # the program computes before it sends


class BackwardPort:
    """The activations that a stage sends to another rank, and the gradients that come back for them.

    Attributes:
        edge: The cut behind the stage.
        outputs: What is to be sent, by microbatch.
        gradients: What has come back, by microbatch.
        slots: The receive buffer of each microbatch's gradients.
    """

    __slots__ = ("_gradients", "_messages", "_peer", "_receipts", "_targets", "_transport", "edge", "gradients", "outputs", "slots")

    def __init__(self, edge: Edge, peer: int, transport: Transport, gradients: list[Tensors | None]) -> None:
        batches = len(gradients)
        self.edge = edge
        self.gradients = gradients
        self.outputs: list[Tensors | None] = [None] * batches
        self.slots: list[Slot | None] = [None] * batches
        self._peer = peer
        self._transport = transport
        self._receipts: list[Receipt | None] = [None] * batches
        self._targets: list[Target | None] = [None] * batches
        self._messages = [Message(edge.number, "F", batch) for batch in range(batches)]
        self._gradients = [Message(edge.number, "B", batch) for batch in range(batches)]

    def use(self, batch: int, slot: Slot) -> None:
        """Receive a microbatch's gradients into a buffer, in every step."""
        self.slots[batch] = slot
        self._targets[batch] = partial(self._find_target, batch, slot)

    def _find_target(self, batch: int, slot: Slot, wait: bool) -> Tensors | None:  # noqa: ARG002, FBT001 -- a Target takes it by position
        # not known before the stage's own forward, which any gradient comes after
        forms = self.edge.forms[batch]
        return None if forms is None else slot.take(forms[1])

    def post(self, batch: int) -> None:
        """Begin to receive the gradients."""
        self._receipts[batch] = self._transport.post(self._peer, self._gradients[batch], self._targets[batch])  # type: ignore[arg-type]  # bound

    def wait(self, batch: int) -> None:
        """Wait for the gradients."""
        self.gradients[batch] = self._receipts[batch].wait()  # type: ignore[union-attr]  # the program posts before it waits
        self._receipts[batch] = None

    def send(self, batch: int) -> None:
        """Send an activation; from here on only the transport holds it."""
        tensors = self.outputs[batch]
        self.outputs[batch] = None
        self._transport.send(self._peer, self._messages[batch], tensors)  # type: ignore[arg-type]  # the program computes before it sends
