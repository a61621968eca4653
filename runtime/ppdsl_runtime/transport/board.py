"""What ranks have announced of their edges, on the store that all of them reach."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import torch

from ppdsl_runtime.transport.messages import TensorMeta

if TYPE_CHECKING:
    from torch.distributed.distributed_c10d import Store

    from ppdsl_runtime.transport.messages import Metadata

_PAUSE = 0.001
"""Seconds between two looks. A blocking wait would keep the process' other threads from the store."""


class Board:
    """A board that any rank writes to and any rank reads."""

    def __init__(self, store: Store, timeout: float) -> None:
        """Make one.

        Args:
            store: A store that nobody else writes to.
            timeout: Seconds that a reader waits at most.
        """
        self._store = store
        self._timeout = timeout

    def write(self, key: str, edge: int, metadata: Metadata) -> None:
        """Write what crosses an edge."""
        self._store.set(_name(key, edge), write_metadata(metadata))

    def read(self, key: str, edge: int, *, wait: bool) -> Metadata | None:
        """Read what crosses an edge; None where it was not written yet and ``wait`` is not set.

        Raises:
            RuntimeError: It was not written in time, or the store is gone.
        """
        name = _name(key, edge)
        deadline = time.monotonic() + self._timeout
        while not self._store.check([name]):
            if not wait:
                return None
            if time.monotonic() > deadline:
                raise RuntimeError(f"nobody has announced edge {edge} under the key {key!r} within {self._timeout:g} s")
            time.sleep(_PAUSE)
        return read_metadata(self._store.get(name).decode())


def _name(key: str, edge: int) -> str:
    return f"{edge}/{key}"


def write_metadata(metadata: Metadata) -> str:
    """Write metadata as text."""
    return json.dumps([[meta.shape, str(meta.dtype).removeprefix("torch."), meta.needs_grad] for meta in metadata])


def read_metadata(text: str) -> Metadata:
    """Read metadata from their text."""
    return tuple(TensorMeta(tuple(shape), getattr(torch, dtype), needs_grad) for shape, dtype, needs_grad in json.loads(text))
