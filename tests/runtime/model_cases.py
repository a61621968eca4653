"""Small models cut by a layout, and what they compute. Imported where torch and transformers are known to be there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from ppdsl import compile_layout
from ppdsl_runtime.models import ChunkBuilder, LanguageModelLoss, ModelChunk, read_shape, run_chunks

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ppdsl import Plan


def plan_for(layout: str) -> Plan:
    """Compile a layout for a rank each stage, but for two where that divides them, so that both have several chunks."""
    stages = layout.count("|") + 1
    return compile_layout(layout, pp=None if "@" in layout else 2 if stages % 2 == 0 else stages)


def build_chunks(model: str, layout: str, *, dtype: torch.dtype = torch.float32, seed: int = 3) -> list[ModelChunk | None]:
    """Build all chunks of a layout by one builder."""
    builder = ChunkBuilder(read_shape(model), seed=seed, dtype=dtype)
    return [builder(chunk) for chunk in plan_for(layout).chunks]


def present(chunks: Iterable[ModelChunk | None]) -> list[ModelChunk]:
    """Leave out the empty ones."""
    return [chunk for chunk in chunks if chunk is not None]


def make_batch(batch: int = 2, seq: int = 9) -> tuple[torch.Tensor, torch.Tensor]:
    """Draw tokens and targets, two of them without a meaning."""
    tokens, target = torch.randint(0, 256, (2, batch, seq), generator=torch.Generator().manual_seed(1)).unbind()
    target[0, 2:4] = -100
    return tokens, target


def compute_loss(chunks: Iterable[ModelChunk | None]) -> float:
    """Run chunks forward and backward, and give the loss."""
    tokens, target = make_batch()
    total, count = LanguageModelLoss()(run_chunks(chunks, tokens), target)
    torch.autograd.backward(total / count)
    return float((total / count).detach())


def collect_grads(chunks: Iterable[ModelChunk | None]) -> dict[str, torch.Tensor]:
    """Give the gradients by global name: of several copies the sum."""
    grads: dict[str, torch.Tensor] = {}
    seen = set()
    for chunk in present(chunks):
        for local, parameter in chunk.named_parameters():
            if id(parameter) not in seen:
                seen.add(id(parameter))
                assert parameter.grad is not None, local
                name = chunk.global_name(local)
                grads[name] = grads[name] + parameter.grad if name in grads else parameter.grad
    return grads
