"""One stage in a program: its forwards and backwards, and what it hands to its neighbours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.autograd.graph import GradientEdge, get_gradient_edge

from ppdsl_runtime.chunks.engine import run_backward

if TYPE_CHECKING:
    from ppdsl_runtime.chunks.deferring import Store
    from ppdsl_runtime.chunks.running import Runner
    from ppdsl_runtime.executor.buffers import Slot
    from ppdsl_runtime.executor.ports import BackwardPort, ForwardPort, Tensors
    from ppdsl_runtime.losses import Losses


class Stage:
    """The work of one stage, for one number of microbatches.

    Between its forward and its backward it holds the payload and the gradient edges of its outputs; the outputs themselves are let go of
    as soon as they are handed on.

    Attributes:
        number: Its number.
        runner: Runs its chunk.
        payloads: What its forward is called with, by microbatch.
        sides: Its keyword inputs, by microbatch.
        edges: Where its backward starts, by microbatch.
        gradients: What its backward starts with, by microbatch.
        stores: The weight gradients put off, by microbatch.
        incoming: Where its payloads come from, None where that is this rank or the step's inputs.
        outgoing: Where its outputs go, None where that is this rank or the loss.
        previous: The stage before it, where that is on this rank.
        next: The stage behind it, where that is on this rank.
        splits: Whether any backward of this rank is split in two.
    """

    incoming: ForwardPort | None = None
    outgoing: BackwardPort | None = None
    previous: Stage | None = None
    next: Stage | None = None

    def __init__(self, number: int, runner: Runner, batches: int, *, splits: bool) -> None:
        self.number = number
        self.runner = runner
        self.splits = splits
        self.payloads: list[Tensors | None] = [None] * batches
        self.sides: list[dict[str, Any]] = [{} for _ in range(batches)]
        self.edges: list[list[GradientEdge] | None] = [None] * batches
        self.gradients: list[Tensors | None] = [None] * batches
        self.stores: list[Store | None] = [None] * batches
        self._run = runner.run

    def forward(self, batch: int) -> None:
        """Do a microbatch's forward and hand its outputs on."""
        output = self._run(self.payloads[batch], self.sides[batch], batch)
        outputs = (output,) if isinstance(output, torch.Tensor) else _as_tuple(output, self.number)
        if self.outgoing is not None:
            self.outgoing.edge.check(batch, outputs)
        edges = self.edges[batch] = [get_gradient_edge(tensor) for tensor in outputs if tensor.requires_grad]
        self._hand_on(batch, outputs, graph=bool(edges))

    def evaluate(self, batch: int) -> None:
        """Do a microbatch's forward without a graph, and hand its outputs on."""
        output = self._run(self.payloads[batch], self.sides[batch], batch)
        outputs = (output,) if isinstance(output, torch.Tensor) else _as_tuple(output, self.number)
        if self.outgoing is not None:
            self.outgoing.edge.check(batch, outputs)
        self._hand_on(batch, outputs, graph=False)
        self.payloads[batch] = None

    def _hand_on(self, batch: int, outputs: Tensors, *, graph: bool) -> None:
        """Give the outputs, cut off from the graph, to the next stage or to its rank.

        What lies in a receive buffer, passed through by the chunk, is copied where the buffer may be used again before the next stage is
        done with it: a gradient that must come back first holds it, but not for a stage of this rank that puts off its weight gradients.
        """
        slot = None if self.incoming is None else self.incoming.slots[batch]
        following, outgoing = self.next, self.outgoing
        held = slot is None or (graph and (following is None or not self.splits))
        if outgoing is not None:
            data = [tensor.data for tensor in outputs]
            if not held:
                data = [slot.separate(tensor) for tensor in data]  # type: ignore[union-attr]  # held where it is None
            outgoing.outputs[batch] = tuple([tensor.contiguous() for tensor in data])
        elif following is not None:
            following.payloads[batch] = tuple([_hand_over(tensor, None if held else slot, graph=graph) for tensor in outputs])

    def backward(self, batch: int) -> None:
        """Do a microbatch's backward and hand the gradients of its payload back."""
        edges, gradients = self.edges[batch], self.gradients[batch]
        self.edges[batch] = self.gradients[batch] = None
        if edges:
            run_backward(edges, gradients or ())
        self._hand_back(batch)

    def input_gradient(self, batch: int) -> None:
        """Do a microbatch's backward but for the weight gradients that can be put off."""
        edges, gradients = self.edges[batch], self.gradients[batch]
        self.edges[batch] = self.gradients[batch] = None
        if edges:
            slot = None if self.outgoing is None else self.outgoing.slots[batch]
            with self.runner.putting_off() as store:
                run_backward(edges, gradients or ())
            if slot is not None:
                store.separate(slot)
            self.stores[batch] = store
        self._hand_back(batch)

    def weight_gradient(self, batch: int) -> None:
        """Do the weight gradients that were put off."""
        store = self.stores[batch]
        self.stores[batch] = None
        if store is not None:
            store.run()

    def whole_backward(self, batch: int) -> None:
        """Do both halves at once, where other backwards of the chunk are split."""
        self.input_gradient(batch)
        self.weight_gradient(batch)

    def finish(self) -> None:
        """End a step: let go of the keyword inputs, which are parts of what the caller gave, and of what a step that failed has left."""
        batches = len(self.sides)
        self.sides[:] = [{} for _ in range(batches)]
        held: list[list[Any]] = [self.payloads, self.edges, self.gradients, self.stores]
        if self.incoming is not None:
            held.append(self.incoming.returned)
        if self.outgoing is not None:
            held.append(self.outgoing.outputs)
        for values in held:
            values[:] = [None] * batches

    def _hand_back(self, batch: int) -> None:
        payload = self.payloads[batch]
        self.payloads[batch] = None
        slot = None if self.outgoing is None else self.outgoing.slots[batch]
        self.runner.separate_grads(slot, payload)
        if self.incoming is None and self.previous is None:
            return
        found = []
        for tensor in payload:  # type: ignore[union-attr]  # the program does the forward first
            if tensor.requires_grad:
                gradient = tensor.grad
                if gradient is None:  # nobody used it
                    gradient = torch.zeros_like(tensor, requires_grad=False)
                elif slot is not None:
                    gradient = slot.separate(gradient)
                found.append(gradient)
        self._give_back(batch, tuple(found))

    def _give_back(self, batch: int, gradients: Tensors) -> None:
        if self.incoming is not None:
            self.incoming.returned[batch] = gradients
        elif self.previous is not None:
            self.previous.gradients[batch] = gradients


