"""What the cases of pipeline_worker have in common: a rank's pipeline of toys, and one process beside it."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import distributed as dist

from ppdsl import compile_layout
from ppdsl_runtime.chunks import build
from ppdsl_runtime.pipeline import Pipeline
from tests.runtime.pipelines import WIDTH, Data, Toy, assert_same_grads, run_plainly, toy_loss

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torch import nn

    from ppdsl import Plan
    from tests.runtime.pipelines import Chunks, Loss

WAIT = 60.0
"""Seconds until a wait is given up."""
LOOP = {2: compile_layout("Et|tL", pp=2), 4: compile_layout("E|t|t|L", pp=4)}
"""A stage on each rank, by the number of ranks."""
TWICE = {2: compile_layout("Et|t|t|tL", pp=2), 4: compile_layout("E|t|t|t|t|t|t|L", pp=4)}
"""Two stages on each rank, in a loop."""
VEE = {2: compile_layout("Et@0|t@1|t@1|tL@0", pp=2), 4: compile_layout("E@0|t@1|t@2|t@3|t@3|t@2|t@1|L@0", pp=4)}
"""Two stages on each rank, there and back."""
UNEVEN = {2: compile_layout("Et@1|t@1|t@0|t@1|tL@0", pp=2), 4: compile_layout("Et@2|t@0|t@1|t@1|t@3|tL@0", pp=4)}
"""Any owners: neighbours on one rank, and another number of stages on each."""


class Twins(NamedTuple):
    """A rank's pipeline, and all chunks twice.

    Attributes:
        pipeline: The pipeline.
        chunks: The chunks of all stages; those of this rank are the pipeline's.
        twins: The same, for one process.
        loss_fn: The loss of both.
    """

    pipeline: Pipeline
    chunks: Chunks
    twins: Chunks
    loss_fn: Loss

    def step(self, data: Data, microbatches: int, **options: Any) -> torch.Tensor | None:  # noqa: ANN401 -- of many types
        """Do a step of the pipeline, and in one process; compare the losses."""
        losses = self.pipeline.step(*data.inputs, target=data.target, microbatches=microbatches, **options)
        self.compare(losses, run_plainly(self.twins, data, microbatches, self.loss_fn))
        return losses

    def evaluate(self, data: Data, microbatches: int) -> None:
        """Do an evaluation of the pipeline, and in one process; compare the losses."""
        losses = self.pipeline.eval_step(*data.inputs, target=data.target, microbatches=microbatches)
        with torch.no_grad():
            self.compare(losses, run_plainly(self.twins, data, microbatches, self.loss_fn))

    def compare(self, losses: torch.Tensor | None, expected: torch.Tensor) -> None:
        """Compare losses, which the rank of the last stage has."""
        assert (losses is not None) == self.pipeline.has_loss
        if losses is not None:
            torch.testing.assert_close(losses, expected, rtol=1e-12, atol=1e-14)

    def compare_grads(self) -> None:
        """Compare the gradients of this rank's chunks."""
        own = [chunk.stage for chunk in self.pipeline.plan.chunks_of(self.pipeline.rank)]
        assert_same_grads([self.chunks[stage] for stage in own], [self.twins[stage] for stage in own])


@contextmanager
def open_twins(plan: Plan, make: Callable[[int], nn.Module | None] = Toy, *, loss_fn: Loss = toy_loss, **options: Any) -> Iterator[Twins]:  # noqa: ANN401 -- of many types
    """Make a rank's pipeline, and close it in the end.

    Args:
        plan: The layout.
        make: Makes the chunk of a stage, always the same one.
        loss_fn: The loss.
        options: Those of ``Pipeline``.
    """
    chunks, twins = ([make(stage) for stage in range(len(plan.chunks))] for _ in range(2))
    own = build(plan, lambda chunk: chunks[chunk.stage], rank=dist.get_rank(options.get("group")))
    pipeline = Pipeline(plan, own, loss_fn=loss_fn, timeout=WAIT, **options)
    try:
        yield Twins(pipeline, chunks, twins, loss_fn)
    finally:
        pipeline.close()


def long_data(rows: int, seq: int, seed: int = 0) -> Data:
    """Draw a batch of sequences for toys."""
    generator = torch.Generator().manual_seed(seed)
    hidden, target = (torch.randn(rows, seq, WIDTH, generator=generator, dtype=torch.float64) for _ in range(2))
    return Data((hidden, torch.randint(0, 100, (rows, seq), generator=generator)), target)
