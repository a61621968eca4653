"""Profiles a model on two ranks, asks for the best layout, and times it beside all other splits, in one run and in turns.

Takes the model, the sequence length, the sequences of a microbatch, the number of microbatches and of rounds, and how few layers the first
rank has in the splits that are timed; rank 0 writes a line of JSON.
"""

from __future__ import annotations

import ctypes
import json
import sys
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import distributed as dist

from ppdsl import compile_layout, make_schedule, simulate
from ppdsl.costs import Costs, read_costs
from ppdsl.suggesting import Problem, suggest
from ppdsl_runtime.models import ChunkBuilder, LanguageModelLoss, ModelShape, read_shape
from ppdsl_runtime.pipeline import Pipeline, build
from ppdsl_runtime.profiling import Workload, measure_link, profile_kinds, write_costs
from ppdsl_runtime.training.worlds import World, open_world, read_world

if TYPE_CHECKING:
    from ppdsl_runtime.profiling import KindCosts

SCHEDULE = "1f1b"
WARMUP = 1
BYTES_PER_PARAM = 16
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""Options of glibc's ``mallopt``."""
_LARGE = 1 << 26


class Run(NamedTuple):
    """What is timed.

    Attributes:
        shape: The model's sizes.
        seq: Tokens of a sequence.
        batch: Sequences of a microbatch.
        microbatches: Of a step.
        rounds: How often every layout is timed.
        fewest: Layers of the first rank, from which on the splits are timed.
    """

    shape: ModelShape
    seq: int
    batch: int
    microbatches: int
    rounds: int
    fewest: int = 0


def name_splits(layers: int, fewest: int) -> list[str]:
    """Give every split on two ranks whose first has that many layers or more."""
    return [f"E{'t' * first}|{'t' * (layers - first)}NL" for first in range(fewest, layers + 1)]


def sample_costs(run: Run, builder: ChunkBuilder, world: World) -> list[dict[str, KindCosts]]:
    """Measure the kinds of layer on both ranks at the same time."""
    dist.barrier()
    found = profile_kinds(builder, Workload(batch=run.batch, seq=run.seq, samples=8))
    ranks: list[dict[str, KindCosts]] = [{} for _ in range(world.size)]
    dist.all_gather_object(ranks, found)
    return ranks


def time_step(pipeline: Pipeline, tokens: torch.Tensor) -> float:
    """Give the seconds of one step, the slower rank's."""
    dist.barrier()
    begin = perf_counter()
    pipeline.step(tokens, target=tokens)
    seconds = torch.tensor(perf_counter() - begin, dtype=torch.float64)
    pipeline.zero_grad()
    dist.all_reduce(seconds, dist.ReduceOp.MAX)
    return seconds.item()


def time_layouts(run: Run, builder: ChunkBuilder, world: World) -> tuple[dict[str, list[float]], Costs]:
    """Time every split in turns, and sample the costs before each round; of them the medians count."""
    pipelines = {}
    for layout in name_splits(run.shape.layers, run.fewest):
        plan = compile_layout(layout, pp=2)
        chunks = build(plan, builder, rank=world.rank)
        pipelines[plan.layout] = Pipeline(plan, chunks, loss_fn=LanguageModelLoss(), schedule=SCHEDULE, microbatches=run.microbatches)
    tokens = torch.randint(run.shape.vocab, (run.microbatches * run.batch, run.seq), generator=torch.Generator().manual_seed(0))
    times: dict[str, list[float]] = {layout: [] for layout in pipelines}
    samples: list[dict[str, KindCosts]] = []
    for number in range(WARMUP + run.rounds):
        samples += sample_costs(run, builder, world) if number >= WARMUP else []
        for layout, pipeline in pipelines.items():
            seconds = time_step(pipeline, tokens)
            if number >= WARMUP:
                times[layout].append(seconds)
    for pipeline in pipelines.values():
        pipeline.close()
    p2p = measure_link(run.batch * run.seq * run.shape.hidden * 4, world.device)
    return times, read_costs(json.dumps(write_costs(samples, p2p, BYTES_PER_PARAM)))


def predict(layout: str, run: Run, costs: Costs) -> tuple[float, list[int]]:
    """Give the simulated step time in ms, and the memory of each rank in bytes."""
    plan = compile_layout(layout, pp=2)
    report = simulate(plan, make_schedule(plan, SCHEDULE, run.microbatches), costs)
    return report.makespan, [rank.peak_memory for rank in report.ranks]


def keep_memory() -> None:
    """Have the C library keep blocks that are freed, as the allocator of a device does, instead of clearing new pages for each.

    Beyond ``_LARGE`` bytes it would keep many times what is used, and the work on such a block outweighs its pages.
    """
    library = ctypes.CDLL(None)
    library.mallopt(_TRIM_THRESHOLD, 1 << 30)
    library.mallopt(_MMAP_THRESHOLD, _LARGE)


def main() -> None:
    """Do it all."""
    if sys.platform == "linux":
        keep_memory()
    model, *numbers = sys.argv[1:]
    run = Run(read_shape(model), *map(int, numbers))
    world = read_world("cpu")
    with open_world(world, 600.0):
        times, costs = time_layouts(run, ChunkBuilder(run.shape), world)
    if not world.main:
        return
    answer = suggest(Problem(costs, run.shape.layers, 2, run.microbatches, schedule=SCHEDULE, final_norm=True))
    half = run.shape.layers // 2
    document = {
        "suggested": answer.plan.layout,
        "even": compile_layout(f"E{'t' * half}|{'t' * (run.shape.layers - half)}NL", pp=2).layout,
        "rounds": times,
        "predicted_ms": {layout: predict(layout, run, costs)[0] for layout in times},
        "memory_bytes": {layout: predict(layout, run, costs)[1] for layout in times},
        "layers_in_the_head": costs.kinds["L"].forward / costs.kinds["t"].forward,
    }
    sys.stdout.write(json.dumps(document) + "\n")


if __name__ == "__main__":
    main()
