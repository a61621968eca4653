"""What the cases of transport_worker have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from torch import distributed as dist

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from ppdsl_runtime.transport.interface import Target

WAIT = 20.0
"""Seconds until a wait is given up, where it should not be."""
SHORT = 1.0
"""Where it should."""
BOTH = [(0, 1), (1, 0)]


def loop(size: int) -> list[tuple[int, int]]:
    """All channels between neighbours on a loop."""
    return sorted({(rank, (rank + step) % size) for rank in range(size) for step in (1, -1)})


def into(*tensors: Tensor) -> Target:
    """A target that knows its metadata."""
    return lambda _wait: tensors


def expect(kind: type[Exception], pattern: str, action: Callable[[], object]) -> Exception:
    """Expect an error whose whole text matches."""
    with pytest.raises(kind, match=f"^{pattern}$") as caught:
        action()
    return caught.value


def count_groups() -> int:
    """Count this process' groups of any kind."""
    return len(dist.distributed_c10d._world.pg_map)  # noqa: SLF001 -- torch does not tell otherwise


def list_values(tensor: Tensor) -> list[float]:
    """List the values in a tensor, each once."""
    return sorted(set(tensor.flatten().tolist()))
