"""Building the chunks of a plan, with the same weights under every layout."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from ppdsl_runtime.models.families import Family, make_family
from ppdsl_runtime.models.modules import ModelChunk, make_chunk_module
from ppdsl_runtime.models.random_weights import RandomWeights
from ppdsl_runtime.models.weights import WeightsError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ppdsl import Chunk
    from ppdsl_runtime.models.shapes import ModelShape
    from ppdsl_runtime.models.weights import WeightSource


class ChunkBuilder:
    """Builds one rank's chunks, or those of several ranks in one process: the ``make_chunk`` of ``build(plan, make_chunk)``.

    It is for one model: chunks of one rank share one parameter where their weights are tied. Chunks of different ranks share none.

    Attributes:
        shape: The model's sizes.
        weights: Where the weights come from.
        dtype: Of the parameters. Weights are made or read first, and cast then.
        device: Where the parameters are.
    """

    def __init__(
        self,
        shape: ModelShape,
        weights: WeightSource | None = None,
        *,
        seed: int = 0,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> None:
        """Make a builder; nothing large is allocated.

        Args:
            shape: The model's sizes.
            weights: Where the weights come from; None is random ones.
            seed: Of random weights.
            dtype: Of the parameters.
            device: Where the parameters are to be.

        Raises:
            ValueError: The weights are those of a model with other sizes.
        """
        self.shape = shape
        self.weights: WeightSource = RandomWeights(shape, seed) if weights is None else weights
        self.weights.check(shape)
        self.dtype = dtype
        self.device = torch.device(device)
        self._family: Family | None = None
        self._shared: dict[tuple[int, str], nn.Parameter] = {}

    def __call__(self, chunk: Chunk) -> ModelChunk | None:
        """Build a chunk.

        Args:
            chunk: One of a plan's.

        Returns:
            The chunk, in training mode; None for one that holds nothing.

        Raises:
            ValueError: It holds layers that the model has not.
            WeightsError: A weight is not there, or does not fit.
        """
        self._check(chunk)
        layers = chunk.layers[0] < chunk.layers[1] or chunk.mtp_layers[0] < chunk.mtp_layers[1]
        if not (layers or chunk.embedding or chunk.final_norm or chunk.loss):
            return None
        if self._family is None:
            self._family = make_family(self.shape)
        family = self._family
        module = construct(lambda: make_chunk_module(family, chunk))
        for name, parameter in [*module.named_parameters(remove_duplicate=False)]:
            _put(module, name, self._make(module, chunk.pp_rank, name, parameter))
        return module

    def _make(self, module: ModelChunk, rank: int, name: str, parameter: nn.Parameter) -> nn.Parameter:
        key = (rank, module.global_name(name))
        if name not in module.tied_names:
            return self._load(key[1], parameter)
        if key not in self._shared:
            self._shared[key] = self._load(key[1], parameter)
        return self._shared[key]

    def _load(self, name: str, parameter: nn.Parameter) -> nn.Parameter:
        try:
            value = self.weights.read(name, tuple(parameter.shape))
        except (ValueError, OSError) as error:
            raise WeightsError(str(error)) from error
        if not value.is_floating_point():
            raise WeightsError(f"{name} is {value.dtype} in the weights, which is no floating dtype")
        if value.shape != parameter.shape:
            raise WeightsError(f"{name} has the shape {[*value.shape]} in the weights, the model needs {[*parameter.shape]}")
        return nn.Parameter(value.to(dtype=self.dtype, device=self.device, copy=True))

    def _check(self, chunk: Chunk) -> None:
        for what, held, there in (("decoder", chunk.layers, self.shape.layers), ("mtp", chunk.mtp_layers, self.shape.mtp_layers)):
            if held[1] > there:
                raise ValueError(f"stage {chunk.stage} holds {what} layers {held[0]} to {held[1] - 1}, the model has {there}")


def construct(make: Callable[[], ModelChunk]) -> ModelChunk:
    """Make a module without filling its parameters, and without touching torch's generators.

    Older versions of transformers keep a causal mask in GPT-2's blocks, and frequencies in LLaMA's, as buffers. They serve ways of
    calling a block that ours is not, and are left out.

    Args:
        make: Makes it.

    Returns:
        The module, its parameters on the meta device.
    """
    with torch.device("meta"):
        module = make()
    for name, _ in [*module.named_buffers()]:
        _put(module, name, None)
    return module


def named_global_parameters(chunks: Iterable[nn.Module | None], *, primary_only: bool = False) -> dict[str, nn.Parameter]:
    """Give chunks' parameters by the names they have in the whole model, whatever the layout.

    Args:
        chunks: What a ``ChunkBuilder`` built; None is passed over.
        primary_only: Leave out copies of a tied weight whose original, with E, is in another chunk. Over all ranks each name then comes
            once.

    Returns:
        Each once, in the order of the chunks; of several copies of a tied weight the first.

    Raises:
        TypeError: A chunk was not built by a ``ChunkBuilder``.
    """
    named: dict[str, nn.Parameter] = {}
    for chunk in _only_ours(chunks):
        for name, parameter in chunk.named_parameters():
            if not (primary_only and name in chunk.tied_names and not chunk.chunk.embedding):
                named.setdefault(chunk.global_name(name), parameter)
    return named


def tied_parameters(chunks: Iterable[nn.Module | None]) -> dict[str, nn.Parameter]:
    """Give those of one rank's parameters of which other chunks hold copies, by global name; their gradients are to be summed.

    Args:
        chunks: One rank's chunks, which share one parameter among them; None is passed over.

    Raises:
        TypeError: A chunk was not built by a ``ChunkBuilder``.
    """
    return {
        chunk.global_name(name): parameter
        for chunk in _only_ours(chunks)
        for name, parameter in chunk.named_parameters()
        if name in chunk.tied_names
    }


def _only_ours(chunks: Iterable[nn.Module | None]) -> Iterable[ModelChunk]:
    for chunk in chunks:
        if chunk is None:
            continue
        if not isinstance(chunk, ModelChunk):
            raise TypeError(f"a chunk is a {type(chunk).__name__}, which no ChunkBuilder built")
        yield chunk


def _put(module: nn.Module, name: str, value: nn.Parameter | None) -> None:
    path, _, leaf = name.rpartition(".")
    owner: Any = module.get_submodule(path)
    setattr(owner, leaf, value)
