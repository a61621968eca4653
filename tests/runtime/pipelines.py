"""Pipelines in one process, a thread a rank, and the plain loop that they must equal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import torch
from torch import nn

from ppdsl_runtime.chunks import build
from ppdsl_runtime.pipeline import Pipeline
from ppdsl_runtime.transport.rendezvous import make_rendezvous, run_ranks

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ppdsl import Plan
    from ppdsl_runtime.transport.interface import Transport

SECONDS = 20.0
"""Until a rank that waits gives up: a deadlock fails the test instead of hanging it."""
WIDTH = 3

Chunks: TypeAlias = "Sequence[nn.Module | None]"
Work: TypeAlias = "Callable[[Pipeline], Any]"
Loss: TypeAlias = "Callable[[Any, Any], Any]"


class Toy(nn.Module):
    """A chunk that any stage can be: (hidden, ids, ...) to (hidden, ids, an output that nobody uses).

    It has linear layers with and without a bias, a parameter that is none, and an index that comes from the payload.
    """

    def __init__(self, seed: int, *, frozen: bool = False, dtype: torch.dtype = torch.float64) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.first = nn.Linear(WIDTH, 2 * WIDTH)
        self.second = nn.Linear(2 * WIDTH, WIDTH, bias=False)
        self.table = nn.Parameter(torch.empty(5, WIDTH))
        self.runs = 0
        self.to(dtype)
        with torch.no_grad():
            for weight in self.parameters():
                weight.copy_(torch.randn(weight.shape, generator=generator, dtype=torch.float64) / 2)
        self.requires_grad_(not frozen)

    def forward(self, hidden: torch.Tensor, ids: torch.Tensor, *_: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        self.runs += 1
        inner = torch.tanh(self.first(hidden + self.table[ids % 5]))
        return hidden + self.second(inner), ids + 1, inner.sum(-1)


def toy_loss(output: tuple[torch.Tensor, ...], target: torch.Tensor) -> torch.Tensor:
    """Give a mean over the rows that also depends on the integers that came through."""
    hidden, ids = output[:2]
    return ((hidden - target) * (1 + ids % 3).unsqueeze(-1)).square().mean()


class Data(NamedTuple):
    """A batch for toys.

    Attributes:
        inputs: What stage 0 gets.
        target: What the loss gets.
    """

    inputs: tuple[torch.Tensor, ...]
    target: torch.Tensor


def toy_data(rows: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Data:
    """Draw a batch."""
    generator = torch.Generator().manual_seed(seed)
    hidden, target = (torch.randn(rows, WIDTH, generator=generator, dtype=torch.float64).to(dtype) for _ in range(2))
    return Data((hidden, torch.randint(0, 100, (rows,), generator=generator)), target)


def run_pipeline(plan: Plan, chunks: Chunks, work: Work, *, loss_fn: Loss = toy_loss, **options: Any) -> list[Any]:  # noqa: ANN401 -- of many types
    """Do the same work on each rank's pipeline, in a thread each.

    Args:
        plan: The layout.
        chunks: The chunk of each stage.
        work: Takes a rank's pipeline.
        loss_fn: The loss.
        options: Those of ``Pipeline``; one that is a function named ``by_rank`` gives more of them for a rank.
    """
    by_rank = options.pop("by_rank", lambda _: {})

    def run(transport: Transport) -> Any:  # noqa: ANN401 -- what the work gives
        own = build(plan, lambda chunk: chunks[chunk.stage], rank=transport.rank)
        pipeline = Pipeline(plan, own, loss_fn=loss_fn, transport=transport, **options, **by_rank(transport.rank))
        try:
            return work(pipeline)
        finally:
            pipeline.close()

    return run_ranks(make_rendezvous(plan.pp, SECONDS), run)


def run_plainly(chunks: Chunks, data: Data, microbatches: int, loss_fn: Loss = toy_loss) -> torch.Tensor:
    """Do forwards and backwards of all microbatches, one by one, in this process; give their losses."""
    losses = []
    batches = zip(*(tensor.tensor_split(microbatches) for tensor in (*data.inputs, data.target)), strict=True)
    for *payload, target in batches:
        output: Any = tuple(payload)
        for chunk in chunks:
            output = output if chunk is None else chunk(*(output if isinstance(output, tuple) else (output,)))
        loss = loss_fn(output, target)
        if loss.requires_grad:
            (loss * len(target) / len(data.target)).backward()
        losses.append(loss.detach())
    return torch.stack(losses)


def assert_same_grads(found: Chunks, expected: Chunks, rtol: float = 1e-10, atol: float = 1e-12) -> None:
    """Compare the gradients of all parameters; where one has none, the other has none, or zeros."""
    for stage, (one, other) in enumerate(zip(found, expected, strict=True)):
        assert (one is None) == (other is None)
        if one is None or other is None:
            continue
        wanted = dict(other.named_parameters())
        for name, weight in one.named_parameters():
            right = wanted[name].grad
            gradient = torch.zeros_like(weight) if weight.grad is None else weight.grad
            assert torch.allclose(gradient, torch.zeros_like(weight) if right is None else right, rtol, atol), f"{stage}.{name}"


def losses_of(results: Sequence[torch.Tensor | None]) -> torch.Tensor:
    """Give the losses, which exactly one rank has."""
    (losses,) = [result for result in results if result is not None]
    return losses
