"""What one step leaves to the next: nothing where it failed, and buffers that are as good as new."""

from __future__ import annotations

import gc
from copy import deepcopy
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn

from ppdsl import compile_layout
from ppdsl_runtime.executor.buffers import Slot
from ppdsl_runtime.transport.messages import TensorMeta
from tests.runtime.held_storages import Watched, count
from tests.runtime.pipelines import WIDTH, assert_same_grads, losses_of, run_pipeline, run_plainly, toy_data

if TYPE_CHECKING:
    from ppdsl_runtime.pipeline import Pipeline

MSE = nn.functional.mse_loss
INTERLEAVED = "E|t|t|t|t|L"


class Once:
    """A loss that fails once, in the middle of the first step."""

    def __init__(self) -> None:
        self.taken = 0

    def __call__(self, output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        self.taken += 1
        if self.taken == 3:
            raise ArithmeticError("out of luck")
        return MSE(output, target)


@pytest.mark.parametrize("schedule", ["gpipe", "auto"])
def test_a_step_that_failed_holds_nothing_and_the_next_one_is_right(schedule: str) -> None:
    chunks, twins = ([Watched(stage) for stage in range(3)] for _ in range(2))
    data = toy_data(8)
    left: list[int] = []

    def work(pipeline: Pipeline) -> torch.Tensor | None:
        with pytest.raises(ArithmeticError):
            pipeline.step(data.inputs[0], target=data.target)
        gc.collect()  # the error and its frames
        left.extend(count(refs) for chunk in chunks for refs in (chunk.inner, chunk.outputs))
        pipeline.zero_grad()
        return pipeline.step(data.inputs[0], target=data.target)

    plan = compile_layout("E@0|t@0|L@0", pp=1)
    results = run_pipeline(plan, chunks, work, loss_fn=Once(), schedule=schedule, microbatches=4)
    assert left == [0] * 6
    torch.testing.assert_close(losses_of(results), run_plainly(twins, data._replace(inputs=data.inputs[:1]), 4, MSE), rtol=1e-12, atol=0)
    assert_same_grads(chunks, twins)


def test_buffers_are_laid_out_once_though_stages_share_them(monkeypatch: pytest.MonkeyPatch) -> None:
    laid: list[str] = []
    lay_out: Any = Slot._lay_out  # noqa: SLF001 -- what takes its time

    def note(slot: Slot, metadata: Any) -> None:  # noqa: ANN401 -- see Slot
        laid.append(str(metadata))
        lay_out(slot, metadata)

    monkeypatch.setattr(Slot, "_lay_out", note)
    chunks = [Watched(stage) for stage in range(6)]
    data = toy_data(8)

    def work(pipeline: Pipeline) -> tuple[int, int]:
        pipeline.step(data.inputs[0], target=data.target)
        pipeline.transport.gather(None)
        before = len(laid)
        pipeline.transport.gather(None)
        for _ in range(2):
            pipeline.step(data.inputs[0], target=data.target)
        pipeline.transport.gather(None)
        return before, len(laid)

    plan = compile_layout(INTERLEAVED, pp=2)
    for before, after in run_pipeline(plan, chunks, work, loss_fn=MSE, schedule="interleaved_1f1b", microbatches=4):
        assert 0 < before == after


def test_a_slot_is_laid_out_anew_for_other_shapes() -> None:
    slot = Slot(torch.device("cpu"))
    shapes: list[tuple[int, ...]] = [(2, 3), (4, 5), (2, 3), (0, 3), ()]
    for shape in shapes:
        metadata = (TensorMeta(shape, torch.float32, needs_grad=True), TensorMeta(shape, torch.int16, needs_grad=False))
        one, other = slot.take(metadata)
        assert (one.shape, one.dtype, other.shape, other.dtype) == (torch.Size(shape), torch.float32, torch.Size(shape), torch.int16)
        one.fill_(1.0)
        other.fill_(2)
        assert one.sum() == one.numel()
        assert slot.holds(one) == slot.holds(other) == bool(one.numel())
    assert slot.nbytes == 256 + 40


@pytest.mark.parametrize("frozen", [False, True])
def test_a_step_may_follow_an_evaluation_in_inference_mode(frozen: bool) -> None:  # noqa: FBT001 -- a parameter
    chunks = [nn.Linear(WIDTH, WIDTH, dtype=torch.float64) for _ in range(3)]
    chunks[0].requires_grad_(not frozen)
    twins = deepcopy(chunks)
    data = toy_data(8)._replace(inputs=toy_data(8).inputs[:1])

    def work(pipeline: Pipeline) -> torch.Tensor | None:
        with torch.inference_mode():
            pipeline.eval_step(*data.inputs, target=data.target)
        return pipeline.step(*data.inputs, target=data.target)

    results = run_pipeline(compile_layout("E|t|L", pp=3), chunks, work, loss_fn=MSE, schedule="gpipe", microbatches=4)
    torch.testing.assert_close(losses_of(results), run_plainly(twins, data, 4, MSE), rtol=1e-12, atol=0)
    assert_same_grads(chunks, twins)


class Sparse(nn.Module):
    """Looks rows up in a table whose gradient is sparse."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(7, WIDTH, sparse=True, dtype=torch.float64)
        with torch.no_grad():
            self.table.weight.copy_(torch.arange(7.0 * WIDTH).view(7, WIDTH) / 9)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.table(ids % 7)
        return found


def test_a_sparse_gradient_survives_the_buffer_that_its_values_came_in() -> None:
    chunks, twins = ([Sparse(), Watched(1)] for _ in range(2))
    data = toy_data(8)

    def work(pipeline: Pipeline) -> torch.Tensor | None:
        return pipeline.step(data.inputs[1], target=data.target)

    results = run_pipeline(compile_layout("E|L", pp=2), chunks, work, loss_fn=MSE, microbatches=4)
    torch.testing.assert_close(losses_of(results), run_plainly(twins, data._replace(inputs=data.inputs[1:]), 4, MSE), rtol=1e-12, atol=0)
    for chunk in (chunks[0], twins[0]):
        weight: Any = chunk.table.weight  # type: ignore[union-attr]
        weight.grad = weight.grad.to_dense()
    assert_same_grads(chunks, twins)
