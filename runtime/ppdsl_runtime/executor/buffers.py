"""Receive buffers: a slot of the program is one flat piece of memory, whatever the shapes that come into it."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ppdsl_runtime.transport.messages import Metadata

_ALIGNMENT = 256
"""Bytes: where a tensor may begin in a slot."""


class Slot:
    """One receive buffer.

    Attributes:
        start: The address of its memory; 0 while it has none.
        end: The address behind it.
    """

    __slots__ = ("_device", "_flat", "_layout", "_tensors", "end", "start")

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._flat: torch.Tensor | None = None
        self._layout: Metadata | None = None
        self._tensors: tuple[torch.Tensor, ...] = ()
        self.start = self.end = 0

    @property
    def nbytes(self) -> int:
        """Bytes of its memory."""
        return self.end - self.start

    def take(self, metadata: Metadata) -> tuple[torch.Tensor, ...]:
        """Give tensors in this memory, which grows where it is too small.

        They are new each time and count their versions by themselves, so that a graph that still holds those of the last use is not taken
        to be spoiled.
        """
        if metadata is not self._layout and metadata != self._layout:
            self._lay_out(metadata)
        return tuple([tensor.data for tensor in self._tensors])

    @torch.inference_mode(mode=False)
    def _lay_out(self, metadata: Metadata) -> None:
        """Make the tensors anew; such as training can use, even where an evaluation in inference mode asks first."""
        places, size = [], 0
        for shape, dtype, _ in metadata:
            start = -(-size // _ALIGNMENT) * _ALIGNMENT
            size = start + prod(shape) * dtype.itemsize
            places.append((start, size))
        if self._flat is None or size > self._flat.numel():
            self._flat = torch.empty(size, dtype=torch.uint8, device=self._device)
            self.start = self._flat.data_ptr()
            self.end = self.start + size
        flat = self._flat
        self._tensors = tuple(
            flat[start:end].view(meta.dtype).view(meta.shape) for (start, end), meta in zip(places, metadata, strict=True)
        )
        self._layout = metadata

    def holds(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor lies in this memory; of a sparse one, its values."""
        values = tensor._values() if tensor.is_sparse else tensor  # noqa: SLF001 -- the public name refuses what is not coalesced
        return self.start <= values.data_ptr() < self.end

    def separate(self, tensor: torch.Tensor) -> torch.Tensor:
        """Give a tensor as it is, or a copy of it where it lies in this memory."""
        return tensor.clone() if self.start <= tensor.data_ptr() < self.end else tensor


class Pool:
    """The slots of one kind, by number. One is made when it is first asked for, and kept from step to step.

    Args:
        device: Where their memory is.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._slots: list[Slot] = []

    def __len__(self) -> int:
        return len(self._slots)

    def __iter__(self) -> Iterator[Slot]:
        return iter(self._slots)

    def __getitem__(self, number: int) -> Slot:
        """Give a slot, from 0."""
        while len(self._slots) <= number:
            self._slots.append(Slot(self._device))
        return self._slots[number]
