"""The gradients of all ranks taken together: their norm, clipping, and whether all are finite."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from ppdsl_runtime.chunks.accumulating import grad_of, main_grad_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from torch import nn

    from ppdsl_runtime.transport.interface import Transport

_ROOM = 1e-6
"""Added to a norm that is divided by, as ``torch.nn.utils.clip_grad_norm_`` does."""


class Gradients:
    """The gradients of a rank's parameters, each counted once: one that is in two chunks, or has copies on other ranks, too."""

    def __init__(self, parameters: Iterable[nn.Parameter], copies: Iterable[nn.Parameter], transport: Transport) -> None:
        """Say which there are.

        Args:
            parameters: Those of the rank's chunks.
            copies: Those among them that another rank counts.
            transport: Sums over the ranks.
        """
        self._parameters = [*dict.fromkeys(parameters)]
        self._copies = {*copies}
        self._transport = transport

    def _own(self) -> Iterator[torch.Tensor]:
        for weight in self._parameters:
            gradient = grad_of(weight)
            if gradient is not None and weight not in self._copies:
                yield gradient

    def _sum(self, value: torch.Tensor) -> torch.Tensor:
        self._transport.all_reduce(value, range(self._transport.size))
        return value

    @torch.no_grad()
    def norm(self) -> torch.Tensor:
        """Give the Euclidean norm of all gradients, in float64. All ranks call it."""
        total = torch.zeros((), dtype=torch.float64, device=self._transport.device)
        norms = [_whole(_norm_of(gradient)) for gradient in self._own()]
        if norms:
            total += torch.stack([norm.to(total) for norm in norms]).square().sum()
        return self._sum(total).sqrt()

    @torch.no_grad()
    def clip(self, max_norm: float) -> torch.Tensor:
        """Scale all gradients down where their norm is too large. All ranks call it.

        Args:
            max_norm: What the norm may be.

        Returns:
            The norm before.
        """
        norm = self.norm()
        factor = (max_norm / (norm + _ROOM)).clamp(max=1.0)
        for weight in self._parameters:
            gradient = grad_of(weight)
            if gradient is not None:
                gradient.mul_(factor.to(gradient.device, gradient.dtype))
        return norm

    @torch.no_grad()
    def has_non_finite(self) -> bool:
        """Whether any gradient of any rank is infinite or not a number. All ranks call it; it waits for the device."""
        total = torch.zeros((), dtype=torch.float64, device=self._transport.device)
        for gradient in self._own():
            total += _whole((~torch.isfinite(_values_of(gradient))).any().double()).to(total)
        return bool(self._sum(total).item() > 0)

    def zero(self) -> None:
        """Let go of all gradients; those kept in fp32 are set to zero."""
        for weight in self._parameters:
            weight.grad = None
            main = main_grad_of(weight)
            if main is not None:
                main.zero_()


def _norm_of(gradient: torch.Tensor) -> torch.Tensor:
    """Give the norm of one gradient; of one of 16 bits in fp32, since it may be more than fp16 holds."""
    values = _values_of(gradient)
    norm: torch.Tensor = torch.linalg.vector_norm(values, dtype=torch.promote_types(values.dtype, torch.float32))
    return norm


def _values_of(gradient: torch.Tensor) -> torch.Tensor:
    """Give the elements of a gradient; of a sparse one each once, summed where an index is there more than once."""
    return gradient.coalesce().values() if gradient.is_sparse else gradient


def _whole(value: torch.Tensor) -> torch.Tensor:
    """Gather what is spread over the ranks of tensor parallelism."""
    whole: torch.Tensor = value.full_tensor() if hasattr(value, "full_tensor") else value
    return whole
