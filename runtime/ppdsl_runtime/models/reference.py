"""The whole model in one process: what every layout has to agree with."""

from __future__ import annotations

from inspect import signature
from typing import TYPE_CHECKING, cast

from ppdsl import compile_layout
from ppdsl_runtime.models.building import ChunkBuilder

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torch import Tensor, nn

    from ppdsl import Plan
    from ppdsl_runtime.models.modules import ModelChunk, Payload
    from ppdsl_runtime.models.shapes import ModelShape


def one_stage_plan(shape: ModelShape) -> Plan:
    """Give the plan of a model on one rank: ``Et*12NL``."""
    symbols = (("E", 1), ("t", shape.layers), ("N", 1), ("m", shape.mtp_layers), ("L", 1))
    return compile_layout("".join(f"{symbol}*{count}" if count > 1 else symbol for symbol, count in symbols if count), pp=1)


def build_reference(builder: ChunkBuilder) -> ModelChunk:
    """Build the whole model as one chunk; its parameters have their global names. It shares none with what the builder has built."""
    (chunk,) = one_stage_plan(builder.shape).chunks
    alone = ChunkBuilder(builder.shape, builder.weights, dtype=builder.dtype, device=builder.device)
    return cast("ModelChunk", alone(chunk))


def run_chunks(chunks: Iterable[nn.Module | None], tokens: Tensor) -> Payload:
    """Run chunks one after another, as a pipeline of one process would.

    Args:
        chunks: All chunks of a plan, by stage; None is passed over.
        tokens: The tokens (batch, seq), int64.

    Returns:
        What the last one gives: logits (batch, seq, vocab), a tuple where there are MTP layers.
    """
    payload: tuple[Tensor, ...] = (tokens,)
    side = {"tokens": tokens}
    for chunk in chunks:
        if chunk is not None:
            named = signature(chunk.forward).parameters
            output = chunk(*payload, **{name: value for name, value in side.items() if name in named})
            payload = output if isinstance(output, tuple) else (output,)
    return payload if len(payload) > 1 else payload[0]
