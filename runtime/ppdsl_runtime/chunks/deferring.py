"""Weight gradients put off: a split backward does everything in its first half but the matrix products of the weights of linear layers.

A linear layer is ``torch.nn.Linear`` itself, not a subclass, or the ``Conv1D`` of transformers, outside of what is compiled. All other
parameters get their gradients in the first half, so that a chunk that is checkpointed is recomputed once, and a chunk without parameters is
nothing special.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import torch
from torch import nn
from torch.autograd.graph import get_gradient_edge

from ppdsl_runtime.chunks.engine import run_backward

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ppdsl_runtime.executor.buffers import Slot


class _Product(NamedTuple):
    """What a weight's gradient is made of.

    Attributes:
        weight: The parameter.
        inputs: What the layer was called with.
        gradient: The gradient of what it gave.
        transposed: Whether the weight is stored as (in, out), as that of ``Conv1D`` is.
    """

    weight: nn.Parameter
    inputs: torch.Tensor
    gradient: torch.Tensor
    transposed: bool

    def make(self) -> torch.Tensor:
        """Give the gradient of the weight."""
        rows = self.inputs.reshape(-1, self.inputs.shape[-1])
        columns = self.gradient.reshape(-1, self.gradient.shape[-1])
        return rows.t() @ columns if self.transposed else columns.t() @ rows


class Store:
    """The weight gradients that one backward has put off.

    Attributes:
        products: What they are made of.
    """

    __slots__ = ("products",)

    def __init__(self) -> None:
        self.products: list[_Product] = []

    def starts(self) -> set[int]:
        """Give where the memory of each gradient that is kept here begins."""
        return {start_of(product.gradient) for product in self.products}

    def separate(self, slot: Slot) -> None:
        """Copy the gradients that lie in a receive buffer, which is used again before the weights' turn comes."""
        for place, product in enumerate(self.products):
            if slot.holds(product.gradient):
                self.products[place] = product._replace(gradient=product.gradient.clone())

    @torch.no_grad()
    def run(self) -> None:
        """Make the weight gradients, and accumulate them as a backward would: by each parameter's own node, its hooks included.

        One weight comes after the other, so that only one gradient is held besides those accumulated.
        """
        weights: dict[nn.Parameter, list[_Product]] = {}
        for product in self.products:
            weights.setdefault(product.weight, []).append(product)
        self.products.clear()
        for weight, products in weights.items():
            gradient = products.pop().make()
            while products:
                gradient += products.pop().make()
            run_backward((get_gradient_edge(weight),), (gradient.to(weight.dtype),))


def start_of(tensor: torch.Tensor) -> int:
    """Give the address of the memory that a tensor is a part of."""
    values = tensor._values() if tensor.is_sparse else tensor  # noqa: SLF001 -- the public name refuses what is not coalesced
    return values.untyped_storage().data_ptr()


class Deferral:
    """The linear layers of a rank's chunks, taught to put off their weight gradients.

    Attributes:
        active: Whether forwards are done so that their backwards put off weight gradients: within steps that split backwards.
        store: Where they are put by the backward that is under way.
    """

    def __init__(self, modules: Iterable[nn.Module]) -> None:
        """Change the layers' ``forward`` until ``remove``.

        Args:
            modules: The chunks. Layers whose weights are sharded, or whose ``forward`` was changed already, are left alone.
        """
        self.active = False
        self.store = Store()
        self._layers: list[nn.Module] = []
        anchor = torch.empty(0, requires_grad=True)
        for module in modules:
            for layer in _find_linears(module):
                layer.forward = partial(_forward, cast("nn.Linear", layer), self, anchor, layer.forward)
                self._layers.append(layer)

    @contextmanager
    def putting_off(self) -> Iterator[Store]:
        """Gather the weight gradients of the backward inside."""
        store = self.store = Store()
        try:
            yield store
        finally:
            self.store = Store()

    def remove(self) -> None:
        """Give the layers their own ``forward`` back."""
        for layer in self._layers:
            del layer.forward
        self._layers.clear()


