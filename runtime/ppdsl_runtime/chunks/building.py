"""Making the chunks of one rank, and of no other."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import nn

    from ppdsl.planning import Chunk, Plan


def build(plan: Plan, make_chunk: Callable[[Chunk], nn.Module | None], *, rank: int) -> list[nn.Module | None]:
    """Make a rank's own chunks, in forward order.

    Args:
        plan: The layout.
        make_chunk: Makes the module of a chunk; None for a chunk that only passes on what it receives.
        rank: The pipeline rank.

    Raises:
        IndexError: There is no such rank.
    """
    return [make_chunk(chunk) for chunk in plan.chunks_of(rank)]
