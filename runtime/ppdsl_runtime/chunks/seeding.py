"""Dropout that does not depend on the layout: off unless asked for, and then seeded by run, step, microbatch and global layer.

A chunk that has dropout runs each of its layers so::

    with seeding.layer(number):  # counted over the whole model
        hidden = block(hidden)

What draws random numbers inside gets the same ones under every layout, and again when the chunk is recomputed in its backward. A model's
own checkpointing of a block goes inside the context.
"""

from __future__ import annotations

import struct
import threading
from contextlib import contextmanager
from hashlib import blake2b
from typing import TYPE_CHECKING

import torch
from torch import nn

if TYPE_CHECKING:
    from collections.abc import Iterator

_current = threading.local()
_lock = threading.RLock()
_OUTSIDE = -(10**6)
"""The number of the layer that stands for all that is outside layers in stage 0."""


class Dropout:
    """The seeds of a pipeline's dropout.

    Attributes:
        seed: The seed of the run.
        step: Number of the step.
        device: Where the random numbers are drawn.
    """

    def __init__(self, seed: int, device: torch.device) -> None:
        self.seed = seed
        self.step = 0
        self.device = device

    @contextmanager
    def microbatch(self, step: int, batch: int, stage: int = 0) -> Iterator[None]:
        """Say which microbatch this thread runs, and seed what is drawn outside layers: by the stage, so that it depends on the layout."""
        before = getattr(_current, "place", None)
        _current.place = (self, step, batch)
        try:
            with layer(_OUTSIDE - stage):
                yield
        finally:
            _current.place = before


def mix(seed: int, step: int, batch: int, layer: int) -> int:
    """Give the seed of a layer: from 0 to 2**63 - 1, far apart for neighbours.

    Args:
        seed: The seed of the run.
        step: Number of the step.
        batch: Number of the microbatch.
        layer: Number of the layer over the whole model.
    """
    digest = blake2b(struct.pack("<Q3q", seed & 2**64 - 1, step, batch, layer), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


@contextmanager
def layer(number: int) -> Iterator[None]:
    """Run a layer with random numbers of its own, and leave the generators as they were; without effect where dropout is off.

    Threads take turns: the generator is that of the process.

    Args:
        number: The layer's number over the whole model; -1 and below for what is no decoder layer, such as the embedding.
    """
    place = getattr(_current, "place", None)
    if place is None:
        yield
        return
    dropout, step, batch = place
    devices = [dropout.device] if dropout.device.type == "cuda" else []
    with _lock, torch.random.fork_rng(devices):
        torch.default_generator.manual_seed(mix(dropout.seed, step, batch, number))
        if devices:
            with torch.cuda.device(dropout.device):
                torch.cuda.manual_seed(mix(dropout.seed, step, batch, number))
        yield


def find_dropout(module: nn.Module) -> list[nn.Module]:
    """Find what drops values in training mode: dropout modules, and modules that hold one, or a rate, and look at their own mode."""
    return [part for part in module.modules() if _is_dropout(part) or any(map(_is_dropout, part.children())) or _has_rate(part)]


def _is_dropout(module: nn.Module) -> bool:
    return isinstance(module, nn.modules.dropout._DropoutNd)  # noqa: SLF001 -- torch has no public name for all of them


def _has_rate(module: nn.Module) -> bool:
    return any("drop" in name and isinstance(value, float) and value > 0 for name, value in vars(module).items())