def _find_linears(module: nn.Module) -> Iterator[nn.Module]:
    transformers = sys.modules.get("transformers.pytorch_utils")
    kinds = {nn.Linear, getattr(transformers, "Conv1D", nn.Linear)}
    if _is_sharded(module):
        return
    for layer in module.modules():
        if type(layer) in kinds and "forward" not in vars(layer) and type(layer.weight) is nn.Parameter:
            yield layer


def _is_sharded(module: nn.Module) -> bool:
    """Whether weights come and go, as with ``fully_shard``: a gradient put off would find its weight gone."""
    sharding = sys.modules.get("torch.distributed.fsdp")
    kind = getattr(sharding, "FSDPModule", None)
    return kind is not None and any(isinstance(part, kind) for part in module.modules())


def _forward(layer: nn.Linear, deferral: Deferral, anchor: torch.Tensor, plain: Any, inputs: torch.Tensor) -> torch.Tensor:  # noqa: ANN401 -- the layer's own forward
    """Do what the layer does, with its weight gradient put off."""
    weight = layer.weight
    bias: torch.Tensor | None = layer.bias
    compiled = torch.compiler.is_compiling()  # what a traced backward does to the store may be lost
    if compiled or not (deferral.active and torch.is_grad_enabled() and weight.requires_grad and type(weight) is nn.Parameter):
        return plain(inputs)  # type: ignore[no-any-return]
    kind = inputs.device.type
    if torch.is_autocast_enabled(kind) and inputs.dtype != torch.float64:
        dtype = torch.get_autocast_dtype(kind)
        inputs = inputs.to(dtype)
        bias = None if bias is None else bias.to(dtype)
    output: torch.Tensor = _PutOff.apply(inputs, bias, anchor, layer, deferral)  # type: ignore[no-untyped-call]  # torch leaves it untyped
    return output


class _PutOff(torch.autograd.Function):
    """A linear layer whose backward stores what the gradient of its weight is made of.

    The weight is no input of it, so that its node and its hooks do not run in the first half; the anchor makes the output need a gradient.
    """

    @staticmethod
    def forward(  # noqa: PLR0913, PLR0917 -- autograd takes them by position
        ctx: Any,  # noqa: ANN401 -- autograd's
        inputs: torch.Tensor,
        bias: torch.Tensor | None,
        anchor: torch.Tensor,  # noqa: ARG004 -- needs a gradient, and nothing else
        layer: nn.Linear,
        deferral: Deferral,
    ) -> torch.Tensor:
        weight = layer.weight
        cast = weight if weight.dtype == inputs.dtype or not torch.is_autocast_enabled(inputs.device.type) else weight.to(inputs.dtype)
        ctx.save_for_backward(inputs, cast)
        ctx.weight, ctx.deferral = weight, deferral
        ctx.transposed = type(layer) is not nn.Linear
        if not ctx.transposed:
            return nn.functional.linear(inputs, cast, bias)
        shape = (*inputs.shape[:-1], cast.shape[1])
        rows = inputs.reshape(-1, inputs.shape[-1])
        return (rows @ cast if bias is None else torch.addmm(bias, rows, cast)).view(shape)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, torch.Tensor | None, None, None, None]:  # noqa: ANN401 -- autograd's
        inputs, weight = ctx.saved_tensors
        ctx.deferral.store.products.append(_Product(ctx.weight, inputs, gradient, ctx.transposed))
        wants_inputs, wants_bias, *_ = ctx.needs_input_grad
        of_inputs = gradient @ (weight.t() if ctx.transposed else weight) if wants_inputs else None
        of_bias = gradient.reshape(-1, gradient.shape[-1]).sum(0) if wants_bias else None
        return of_inputs, of_bias, None, None, None
