"""Measures how much memory a layout really takes on each rank: the peak of the resident set over some steps, above what stood before.

Takes the model, the tokens of a sequence, the sequences of a microbatch, the number of microbatches and a layout; rank 0 writes a line of
JSON. It asks Linux for the sizes.
"""

from __future__ import annotations

import ctypes
import gc
import json
import re
import sys
from pathlib import Path

import torch
from torch import distributed as dist

from ppdsl import compile_layout
from ppdsl_runtime.models import ChunkBuilder, LanguageModelLoss, read_shape
from ppdsl_runtime.pipeline import Pipeline, build
from ppdsl_runtime.training.worlds import World, open_world, read_world

STEPS = 3
_MMAP_THRESHOLD = -3
"""Option of glibc's ``mallopt``."""
_PROCESS = Path("/proc/self")


def read_status(name: str) -> int:
    """Read one of the sizes of this process, in bytes."""
    found = re.search(rf"^{name}:\s+(\d+) kB$", (_PROCESS / "status").read_text(encoding="utf-8"), re.MULTILINE)
    assert found is not None, name
    return int(found[1]) * 1024


def measure(arguments: list[str], world: World) -> int:
    """Train a few steps with AdamW, and give the bytes that this rank took for it at most."""
    model, seq, batch, microbatches, layout = arguments
    shape = read_shape(model)
    gc.collect()
    (_PROCESS / "clear_refs").write_text("5", encoding="utf-8")
    before = read_status("VmRSS")
    plan = compile_layout(layout, pp=2)
    chunks = build(plan, ChunkBuilder(shape), rank=world.rank)
    pipeline = Pipeline(plan, chunks, loss_fn=LanguageModelLoss(), schedule="1f1b", microbatches=int(microbatches))
    optimizer = torch.optim.AdamW([parameter for chunk in chunks if chunk is not None for parameter in chunk.parameters()], lr=1e-4)
    tokens = torch.randint(shape.vocab, (int(microbatches) * int(batch), int(seq)), generator=torch.Generator().manual_seed(0))
    for _ in range(STEPS):
        optimizer.zero_grad()
        pipeline.step(tokens, target=tokens)
        optimizer.step()
    pipeline.close()
    return read_status("VmHWM") - before


def main() -> None:
    """Do it all."""
    ctypes.CDLL(None).mallopt(_MMAP_THRESHOLD, 1 << 17)
    world = read_world("cpu")
    with open_world(world, 600.0):
        ranks = [0] * world.size
        dist.all_gather_object(ranks, measure(sys.argv[1:], world))
    if world.main:
        sys.stdout.write(json.dumps({"peak_bytes": ranks}) + "\n")


if __name__ == "__main__":
    main()
