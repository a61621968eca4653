"""What a training run is told, whatever its layout."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from ppdsl_runtime.data import Batches
    from ppdsl_runtime.models import ChunkBuilder, ModelShape, WeightSource
    from ppdsl_runtime.training.optimizers import OptimizerName


@dataclass(frozen=True, slots=True)
class TrainSettings:
    """What is trained, on what, and how.

    Attributes:
        shape: The model's sizes.
        batches: The data.
        weights: Where the weights come from; None for random ones.
        steps: Number of optimizer steps.
        lr: Learning rate.
        optimizer: Its name.
        weight_decay: The same for all parameters.
        clip: The norm that the gradients are clipped to; None for no clipping.
        seed: Of random weights, and of dropout.
        dtype: Of the parameters.
        autocast: The element type that forwards are cast to; None for no autocast.
        fp32_grads: Whether parameters of 16 bits accumulate their gradients in fp32.
        dump_gradients: Where each parameter's gradient of the first step is written; None for nowhere.
        log: Where a line of JSON for each step is written; None for nowhere.
        quiet: Whether to show no progress.
    """

    shape: ModelShape
    batches: Batches
    weights: WeightSource | None = None
    steps: int = 20
    lr: float = 1e-3
    optimizer: OptimizerName = "adamw"
    weight_decay: float = 0.0
    clip: float | None = None
    seed: int = 0
    dtype: torch.dtype = torch.float32
    autocast: torch.dtype | None = None
    fp32_grads: bool = False
    dump_gradients: str | None = None
    log: str | None = None
    quiet: bool = False

    @property
    def dropout_seed(self) -> int | None:
        """The seed of dropout; None where the model has none."""
        return self.seed if self.shape.dropout else None

    @property
    def tokens(self) -> int:
        """Tokens of a step."""
        return self.batches.batch * self.batches.seq

    def make_builder(self, device: torch.device) -> ChunkBuilder:
        """Give what builds the model's chunks on a device."""
        from ppdsl_runtime.models import ChunkBuilder  # noqa: PLC0415 -- loads transformers

        return ChunkBuilder(self.shape, self.weights, seed=self.seed, dtype=self.dtype, device=device)
