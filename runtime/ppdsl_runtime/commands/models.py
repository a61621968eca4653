"""Which model is asked for, checked before any of its memory is taken."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from ppdsl_runtime.models import open_weights, read_shape

if TYPE_CHECKING:
    from ppdsl_runtime.commands.options import ModelValues
    from ppdsl_runtime.models import ModelShape, WeightSource

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16, "fp64": torch.float64}


def choose_model(values: ModelValues) -> tuple[ModelShape, WeightSource | None]:
    """Read the model's sizes, and open its weights; nothing of them is read yet.

    Returns:
        The sizes, and the weights; None for random ones.

    Raises:
        ValueError: There is no such model, the weights cannot be read or have other sizes, or the sequences are too long for it.
        OSError: The weights cannot be read.
    """
    name, path, dropout = values["model"], values["weights"], values["dropout"]
    weights = None if path is None else open_weights(path)
    shape = weights.shape if name is None and weights is not None else read_shape("gpt2-tiny" if name is None else name)
    if dropout is not None:
        shape = replace(shape, dropout=dropout)
    if weights is not None:
        weights.check(shape)
    if values["seq"] > shape.max_positions:
        raise ValueError(f"--seq is {values['seq']:,}, the model has {shape.max_positions:,} positions")
    return shape, weights
