"""Random weights that do not depend on the layout: each parameter has a seed of its own, made from its global name."""

from __future__ import annotations

import math
from hashlib import sha256
from typing import TYPE_CHECKING

import torch

from ppdsl_runtime.models.families import make_family

if TYPE_CHECKING:
    from torch import Tensor

    from ppdsl_runtime.models.shapes import ModelShape

_DEVIATION = 0.02


class RandomWeights:
    """Weights to start training from: normal with deviation 0.02, norms at 1, biases at 0.

    In GPT-2, what writes to the residual stream starts smaller, by the square root of twice the number of layers.

    Attributes:
        shape: The model's sizes.
        seed: Gives, with a parameter's global name, the seed of its values.
    """

    def __init__(self, shape: ModelShape, seed: int = 0) -> None:
        self.shape = shape
        self.seed = seed
        self._smaller: tuple[str, ...] | None = None

    def check(self, shape: ModelShape) -> None:
        """Take any model."""
        self.shape = shape

    def read(self, name: str, shape: tuple[int, ...]) -> Tensor:
        """Make one parameter, in fp32 on the CPU, by a generator of its own."""
        if self._smaller is None:
            self._smaller = make_family(self.shape).residual_names()
        if name.endswith(".bias"):
            return torch.zeros(shape)
        if len(shape) == 1:
            return torch.ones(shape)
        scale = 1 / math.sqrt(2 * self.shape.layers) if self._smaller and name.endswith(self._smaller) else 1.0
        generator = torch.Generator().manual_seed(_make_seed(f"{self.seed} {name}"))
        return torch.empty(shape).normal_(0.0, _DEVIATION * scale, generator=generator)


def _make_seed(text: str) -> int:
    """Give the 63-bit seed that belongs to a text."""
    return int.from_bytes(sha256(text.encode()).digest()[:8], "little") >> 1
