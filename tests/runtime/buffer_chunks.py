"""Chunks that pass through what they get, and such as take their time meanwhile."""

from __future__ import annotations

import time
from typing import Any

import torch
from torch import nn

from tests.runtime.pipelines import WIDTH


class Through(nn.Module):
    """Gives what it gets: the same memory, and backward the same gradient."""

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        return hidden.view(hidden.shape)


class Slow(nn.Module):
    """A linear layer that takes its time, so that its neighbours run as far ahead as they can.

    Args:
        stage: Its stage.
        forward: Seconds of its forward.
        backward: Seconds of its backward.
    """

    def __init__(self, stage: int, forward: float = 0.002, backward: float = 0.002) -> None:
        super().__init__()
        self.forward_seconds, self.backward_seconds = forward, backward
        self.linear = nn.Linear(WIDTH, WIDTH, dtype=torch.float64)
        with torch.no_grad():
            self.linear.weight.copy_(torch.eye(WIDTH) + stage / 10)
            self.linear.bias.fill_(0.1)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        time.sleep(self.forward_seconds)
        output: torch.Tensor = self.linear(hidden)
        if output.requires_grad:
            hook: Any = output.register_hook  # torch leaves it untyped
            hook(lambda _: time.sleep(self.backward_seconds))
        return output


class Marked(nn.Module):
    """Puts a row of its own in front of each microbatch: its gradient is a part of the one that comes back."""

    def __init__(self, stage: int) -> None:
        super().__init__()
        self.row = nn.Parameter(torch.full((1, WIDTH), 0.5 + stage, dtype=torch.float64))

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        return torch.cat((self.row, hidden))


class Multiply(nn.Module):
    """Takes the row away again."""

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        return hidden[1:] * hidden[:1]


class Counter(nn.Module):
    """Looks something up by the integers that it passes on, and counts them up: in place, where it is told to.

    Args:
        stage: Its stage.
        in_place: Whether it writes to what it was given; the graph of the stage before may still need that.
    """

    def __init__(self, stage: int, *, in_place: bool = False) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.arange(5.0 * WIDTH, dtype=torch.float64).view(5, WIDTH) / (9 + stage))
        self.in_place = in_place

    def forward(self, hidden: torch.Tensor, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        ids = ids.add_(1).remainder_(5) if self.in_place else (ids + 1) % 5
        return hidden * self.table[ids], ids
