"""Optimizers, the same on every rank and under every layout."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import torch

from ppdsl_runtime.chunks.accumulating import grad_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torch import nn

OptimizerName = Literal["adamw", "sgd"]

_HALF = frozenset({torch.bfloat16, torch.float16})


class Optimizer:
    """Updates the parameters of one rank; those of 16 bits by way of copies in fp32.

    In 16 bits a small update of a large parameter is lost, and fp16 takes AdamW's eps, and the squares of most gradients, for 0: what is
    divided by them is not finite. Copies of a tied weight start equal, have equal gradients and so stay equal.
    """

    def __init__(self, name: OptimizerName, parameters: Iterable[nn.Parameter], *, lr: float, weight_decay: float = 0.0) -> None:
        """Make one.

        Args:
            name: ``adamw`` (betas 0.9 and 0.95, eps 1e-8) or ``sgd``.
            parameters: This rank's, perhaps none; one that is there twice counts once, and those that are frozen are left out.
            lr: Learning rate.
            weight_decay: The same for all parameters.
        """
        trained = [weight for weight in dict.fromkeys(parameters) if weight.requires_grad]
        self._copies = [(weight, weight.detach().float()) for weight in trained if weight.dtype in _HALF]
        updated = [*(weight for weight in trained if weight.dtype not in _HALF), *(copy for _, copy in self._copies)]
        self._inner: torch.optim.Optimizer | None = None  # a rank that has nothing to train has none
        if updated and name == "sgd":
            self._inner = torch.optim.SGD(updated, lr=lr, weight_decay=weight_decay)
        elif updated:
            self._inner = torch.optim.AdamW(updated, lr=lr, betas=(0.9, 0.95), eps=1e-8, weight_decay=weight_decay)

    @torch.no_grad()
    def step(self) -> None:
        """Update the parameters by their gradients, wherever those are kept."""
        if self._inner is None:
            return
        for weight, copy in self._copies:
            gradient = grad_of(weight)
            copy.grad = None if gradient is None else gradient.float()
        self._inner.step()
        for weight, copy in self._copies:
            weight.copy_(copy)
            copy.grad = None
