"""What the executor costs the host: microseconds an action over transfers that do nothing, net of the bare calls; and I + W against B.

Run by hand: ``python -m tests.benchmarks.bench_runtime_host``. The bare loop does the same forwards and backwards by themselves; next to
ours the schedule executor of torch.distributed.pipelining does the same actions over its fake process group. All three take turns in one
run, and the least of many rounds counts, since other work on the machine only ever adds.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import distributed as dist
from torch import nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B
from torch.testing._internal.distributed.fake_pg import FakeStore

from ppdsl import compile_layout
from ppdsl_runtime.microbatches import Batch
from ppdsl_runtime.pipeline import Pipeline
from ppdsl_runtime.transport.messages import TensorMeta
from ppdsl_runtime.transport.noop import NoopTransport

if TYPE_CHECKING:
    from collections.abc import Callable

PP = 4
RANK = 1
MICROBATCHES = 32
WIDTH = 8
ROUNDS = 60


class Host(NamedTuple):
    """Microseconds an action of three ways to do the same forwards and backwards."""

    bare: float
    ours: float
    peers: float

    @property
    def net(self) -> float:
        """What our executor adds to the bare calls."""
        return self.ours - self.bare

    @property
    def ratio(self) -> float:
        """What it adds, as a share of what the peer adds."""
        return self.net / (self.peers - self.bare)


def least(works: list[Callable[[], object]], rounds: int) -> list[float]:
    """Give the least seconds that each work takes; they take turns."""
    best = [float("inf")] * len(works)
    for _ in range(rounds):
        for place, work in enumerate(works):
            start = time.perf_counter()
            work()
            best[place] = min(best[place], time.perf_counter() - start)
    return best


def make_bare(module: nn.Module) -> Callable[[], None]:
    """Make the loop of forwards and backwards alone, on tensors that lie ready."""
    gradient = torch.ones(1, WIDTH)

    def work() -> None:
        for _ in range(MICROBATCHES):
            output = module(torch.ones(1, WIDTH, requires_grad=True))
            output.backward(gradient)

    return work


def make_ours(module: nn.Module) -> Callable[[], object]:
    """Make a step of one rank in the middle."""
    plan = compile_layout("|".join(["Et", *["t"] * (PP - 2), "tL"]), pp=PP)
    inputs = torch.ones(MICROBATCHES, WIDTH)
    form = Batch((inputs,), None, {}).form(MICROBATCHES, "train None")
    edge = (TensorMeta((1, WIDTH), torch.float32, needs_grad=True),)
    transport = NoopTransport(RANK, PP, [edge] * (PP - 1), values={0: form})
    pipeline = Pipeline(plan, [module], loss_fn=nn.functional.mse_loss, schedule="1f1b", microbatches=MICROBATCHES, transport=transport)
    return pipeline.step


class StaticStage(PipelineStage):
    """A stage of torch's that asks nobody for the shapes it was given: over the fake process group nobody answers."""

    def _warmup_forward_vote(self, has_backward: bool, received_acc: torch.Tensor | None = None) -> torch.Tensor:  # noqa: ARG002, FBT001 -- torch's
        return torch.ones(1, dtype=torch.int32)

    def _warmup_backward_result(self, received_result: torch.Tensor | None = None) -> torch.Tensor:  # noqa: ARG002 -- the same
        return torch.ones(1, dtype=torch.int32)


def make_peers(module: nn.Module) -> Callable[[], object]:
    """Make the same of torch's schedule, the quicker of its two executors; that for arbitrary orders takes more than twice as long."""
    device = torch.device("cpu")
    example = torch.ones(1, WIDTH, requires_grad=True)
    stage = StaticStage(module, RANK, PP, device, input_args=(example,), output_args=(module(example),))
    return Schedule1F1B(stage, MICROBATCHES, nn.functional.mse_loss).step


def measure_host(rounds: int = ROUNDS) -> Host:
    """Measure all three on one rank of 1F1B."""
    if not dist.is_initialized():
        dist.init_process_group("fake", store=FakeStore(), rank=RANK, world_size=PP)
    works = [make(nn.Linear(WIDTH, WIDTH)) for make in (make_bare, make_ours, make_peers)]
    for work in works:
        work()
    seconds = least(works, rounds)
    dist.destroy_process_group()
    return Host(*(each / (2 * MICROBATCHES) * 1e6 for each in seconds))


class Block(nn.Module):
    """The linear layers of a transformer's MLP, with a residual way around them."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(hidden)
        self.up = nn.Linear(hidden, 4 * hidden)
        self.down = nn.Linear(4 * hidden, hidden)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """Add to what comes in."""
        found: torch.Tensor = hidden + self.down(nn.functional.gelu(self.up(self.norm(hidden))))
        return found


def measure_halves(hidden: int = 256, rows: int = 256, rounds: int = 20) -> float:
    """Give the time of I + W as a share of that of B: the median of the ratios of paired steps, their forwards taken off."""
    whole, split = (_make_single([Block(hidden) for _ in range(4)], rows, name) for name in ("1f1b", "zb_h1"))
    for work in (whole, split):
        work()
    ratios = sorted(split() / whole() for _ in range(rounds))
    return ratios[len(ratios) // 2]


def _make_single(blocks: list[Block], rows: int, schedule: str) -> Callable[[], float]:
    """Make a step on one rank; it gives the seconds of its backwards."""
    transport = NoopTransport(0, 1, [])
    inputs = torch.ones(2 * rows, blocks[0].up.in_features)
    pipeline = Pipeline(
        compile_layout("EttttL", pp=1),
        [nn.Sequential(*blocks)],
        loss_fn=nn.functional.mse_loss,
        schedule=schedule,
        microbatches=2,
        transport=transport,
    )

    def work() -> float:
        spent: list[float] = []
        pipeline.record(lambda instruction, begin, end: spent.append(end - begin) if instruction.kind in {"B", "I", "W"} else None)
        pipeline.step(inputs, target=torch.zeros_like(inputs))
        return sum(spent)

    return work


def write(host: Host, halves: float) -> str:
    """Write the figures."""
    return "\n".join(
        [
            f"bare calls {host.bare:7.1f} us an action",
            f"ours       {host.ours:7.1f}, net {host.net:5.1f} (at most 15)",
            f"torch's    {host.peers:7.1f}, net {host.peers - host.bare:5.1f}; ours is {host.ratio:.2f} of it (at most 0.3)",
            f"I + W      {halves:7.2f} of B (at most 1.15)",
        ]
    )


if __name__ == "__main__":
    torch.set_num_threads(1)
    sys.stdout.write(f"{write(measure_host(), measure_halves())}\n")
