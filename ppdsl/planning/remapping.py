"""Where each layer moves from one plan to another."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ppdsl.planning.plan import LayerMove

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ppdsl.planning.plan import Chunk, Plan


def list_moves(before: Plan, after: Plan) -> list[LayerMove]:
    """Say where each layer of a model is under two plans.

    Returns:
        A move for every layer in forward order, those that stay where they are included.

    Raises:
        ValueError: The two plans are of models with different numbers of layers.
    """
    _check_counts("decoder", before.num_layers, after.num_layers)
    _check_counts("mtp", before.mtp_num_layers, after.mtp_num_layers)
    pairs = zip(_list_layers(before), _list_layers(after), strict=True)
    return [LayerMove(kind, layer, old, new) for (kind, layer, old), (_, _, new) in pairs]


def _check_counts(kind: str, before: int, after: int) -> None:
    if before != after:
        message = f"the plans are of different models: {before} {kind} layers and {after}"
        raise ValueError(message)


def _list_layers(plan: Plan) -> Iterator[tuple[str, int, tuple[int, int, int]]]:
    """Give each layer's kind, its number among its kind, and its place."""
    chunks = plan.chunks
    yield from (("embedding", 0, (chunk.pp_rank, chunk.vpp_rank, 0)) for chunk in chunks if chunk.embedding)
    for chunk in chunks:
        yield from _list_range("decoder", chunk, chunk.layers)
    yield from (("final_norm", 0, (chunk.pp_rank, chunk.vpp_rank, 0)) for chunk in chunks if chunk.final_norm)
    for chunk in chunks:
        yield from _list_range("mtp", chunk, chunk.mtp_layers)
    yield from (("loss", 0, (chunk.pp_rank, chunk.vpp_rank, 0)) for chunk in chunks if chunk.loss)


def _list_range(kind: str, chunk: Chunk, layers: tuple[int, int]) -> Iterator[tuple[str, int, tuple[int, int, int]]]:
    first, stop = layers
    return ((kind, layer, (chunk.pp_rank, chunk.vpp_rank, layer - first)) for layer in range(first, stop))
