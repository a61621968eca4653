"""The gradients of all ranks taken together, of whatever type and form."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn

from ppdsl import compile_layout
from tests.runtime.pipelines import WIDTH, run_pipeline, toy_data

if TYPE_CHECKING:
    from ppdsl_runtime.pipeline import Pipeline

PLAN = compile_layout("Et|tL", pp=2)


class Held(nn.Module):
    """A parameter that nothing uses, with a gradient."""

    def __init__(self, value: float, dtype: torch.dtype) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1000, dtype=dtype))
        self.weight.grad = torch.full_like(self.weight, value)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        return hidden


@pytest.mark.parametrize(
    ("value", "dtype"),
    [(4000.0, torch.float16), (1.2345, torch.float16), (1.2345, torch.bfloat16), (1.2345, torch.float32), (1.2345, torch.float64)],
)
def test_norms_are_exact_where_the_gradients_have_16_bits(value: float, dtype: torch.dtype) -> None:
    """The norm of gradients that are scaled up may be more than fp16 holds."""
    chunks = [Held(value, dtype), Held(value, dtype)]

    def work(pipeline: Pipeline) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        before = pipeline.grad_norm()
        return before, pipeline.clip_grad_norm_(1.0), pipeline.grad_norm()

    norm = torch.full((2000,), value, dtype=dtype).double().norm()
    for before, told, after in run_pipeline(PLAN, chunks, work):
        torch.testing.assert_close(before, norm, rtol=1e-6, atol=0)
        assert torch.equal(before, told)
        torch.testing.assert_close(after, torch.ones((), dtype=torch.float64), rtol=1e-2, atol=0)


def test_sparse_gradients_count_each_index_once() -> None:
    first, last = (nn.Embedding(7, WIDTH, sparse=True, dtype=torch.float64), nn.Linear(WIDTH, WIDTH, dtype=torch.float64))
    twins = nn.Sequential(nn.Embedding(7, WIDTH, dtype=torch.float64), nn.Linear(WIDTH, WIDTH, dtype=torch.float64))
    for chunk, twin in zip((first, last), twins, strict=True):
        twin.load_state_dict(chunk.state_dict())
    tokens, target = torch.arange(8) % 3, toy_data(8).target

    def work(pipeline: Pipeline) -> list[Any]:
        pipeline.step(tokens, target=target)
        return [pipeline.has_non_finite_grads(), pipeline.clip_grad_norm_(0.1), pipeline.grad_norm()]

    results = run_pipeline(PLAN, [first, last], work, loss_fn=nn.functional.mse_loss, microbatches=2)
    torch.autograd.backward(nn.functional.mse_loss(twins(tokens), target))
    norm = nn.utils.clip_grad_norm_(twins.parameters(), 0.1)
    for finite, before, after in results:
        assert not finite
        torch.testing.assert_close(before, norm, rtol=1e-12, atol=0)
        torch.testing.assert_close(after, torch.tensor(0.1, dtype=torch.float64), rtol=1e-4, atol=0)
    assert first.weight.grad is not None
    right = twins[0].weight.grad
    torch.testing.assert_close(first.weight.grad.to_dense(), right, rtol=1e-12, atol=0)


def test_gradients_of_fp16_scaled_up_are_those_of_fp32_once_they_are_scaled_down() -> None:
    """What underflows in fp16 does not where a scale is given; too large a one is seen."""
    data = toy_data(8, dtype=torch.float16)
    small = 1e-4
    scales = iter([1.0, 2.0**12, 2.0**40])

    def make(dtype: torch.dtype) -> list[nn.Module]:
        layers = [nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)]
        for seed, layer in enumerate(layers):
            for weight in layer.parameters():
                weight.data.copy_(torch.randn(weight.shape, generator=torch.Generator().manual_seed(seed)))
        return [layer.to(dtype) for layer in layers]

    def loss_fn(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return small * small * nn.functional.mse_loss(output.float(), target.float())

    chunks, twins = make(torch.float16), make(torch.float32)

    def work(pipeline: Pipeline) -> list[tuple[bool, list[torch.Tensor]]]:
        found = []
        for _ in range(3):
            pipeline.zero_grad()
            pipeline.step(data.inputs[0], target=data.target)
            grads = [weight.grad.float() for weight in chunks[pipeline.rank].parameters() if weight.grad is not None]
            found.append((pipeline.has_non_finite_grads(), grads))
        return found

    options: dict[str, Any] = {"by_rank": lambda rank: {"grad_scale": scales.__next__} if rank else {}}
    results = run_pipeline(PLAN, chunks, work, loss_fn=loss_fn, microbatches=2, **options)
    torch.autograd.backward(loss_fn(nn.Sequential(*twins)(data.inputs[0].float()), data.target))
    for rank, (plain, scaled, beyond) in enumerate(results):
        right = [weight.grad for weight in twins[rank].parameters() if weight.grad is not None]
        assert [plain[0], scaled[0], beyond[0]] == [False, False, True]
        assert any(not gradient.all() for gradient in plain[1])
        for gradient, wanted in zip(scaled[1], right, strict=True):
            torch.testing.assert_close(gradient / 2.0**12, wanted, rtol=2e-2, atol=1e-2 * small * small)
