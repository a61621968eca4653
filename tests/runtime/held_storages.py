"""Chunks that know which of the tensors they made are still there."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.multiprocessing.reductions import StorageWeakRef

from tests.runtime.pipelines import WIDTH

make_reference: Any = StorageWeakRef  # torch leaves it untyped


class Watched(nn.Module):
    """A chunk whose graph keeps what is inside it, and not what it gives.

    Attributes:
        outputs: The memory of each output, which is not held by this.
        inner: The memory of what the graph keeps.
        most_outputs: How many outputs there were at most when it began to make another.
        most_inner: The same of what the graph keeps.
    """

    def __init__(self, _: int) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH, dtype=torch.float64)
        with torch.no_grad():
            self.linear.weight.copy_(torch.eye(WIDTH))
            self.linear.bias.fill_(0.1)
        self.begin()

    def begin(self) -> None:
        """Forget what was made."""
        self.outputs: list[Any] = []
        self.inner: list[Any] = []
        self.most_outputs = self.most_inner = 0

    def forward(self, hidden: torch.Tensor, *, mask: torch.Tensor | None = None) -> torch.Tensor:
        self.most_outputs = max(self.most_outputs, count(self.outputs))
        self.most_inner = max(self.most_inner, count(self.inner))
        inner = torch.tanh(hidden if mask is None else hidden * mask)
        found: torch.Tensor = self.linear(inner)
        self.inner.append(refer(inner))
        self.outputs.append(refer(found))
        return found


def refer(tensor: torch.Tensor) -> Any:  # noqa: ANN401 -- untyped in torch
    """Refer to a tensor's memory without holding it."""
    return make_reference(tensor.untyped_storage())


def count(references: list[Any]) -> int:
    """Count what is still there."""
    return sum(not reference.expired() for reference in references)
