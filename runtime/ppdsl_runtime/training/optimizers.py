"""Optimizers, the same on every rank and under every layout."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import torch

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torch import nn

OptimizerName = Literal["adamw", "sgd"]


def make_optimizer(
    name: OptimizerName, parameters: Iterable[nn.Parameter], *, lr: float, weight_decay: float = 0.0
) -> torch.optim.Optimizer | None:
    """Make the optimizer of one rank's parameters.

    Copies of a tied weight start equal, have equal gradients and so stay equal.

    Args:
        name: ``adamw`` (betas 0.9 and 0.95, eps 1e-8) or ``sgd``.
        parameters: This rank's; those that are frozen are left out.
        lr: Learning rate.
        weight_decay: The same for all parameters.

    Returns:
        The optimizer; None for a rank that has nothing to train.
    """
    trained = [parameter for parameter in parameters if parameter.requires_grad]
    if not trained:
        return None
    if name == "sgd":
        return torch.optim.SGD(trained, lr=lr, weight_decay=weight_decay)
    return torch.optim.AdamW(trained, lr=lr, betas=(0.9, 0.95), eps=1e-8, weight_decay=weight_decay)
