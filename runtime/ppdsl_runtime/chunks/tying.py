"""Weights that are one parameter of the model and have a copy on each of several ranks, such as a tied embedding."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from ppdsl_runtime.chunks.accumulating import grad_of, set_grad

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from torch import nn

    from ppdsl_runtime.transport.interface import Transport


class TiedWeights:
    """A rank's copies. Each starts as that of the lowest rank is, and gets the sum of all their gradients in every step."""

    def __init__(self, tied: Mapping[str, nn.Parameter], transport: Transport) -> None:
        """Find who else has a copy, and make the copies equal. All ranks call it.

        Args:
            tied: The rank's own copies, by a name that is the same on all ranks.
            transport: Sums them.

        Raises:
            ValueError: Two ranks have copies of different shapes or types, or one of them is frozen.
        """
        self._transport = transport
        self._kept: list[torch.Tensor | None] = []
        self._copies: list[tuple[nn.Parameter, tuple[int, ...]]] = []
        everywhere = transport.gather({name: _describe(weight) for name, weight in tied.items()})
        for name in sorted(tied):
            ranks = tuple(rank for rank, names in enumerate(everywhere) if name in names)
            for rank in ranks:
                if everywhere[rank][name] != everywhere[transport.rank][name]:
                    own, other = everywhere[transport.rank][name], everywhere[rank][name]
                    raise ValueError(f"tied weight {name!r} is {own} on rank {transport.rank}, but {other} on rank {rank}")
            if len(ranks) > 1:
                self._equalise(tied[name], ranks)
                self._copies.append((tied[name], ranks))

        self._weights = [(weight, ranks) for weight, ranks in self._copies if weight.requires_grad]

    @torch.no_grad()
    def _equalise(self, weight: nn.Parameter, ranks: tuple[int, ...]) -> None:
        value = weight.detach().clone() if self._transport.rank == ranks[0] else torch.zeros_like(weight)
        self._transport.all_reduce(value, ranks)
        weight.copy_(value)

    def copies(self) -> Iterator[nn.Parameter]:
        """Give the weights that a lower rank has, too, and that are counted there."""
        return (weight for weight, ranks in self._copies if ranks[0] < self._transport.rank)

    def begin(self) -> None:
        """Put the gradients of earlier steps aside: they are summed already."""
        self._kept = [grad_of(weight) for weight, _ in self._weights]
        for weight, _ in self._weights:
            set_grad(weight, None)

    @torch.no_grad()
    def finish(self) -> None:
        """Sum this step's gradients over the ranks, and add them to those of earlier steps."""
        for (weight, ranks), kept in zip(self._weights, self._kept, strict=True):
            found = grad_of(weight)
            total = torch.zeros_like(weight, requires_grad=False) if found is None else found
            self._transport.all_reduce(total, ranks)
            set_grad(weight, total if kept is None else kept.add_(total))
        self._kept = []


def _describe(weight: nn.Parameter) -> str:
    return f"{weight.dtype} {tuple(weight.shape)}{'' if weight.requires_grad else ', frozen'}"
