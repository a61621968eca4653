"""A trainer of one's own, under any layout.

torchrun --nproc-per-node 2 examples/runtime/embed.py 'Et*2|t|t|tNL'
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import torch
from torch import distributed as dist
from torch import nn

from ppdsl import compile_layout
from ppdsl_runtime.pipeline import Pipeline, build

if TYPE_CHECKING:
    from ppdsl import Chunk


def make_chunk(chunk: Chunk) -> nn.Module | None:
    """Make the module of one stage; each layer has a seed of its own, so that all layouts start equal."""
    layers: list[nn.Module] = []
    if chunk.embedding:
        torch.manual_seed(1000)
        layers.append(nn.Embedding(256, 32))
    for layer in range(*chunk.layers):
        torch.manual_seed(layer)
        layers.append(nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True))
    if chunk.loss:
        torch.manual_seed(1001)
        layers += [nn.LayerNorm(32), nn.Linear(32, 256)]
    return nn.Sequential(*layers) if layers else None


def compute_loss(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Give the mean cross entropy of logits (batch, seq, vocab)."""
    return nn.functional.cross_entropy(output.flatten(0, 1), target.flatten())


def train(layout: str, steps: int) -> None:
    """Train this rank's part of the model."""
    plan = compile_layout(layout, pp=dist.get_world_size())
    chunks = build(plan, make_chunk, rank=dist.get_rank())
    pipeline = Pipeline(plan, chunks, loss_fn=compute_loss, microbatches=4)
    weights = [weight for chunk in chunks if chunk is not None for weight in chunk.parameters()]
    optimizer = torch.optim.AdamW(weights, lr=1e-3) if weights else None
    batch = torch.randint(256, (8, 17), generator=torch.Generator().manual_seed(0))
    for step in range(steps):
        pipeline.zero_grad()
        losses = pipeline.step(batch[:, :-1], target=batch[:, 1:])  # one a microbatch, on the rank of the last stage
        if optimizer is not None:
            optimizer.step()
        if losses is not None:
            print(f"step {step}: loss {losses.mean():.3f}")
    pipeline.close()


if __name__ == "__main__":
    dist.init_process_group("gloo")  # on CUDA devices: nccl, torch.cuda.set_device, and Pipeline(..., device=...)
    train(sys.argv[1], steps=3)
    dist.destroy_process_group()

# Prints:
#
# step 0: loss 5.717
# step 1: loss 5.606
# step 2: loss 5.500
