"""Running chunks: what wraps them, what two of their tensors may share, and what a step leaves behind in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn

from ppdsl import compile_layout
from ppdsl_runtime.chunks.running import find_names
from tests.runtime.buffer_chunks import Slow
from tests.runtime.pipelines import WIDTH, Toy, assert_same_grads, run_pipeline, run_plainly, toy_data

if TYPE_CHECKING:
    from ppdsl_runtime.pipeline import Pipeline

PLAN = compile_layout("Et|tL", pp=2)
MSE = nn.functional.mse_loss


class Masked(nn.Module):
    """A chunk that takes a mask, if there is one."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.linear = nn.Linear(WIDTH, WIDTH, dtype=torch.float64)
        with torch.no_grad():
            for weight in self.parameters():
                weight.copy_(torch.randn(weight.shape, generator=generator, dtype=torch.float64))

    def forward(self, hidden: torch.Tensor, *, mask: torch.Tensor | None = None) -> torch.Tensor:
        found: torch.Tensor = torch.tanh(self.linear(hidden))
        return found if mask is None else found * mask.unsqueeze(-1)


class Wrapper(nn.Module):
    """Passes on whatever it is called with, and takes one more."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, *payload: torch.Tensor, factor: float, **side: Any) -> torch.Tensor:  # noqa: ANN401 -- whatever the inner one takes
        found: torch.Tensor = self.inner(*payload, **side) * factor
        return found


def test_keyword_inputs_are_found_inside_what_wraps_a_chunk() -> None:
    assert find_names(None) == {}
    assert find_names(nn.Linear(1, 1)) == {}
    assert find_names(Masked(0)) == {"mask": False}
    assert find_names(Wrapper(Masked(0))) == {"mask": False, "factor": True}
    compiled: Any = torch.compile(Wrapper(Masked(0)), backend="eager")
    assert find_names(compiled) == {"mask": False, "factor": True}


@pytest.mark.parametrize("schedule", ["1f1b", "zb_h1"])
def test_compiled_chunks_get_their_keyword_inputs_and_their_weight_gradients(schedule: str) -> None:
    chunks, twins, data = [Masked(0), Masked(1)], [Masked(0), Masked(1)], toy_data(8)
    compiled: list[Any] = [torch.compile(chunk, backend="aot_eager") for chunk in chunks]
    mask = (torch.arange(8) % 3 > 0).double()

    def work(pipeline: Pipeline) -> None:
        for microbatches in (2, 4):
            pipeline.step(data.inputs[0], target=data.target, mask=mask, microbatches=microbatches)

    run_pipeline(PLAN, compiled, work, loss_fn=MSE, schedule=schedule)
    first, last = twins
    torch.autograd.backward(2 * MSE(last(first(data.inputs[0], mask=mask), mask=mask), data.target))
    assert_same_grads(chunks, twins)


def test_weight_gradients_are_put_off_within_steps_only() -> None:
    """A chunk that its owner runs between two steps, as for an auxiliary loss, has all its gradients; the next step puts off again."""
    chunks, twins, data = [Toy(0), Toy(1)], [Toy(0), Toy(1)], toy_data(6)

    def work(pipeline: Pipeline) -> None:
        for _ in range(2):
            pipeline.step(*data.inputs, target=data.target)
            chunks[pipeline.rank](*data.inputs)[0].sum().backward()

    run_pipeline(PLAN, chunks, work, schedule="zb_h1", microbatches=3)
    for _ in range(2):
        run_plainly(twins, data, 3)
        for twin in twins:
            twin(*data.inputs)[0].sum().backward()
    assert_same_grads(chunks, twins)


def test_chunks_may_be_in_two_pipelines_that_split_backwards() -> None:
    chunks, twins, data = [Toy(0), Toy(1)], [Toy(0), Toy(1)], toy_data(6)

    def step(pipeline: Pipeline) -> None:
        pipeline.step(*data.inputs, target=data.target)

    def work(pipeline: Pipeline) -> None:
        step(pipeline)
        pipeline.transport.gather(None)
        if not pipeline.rank:  # the others wait for it
            run_pipeline(PLAN, chunks, step, schedule="zb_h1", microbatches=2)
        pipeline.transport.gather(None)
        step(pipeline)

    run_pipeline(PLAN, chunks, work, schedule="zb_h1", microbatches=3)
    for count in (3, 2, 3):
        run_plainly(twins, data, count)
    assert_same_grads(chunks, twins)


class Placed(nn.Module):
    """A linear layer, and positions added to what it gives: of a single sequence, both have the same gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH, dtype=torch.float64)
        self.positions = nn.Parameter(torch.full((WIDTH,), 0.1, dtype=torch.float64))
        with torch.no_grad():
            self.linear.weight.copy_(torch.eye(WIDTH) + 0.1)
            self.linear.bias.fill_(0.1)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = torch.tanh(self.linear(hidden) + self.positions.unsqueeze(0))
        return found


