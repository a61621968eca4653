"""What differs between the families of models: blocks, norms, embedding, names. Everything else is in ``modules``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from collections.abc import Callable

    from ppdsl_runtime.models.shapes import ModelShape

_MOST_KEPT = 16
"""Sequence lengths whose positions are kept."""


class Family(ABC):
    """Makes the parts of a model, and runs them.

    Attributes:
        shape: The model's sizes.
        trunk: Name of the module that holds all but the lm-head, as in transformers.
        blocks: Name, inside it, of what holds the decoder layers.
        word_embedding: Name, inside it, of the word embedding.
        final_norm: Name, inside it, of the final norm.
    """

    trunk: ClassVar[str]
    blocks: ClassVar[str]
    word_embedding: ClassVar[str]
    final_norm: ClassVar[str]

    def __init__(self, shape: ModelShape) -> None:
        self.shape = shape
        self._kept: dict[tuple[object, ...], tuple[Tensor, ...]] = {}

    @property
    def embedding_name(self) -> str:
        """The global name of the word embedding's weight."""
        return f"{self.trunk}.{self.word_embedding}.weight"

    @abstractmethod
    def make_block(self, layer: int) -> nn.Module:
        """Make a decoder layer, its number given for the library's own records."""

    @abstractmethod
    def make_norm(self) -> nn.Module:
        """Make a norm over the hidden size."""

    @abstractmethod
    def make_positions(self) -> dict[str, nn.Module]:
        """Make what the embedding has besides the words, by its name in the trunk."""

    @abstractmethod
    def embed(self, words: Tensor, trunk: nn.ModuleDict) -> Tensor:
        """Turn embedded words (batch, seq, hidden) into the first hidden state, of the same shape."""

    @abstractmethod
    def prepare(self, hidden: Tensor) -> dict[str, object]:
        """Give the keywords, other than the hidden state, that every block of a forward takes."""

    @abstractmethod
    def residual_names(self) -> tuple[str, ...]:
        """Give the ends of names of weights that write to the residual stream, and start smaller the more layers there are."""

    def _keep(self, hidden: Tensor, make: Callable[[Tensor], tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
        """Give what depends on the sequence length alone, made once for each."""
        if type(hidden) is not Tensor:  # a fake one, or one of a mesh: not to be mixed with others
            return make(torch.arange(hidden.shape[1], device=hidden.device)[None])
        key = (hidden.shape[1], hidden.dtype, hidden.device, torch.is_inference_mode_enabled())
        kept = self._kept.get(key)
        if kept is None:
            if len(self._kept) >= _MOST_KEPT:
                self._kept.clear()
            kept = self._kept[key] = make(torch.arange(hidden.shape[1], device=hidden.device)[None])
        return kept


def make_family(shape: ModelShape) -> Family:
    """Give the family of a shape. The library transformers is first loaded here, which takes seconds."""
    if shape.family == "gpt2":
        from ppdsl_runtime.models.gpt2 import Gpt2Family  # noqa: PLC0415 -- a slow import

        return Gpt2Family(shape)
    from ppdsl_runtime.models.llama import LlamaFamily  # noqa: PLC0415 -- a slow import

    return LlamaFamily(shape)
