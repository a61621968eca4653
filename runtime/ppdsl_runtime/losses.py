"""The losses of a step, and the gradients that its backwards start with."""

from __future__ import annotations

from numbers import Real
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Count = int | torch.Tensor

IGNORED = -100
"""A target that does not count, as in ``torch.nn.functional.cross_entropy``."""


def count_targets(target: torch.Tensor) -> torch.Tensor:
    """Count the elements of a target, for integers those other than -100.

    Raises:
        ValueError: It is no tensor.
    """
    if not isinstance(target, torch.Tensor):
        raise ValueError(f"loss_fn gives a count, and the target is {type(target).__name__}, no tensor, so count_fn must count it")  # noqa: TRY004 -- what is missing is count_fn
    if target.is_floating_point() or target.is_complex():
        return torch.tensor(target.numel(), device=target.device)
    return (target != IGNORED).sum()


class Losses:
    """Takes the loss of each microbatch, and weighs it by its share of the batch.

    A mean weighs n_i / N by its rows; (sum, count) by its count. The gradient that a backward starts with is scaled by that, so that what
    the backwards add up to is the gradient of the whole batch's loss.

    Attributes:
        weights: The weight of each microbatch, float64; None before the first step, and where another rank has the losses.
    """

    def __init__(
        self,
        loss_fn: Callable[[Any, Any], Any],
        *,
        count_fn: Callable[[Any], Count] | None = None,
        grad_scale: Callable[[], float | torch.Tensor] | None = None,
        autocast: torch.dtype | None = None,
        device: torch.device | None = None,
    ) -> None:
        """Make one for all steps.

        Args:
            loss_fn: Takes the last stage's output and a target; gives a mean, or (sum, count).
            count_fn: Counts a microbatch's target as ``loss_fn`` does; by default ``count_targets``.
            grad_scale: Gives, once a step, what all gradients are multiplied by.
            autocast: The element type that the loss is cast to by autocast; None for none.
            device: Where the tensors are.
        """
        self._loss_fn = loss_fn
        if autocast is not None and device is not None:
            self._loss_fn = torch.autocast(device.type, autocast)(loss_fn)
        self._count_fn = count_fn or count_targets
        self._grad_scale = grad_scale
        self._rows: Sequence[int] = ()
        self._targets: Sequence[Any] = ()
        self._losses: list[torch.Tensor] = []
        self._counts: list[torch.Tensor] = []
        self._planned: torch.Tensor | None = None
        self._seeds: list[torch.Tensor] | None = None
        self._made_for: tuple[object, ...] = ()
        self._mean_weights = torch.empty(0)
        self._mean_seeds: list[torch.Tensor] = []
        self.weights: torch.Tensor | None = None

    def begin(self, targets: Sequence[Any], rows: Sequence[int]) -> None:
        """Begin a step.

        Args:
            targets: The target of each microbatch.
            rows: Its rows.
        """
        self._targets, self._rows = targets, rows
        self._losses = [torch.empty(0)] * len(rows)
        self._counts = [torch.empty(0)] * len(rows)
        self._planned = self._seeds = None

    def take(self, output: Any, batch: int) -> torch.Tensor:  # noqa: ANN401 -- whatever the last stage gives
        """Make the loss of a microbatch: what its backward starts from.

        Raises:
            ValueError: It is neither a scalar nor a pair of a sum and a count, or not what it was for another microbatch of the step.
        """
        found = self._loss_fn(output, self._targets[batch])
        counted = isinstance(found, tuple) and len(found) == 2  # noqa: PLR2004 -- a pair
        loss, count = found if counted else (found, 1)
        if not (isinstance(loss, torch.Tensor) and not loss.dim() and isinstance(count, (torch.Tensor, Real))):
            raise ValueError(f"loss_fn gives {_show(found)}, not a scalar tensor, or one and a count")
        if self._seeds is None:
            self._weigh(loss, counted=counted)
        if counted != (self._planned is not None):
            raise ValueError("loss_fn gives a mean for some microbatches of a step, and a sum and a count for others")
        if counted:
            self._counts[batch] = torch.as_tensor(count, device=loss.device).clone()
        self._losses[batch] = loss.detach().clone()  # an empty last stage's lies in a receive buffer, which is used again
        return loss

    def _weigh(self, loss: torch.Tensor, *, counted: bool) -> None:
        """Find the weights and the seeds of a step, once its first loss shows its form."""
        scale = 1.0 if self._grad_scale is None else self._grad_scale()
        if counted:
            counts = torch.stack([torch.as_tensor(self._count_fn(target), device=loss.device) for target in self._targets])
            self._planned = counts
            total = _divisor(counts.sum().double())
            self.weights = counts / total
            self._seeds = [(scale / total).to(loss.dtype)] * len(counts)
            return
        made_for = (*self._rows, scale, loss.dtype, loss.device)
        if self._made_for != made_for or isinstance(scale, torch.Tensor):
            every = sum(self._rows)
            self._mean_weights = torch.tensor([rows / every for rows in self._rows], dtype=torch.float64, device=loss.device)
            self._mean_seeds = list((self._mean_weights * scale).to(loss.dtype).unbind())
            self._made_for = made_for
        self.weights, self._seeds = self._mean_weights, self._mean_seeds

    def seed(self, batch: int) -> torch.Tensor:
        """Give the gradient that a microbatch's backward starts with: a copy, since a backward may make it the gradient of a parameter."""
        return self._seeds[batch].clone()  # type: ignore[index]  # the loss was taken

    def finish(self) -> torch.Tensor:
        """Give the mean loss of each microbatch.

        Raises:
            ValueError: ``loss_fn`` and ``count_fn`` count differently.
        """
        losses = torch.stack(self._losses)
        self._losses, self._targets = [], ()
        if self._planned is None:
            return losses
        counts = torch.stack(self._counts)
        if not torch.equal(counts.double(), self._planned.double()):
            raise ValueError(f"loss_fn counts {counts.tolist()} targets in the microbatches, count_fn {self._planned.tolist()}")
        return losses / _divisor(counts)


def _divisor(counts: torch.Tensor) -> torch.Tensor:
    """Give counts as they are, but for 0, which stands above 0."""
    return torch.where(counts == 0, 1, counts)


def _show(found: object) -> str:
    if isinstance(found, torch.Tensor):
        return f"a tensor of shape {tuple(found.shape)}"
    return f"({', '.join(map(_show, found))})" if isinstance(found, tuple) else type(found).__name__
