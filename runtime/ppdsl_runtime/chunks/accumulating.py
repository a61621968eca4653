"""Gradients accumulated in fp32 for parameters of 16 bits: each backward's goes into ``param.main_grad``."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torch import nn
    from torch.utils.hooks import RemovableHandle

_HALF = (torch.bfloat16, torch.float16)


class MainGrads:
    """Keeps the ``main_grad`` of parameters of 16 bits: fp32, of the parameter's shape; ``grad`` stays None.

    Parameters of other types keep their gradients in ``grad``.
    """

    def __init__(self, parameters: Iterable[nn.Parameter]) -> None:
        """Begin with gradients of zero.

        Args:
            parameters: Those of all chunks; one that is there twice counts once.
        """
        self._handles: list[RemovableHandle] = []
        for weight in dict.fromkeys(parameters):
            if weight.requires_grad and weight.dtype in _HALF:
                set_main_grad(weight)
                hook = partial(_accumulate, weight)
                self._handles.append(weight.register_post_accumulate_grad_hook(hook))  # type: ignore[no-untyped-call]  # torch leaves it untyped

    def remove(self) -> None:
        """Let backwards write to ``grad`` again; ``main_grad`` stays as it is."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()


def forget_main_grads(parameters: Iterable[nn.Parameter]) -> None:
    """Have ``grad`` be the gradient of parameters again, whatever an earlier pipeline has left in ``main_grad``."""
    for weight in parameters:
        if main_grad_of(weight) is not None:
            del weight.main_grad  # type: ignore[attr-defined]  # set above


def _accumulate(weight: nn.Parameter, _: torch.Tensor) -> None:
    main = main_grad_of(weight)
    if main is not None and weight.grad is not None:
        with torch.no_grad():
            main.add_(weight.grad)
        weight.grad = None


def main_grad_of(weight: nn.Parameter) -> torch.Tensor | None:
    """Give the gradient that a parameter accumulates in fp32; None where it does not."""
    main: torch.Tensor | None = getattr(weight, "main_grad", None)
    return main


def set_main_grad(weight: nn.Parameter, gradient: torch.Tensor | None = None) -> None:
    """Replace the gradient that a parameter accumulates in fp32; None is zeros."""
    fresh = torch.zeros_like(weight, dtype=torch.float32, requires_grad=False) if gradient is None else gradient
    weight.main_grad = fresh  # type: ignore[attr-defined]  # the name that optimizers of other pipelines look for, too


def grad_of(weight: nn.Parameter) -> torch.Tensor | None:
    """Give the accumulated gradient of a parameter, wherever it is kept; None where there is none."""
    main = main_grad_of(weight)
    return weight.grad if main is None else main


def set_grad(weight: nn.Parameter, gradient: torch.Tensor | None) -> None:
    """Replace the accumulated gradient of a parameter, where it is kept."""
    if main_grad_of(weight) is None:
        weight.grad = gradient
    else:
        set_main_grad(weight, gradient)