class EmptyStage(Stage):
    """A stage without a chunk, not the last: it passes on what it receives, and the gradients back."""

    def forward(self, batch: int) -> None:
        """Hand the payload on."""
        payload: Tensors = self.payloads[batch] or ()
        if self.outgoing is not None:
            self.outgoing.edge.check(batch, payload)
        self._hand_on(batch, payload, graph=any(tensor.requires_grad for tensor in payload))
        self.payloads[batch] = None

    def evaluate(self, batch: int) -> None:
        """Hand the payload on."""
        self.forward(batch)

    def backward(self, batch: int) -> None:
        """Hand the gradients back."""
        gradients: Tensors = self.gradients[batch] or ()
        self.gradients[batch] = None
        slot = None if self.outgoing is None else self.outgoing.slots[batch]
        if slot is not None:
            gradients = tuple([slot.separate(gradient) for gradient in gradients])
        self._give_back(batch, gradients)

    def input_gradient(self, batch: int) -> None:
        """Hand the gradients back."""
        self.backward(batch)


class LastStage(Stage):
    """The stage whose output goes to the loss.

    Attributes:
        losses: Takes the losses, and gives the gradients that the backwards start with.
    """

    losses: Losses

    def forward(self, batch: int) -> None:
        """Do a microbatch's forward and its loss."""
        loss = self.losses.take(self._run(self.payloads[batch], self.sides[batch], batch), batch)
        if loss.requires_grad:
            self.edges[batch] = [get_gradient_edge(loss)]
            self.gradients[batch] = (self.losses.seed(batch),)

    def evaluate(self, batch: int) -> None:
        """Do a microbatch's forward and its loss without a graph."""
        self.losses.take(self._run(self.payloads[batch], self.sides[batch], batch), batch)
        self.payloads[batch] = None


def _as_tuple(output: object, stage: int) -> Tensors:
    if isinstance(output, (tuple, list)) and all(isinstance(tensor, torch.Tensor) for tensor in output):
        return tuple(output)
    raise TypeError(f"stage {stage} gives {type(output).__name__}, not a tensor or a tuple of tensors")


def _hand_over(tensor: torch.Tensor, slot: Slot | None, *, graph: bool) -> torch.Tensor:
    """Give the same memory with a count of versions of its own; a copy of what the graph may hold and the next stage may write to."""
    data = tensor.data
    if slot is not None:
        data = slot.separate(data)
    if tensor.requires_grad:
        return data.requires_grad_()
    return data.clone() if graph else data
