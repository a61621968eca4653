"""What a loss function may give, and what the backwards of a step start with."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn

from ppdsl import compile_layout
from ppdsl_runtime.losses import Losses, count_targets
from tests.runtime.pipelines import WIDTH, assert_same_grads, losses_of, run_pipeline, toy_data

if TYPE_CHECKING:
    from ppdsl_runtime.pipeline import Pipeline
    from tests.runtime.pipelines import Loss

PLAN = compile_layout("Et|tL", pp=2)
ONE = compile_layout("EtL", pp=1)


class Shifted(nn.Module):
    """A linear layer, and a parameter of one element that goes into the loss as it is."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = linear(1)
        self.shift = nn.Parameter(torch.full((1,), 0.5, dtype=torch.float64))

    def forward(self, hidden: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.linear(hidden), self.shift


def linear(seed: int) -> nn.Linear:
    layer = nn.Linear(WIDTH, WIDTH, dtype=torch.float64)
    with torch.no_grad():
        for weight in layer.parameters():
            weight.copy_(torch.randn(weight.shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64))
    return layer


def mean(output: tuple[torch.Tensor, torch.Tensor], target: torch.Tensor) -> torch.Tensor:
    return nn.functional.mse_loss(output[0], target) + output[1].squeeze()


def counted(output: tuple[torch.Tensor, torch.Tensor], target: torch.Tensor) -> tuple[torch.Tensor, int]:
    return (output[0] - target).square().sum() + output[1].squeeze(), target.numel()


@pytest.mark.parametrize("schedule", ["1f1b", "zb_h1"])
@pytest.mark.parametrize("loss_fn", [mean, counted])
def test_a_parameter_that_gets_the_first_gradient_itself_does_not_change_it(loss_fn: Loss, schedule: str) -> None:
    """Autograd makes a view of the gradient that a backward starts with the parameter's own, and adds later ones in place."""
    chunks, twins, data = [linear(0), Shifted()], nn.Sequential(linear(0), Shifted()), toy_data(8)

    def work(pipeline: Pipeline) -> None:
        for _ in range(3):
            pipeline.zero_grad()
            pipeline.step(data.inputs[0], target=data.target)

    run_pipeline(PLAN, chunks, work, loss_fn=loss_fn, schedule=schedule, microbatches=4)
    for hidden, target in zip(data.inputs[0].tensor_split(4), data.target.tensor_split(4), strict=True):
        found = loss_fn(twins(hidden), target)
        torch.autograd.backward(found[0] / data.target.numel() if isinstance(found, tuple) else found / 4)
    assert_same_grads(chunks, [*twins])


class Squared(nn.Module):
    """A chunk that takes its own loss: a sum, and how much it is a sum of."""

    def forward(self, hidden: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return hidden.square().sum(), torch.full((), hidden.numel(), dtype=torch.float64)


@pytest.mark.parametrize("schedule", ["1f1b", "gpipe"])
def test_losses_that_an_empty_last_stage_passes_on_are_kept(schedule: str) -> None:
    """They come in receive buffers, which the next microbatches use again."""
    layer, data = linear(0), toy_data(6)

    def work(pipeline: Pipeline) -> torch.Tensor | None:
        return pipeline.step(data.inputs[0], target=data.target)

    found = run_pipeline(
        compile_layout("E|t|L", pp=3),
        [layer, Squared(), None],
        work,
        loss_fn=lambda output, target: output,  # noqa: ARG005 -- the form of all losses
        count_fn=lambda target: target.numel(),
        schedule=schedule,
        microbatches=6,
    )
    with torch.no_grad():
        expected = torch.stack([layer(row).square().mean() for row in data.inputs[0].tensor_split(6)])
    torch.testing.assert_close(found[-1], expected)


def test_counts_may_add_up_to_less_than_one() -> None:
    chunks, twins, data = [linear(0), linear(1)], nn.Sequential(linear(0), linear(1)), toy_data(4)
    weights = torch.tensor([0.1, 0.2, 0.05, 0.15], dtype=torch.float64)

    def loss_fn(output: torch.Tensor, target: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        weights = target[:, -1]
        return ((output - target[:, :-1]).square().sum(-1) * weights).sum(), weights.sum()

    def step(pipeline: Pipeline) -> tuple[Any, Any]:
        target = torch.cat((data.target, weights.unsqueeze(-1)), -1)
        return pipeline.step(data.inputs[0], target=target), pipeline.loss_weights

    _, (losses, shares) = run_pipeline(PLAN, chunks, step, loss_fn=loss_fn, count_fn=lambda target: target[:, -1].sum(), microbatches=2)
    rows = (twins(data.inputs[0]) - data.target).square().sum(-1)
    torch.autograd.backward((rows * weights).sum() / weights.sum())
    assert_same_grads(chunks, [*twins])
    torch.testing.assert_close(shares, torch.tensor([0.6, 0.4], dtype=torch.float64))
    torch.testing.assert_close(losses[0], (rows[:2] * weights[:2]).sum().detach() / 0.3, rtol=1e-12, atol=0)


def test_a_batch_in_which_nothing_counts_has_a_loss_of_zero() -> None:
    chunk = nn.Linear(WIDTH, 4, dtype=torch.float64)

    def loss_fn(output: torch.Tensor, target: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return nn.functional.cross_entropy(output, target, reduction="sum"), (target != -100).sum()

    losses = losses_of(
        run_pipeline(
            ONE,
            [chunk],
            lambda pipeline: pipeline.step(toy_data(4).inputs[0], target=torch.full((4,), -100)),
            loss_fn=loss_fn,
            microbatches=2,
        )
    )
    assert losses.tolist() == [0, 0]
    assert chunk.weight.grad is not None
    assert torch.equal(chunk.weight.grad, torch.zeros_like(chunk.weight))


SCALAR = torch.zeros(())


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (None, "NoneType"),
        (1.5, "float"),
        ([SCALAR, 2], "list"),
        (torch.zeros(1), "a tensor of shape (1,)"),
        ((1.5, 2), "(float, int)"),
        ((SCALAR, {"logs": 1}), "(a tensor of shape (), dict)"),
        ((SCALAR, None), "(a tensor of shape (), NoneType)"),
        ((SCALAR, 2, 3), "(a tensor of shape (), int, int)"),
        ((torch.zeros(2, 3), 2), "(a tensor of shape (2, 3), int)"),
    ],
)
def test_what_is_no_loss_is_refused(found: object, text: str) -> None:
    losses = Losses(lambda *_: found)
    losses.begin([torch.zeros(1)], [1])
    with pytest.raises(ValueError, match="^" + re.escape(f"loss_fn gives {text}, not a scalar tensor, or one and a count") + "$"):
        losses.take(None, 0)


@pytest.mark.parametrize("order", [1, -1])
def test_a_mean_and_a_count_in_one_step_are_refused(order: int) -> None:
    found = iter([SCALAR, (SCALAR, 1)][::order])
    losses = Losses(lambda *_: next(found))
    losses.begin([torch.zeros(1), torch.zeros(1)], [1, 1])
    losses.take(None, 0)
    with pytest.raises(ValueError, match=r"^loss_fn gives a mean for some microbatches of a step, and a sum and a count for others$"):
        losses.take(None, 1)


def test_a_target_that_cannot_be_counted_needs_count_fn() -> None:
    assert int(count_targets(torch.tensor([[1, -100], [0, 2]]))) == 3
    assert int(count_targets(torch.zeros(2, 3))) == 6
    text = r"^loss_fn gives a count, and the target is dict, no tensor, so count_fn must count it$"
    with pytest.raises(ValueError, match=text):
        count_targets({"labels": torch.zeros(2)})  # type: ignore[arg-type]  # what is refused


def test_weights_are_told_where_the_losses_of_the_last_step_are() -> None:
    data = toy_data(4)

    def work(pipeline: Pipeline) -> list[Any]:
        told = []
        for everywhere, microbatches in ((True, 4), (False, 2)):
            pipeline.step(data.inputs[0], target=data.target, microbatches=microbatches, loss_everywhere=everywhere)
            weights = pipeline.loss_weights
            told.append(None if weights is None else weights.tolist())
        return told

    results = run_pipeline(PLAN, [linear(0), linear(1)], work, loss_fn=nn.functional.mse_loss)
    assert results == [[[0.25] * 4, None], [[0.25] * 4, [0.5] * 2]]