@pytest.mark.parametrize("schedule", ["1f1b", "zb_h1", "zb_h2"])
@pytest.mark.parametrize("stage", [0, 1, 2])
def test_a_parameter_does_not_share_its_gradient_with_a_weight_gradient_that_is_put_off(stage: int, schedule: str) -> None:
    def make() -> list[nn.Module]:
        chunks: list[nn.Module] = [Slow(place, 0, 0) for place in range(3)]
        chunks[stage] = Placed()
        return chunks

    chunks, twins, data = make(), make(), toy_data(8)
    data = data._replace(inputs=data.inputs[:1])

    def work(pipeline: Pipeline) -> None:
        for _ in range(2):
            pipeline.step(data.inputs[0], target=data.target)

    run_pipeline(compile_layout("E|t|L", pp=3), chunks, work, loss_fn=MSE, schedule=schedule, microbatches=8)
    for _ in range(2):
        run_plainly(twins, data, 8, MSE)
    assert_same_grads(chunks, twins)


class Added(nn.Module):
    """Positions added to what comes, each by a view: of a single sequence, both have the same gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.positions = nn.Parameter(torch.full((WIDTH,), 0.1, dtype=torch.float64))

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        return torch.tanh(hidden.view(1, WIDTH) + self.positions.unsqueeze(0))


@pytest.mark.parametrize("schedule", ["1f1b", "gpipe", "zb_h1"])
def test_a_parameter_does_not_share_its_gradient_with_one_that_is_handed_back(schedule: str) -> None:
    """The rank before is busy, so that it takes what was handed back late."""

    def make() -> list[nn.Module]:
        return [Slow(0, 0, 0), Slow(1, 0.01, 0), Added()]

    chunks, twins, data = make(), make(), toy_data(8)
    data = data._replace(inputs=data.inputs[:1])

    def work(pipeline: Pipeline) -> None:
        for _ in range(2):
            pipeline.step(data.inputs[0], target=data.target)

    run_pipeline(compile_layout("E|t|L", pp=3), chunks, work, loss_fn=MSE, schedule=schedule, microbatches=8)
    for _ in range(2):
        run_plainly(twins, data, 8, MSE)
    assert_same_grads(chunks, twins)


def test_any_integer_seeds_dropout() -> None:
    hidden = torch.ones(4, WIDTH, dtype=torch.float64)

    def run(seed: int) -> torch.Tensor:
        linear = nn.Linear(WIDTH, WIDTH, dtype=torch.float64)
        with torch.no_grad():
            linear.weight.fill_(1)
            linear.bias.fill_(1)
        (losses,) = run_pipeline(
            compile_layout("EtL", pp=1),
            [nn.Sequential(linear, nn.Dropout(0.5))],
            lambda pipeline: pipeline.step(hidden, target=hidden),
            loss_fn=lambda output, _: output.sum(),
            dropout_seed=seed,
        )
        found: torch.Tensor = losses
        return found

    seeds = [0, 1, -1, 2**63, 2**64 - 2]
    assert all(torch.equal(run(seed), run(seed)) for seed in seeds)
    assert len({run(seed).item() for seed in seeds}) > 1
