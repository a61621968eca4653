"""Times steps of ours beside torch's own pipelining: the same blocks, schedule and data in one run, in turns.

Takes the schedule, the number of microbatches, the number of rounds and the model; rank 0 writes a line of JSON, the seconds of each
round's two steps, the slower rank's.
"""

from __future__ import annotations

import json
import sys
from copy import deepcopy
from time import perf_counter
from typing import TYPE_CHECKING, Any

import torch
from torch import distributed as dist
from torch.distributed.pipelining import PipelineStage
from torch.distributed.pipelining.schedules import Schedule1F1B, ScheduleInterleaved1F1B
from torch.nn import functional

from ppdsl import Plan, compile_layout
from ppdsl_runtime.models import ChunkBuilder, read_shape
from ppdsl_runtime.pipeline import Pipeline, build
from ppdsl_runtime.training.worlds import World, open_world, read_world

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor, nn

SEQ = 64
WARMUP = 3
LAYOUTS = {"1f1b": "Et*4|t*4NL", "interleaved_1f1b": "Et*2|t*2|t*2|t*2NL"}


def loss_fn(output: Tensor, target: Tensor) -> Tensor:
    """The mean cross entropy."""
    return functional.cross_entropy(output.flatten(0, 1), target.flatten())


def make_ours(plan: Plan, chunks: list[Any], schedule: str, microbatches: int) -> tuple[Callable[[Tensor, Tensor], object], Pipeline]:
    """Give our step."""
    pipeline = Pipeline(plan, chunks, loss_fn=loss_fn, schedule=schedule, microbatches=microbatches)
    return lambda tokens, target: pipeline.step(tokens, target=target), pipeline


def make_peer(plan: Plan, chunks: list[Any], schedule: str, microbatches: int, world: World) -> Callable[[Tensor, Tensor], object]:
    """Give torch's step."""
    count = len(plan.chunks)
    stages = [
        PipelineStage(module, chunk.stage, count, world.device) for module, chunk in zip(chunks, plan.chunks_of(world.rank), strict=True)
    ]
    runner: Any = (
        Schedule1F1B(stages[0], microbatches, loss_fn) if schedule == "1f1b" else ScheduleInterleaved1F1B(stages, microbatches, loss_fn)  # type: ignore[arg-type]  # a list of stages of its own type
    )
    first, last = world.rank == plan.chunks[0].pp_rank, world.rank == plan.chunks[-1].pp_rank

    def step(tokens: Tensor, target: Tensor) -> object:
        return runner.step(*([tokens] if first else []), **({"target": target, "losses": []} if last else {}))

    return step


def time_step(step: Callable[[Tensor, Tensor], object], batch: tuple[Tensor, Tensor], modules: list[nn.Module]) -> float:
    """Give the seconds of one step, the slower rank's."""
    for module in modules:
        module.zero_grad()
    dist.barrier()
    begin = perf_counter()
    step(*batch)
    seconds = torch.tensor(perf_counter() - begin, dtype=torch.float64)
    dist.all_reduce(seconds, dist.ReduceOp.MAX)
    return seconds.item()


def main() -> None:
    """Time all rounds."""
    schedule, microbatches, rounds, model = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    world = read_world("cpu")
    with open_world(world, 120.0):
        shape = read_shape(model)
        plan = compile_layout(LAYOUTS[schedule], pp=world.size)
        chunks = build(plan, ChunkBuilder(shape), rank=world.rank)
        copies = deepcopy(chunks)
        ours, pipeline = make_ours(plan, chunks, schedule, microbatches)
        peers = make_peer(plan, copies, schedule, microbatches, world)
        generator = torch.Generator().manual_seed(0)
        tokens, target = (torch.randint(shape.vocab, (microbatches, SEQ), generator=generator) for _ in range(2))
        modules = [module for module in (*chunks, *copies) if module is not None]
        pairs = []
        for number in range(WARMUP + rounds):
            both = [(ours, 0), (peers, 1)] if number % 2 else [(peers, 1), (ours, 0)]
            times = {place: time_step(step, (tokens, target), modules) for step, place in both}
            pairs.append((times[0], times[1]))
        for module in modules:
            module.zero_grad()
        ours(tokens, target)
        peers(tokens, target)
        compare_gradients(chunks, copies)
        pipeline.close()
        if world.main:
            sys.stdout.write(json.dumps(pairs[WARMUP:]) + "\n")


def compare_gradients(chunks: list[Any], copies: list[Any]) -> None:
    """See that both do the same work."""
    pairs = [
        (weight.grad, other.grad)
        for module, copy in zip(chunks, copies, strict=True)
        for weight, other in zip(module.parameters(), copy.parameters(), strict=True)
    ]
    for one, other in pairs:
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-4)


if __name__ == "__main__":
    main()
