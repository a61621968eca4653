"""Optimizers: parameters of 16 bits are updated as exactly as others, and a rank may have nothing to train."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")  # the runtime is tested where torch is among the tests' requirements

import torch

from ppdsl_runtime.chunks.accumulating import set_main_grad
from ppdsl_runtime.training.optimizers import Optimizer, OptimizerName

HALF = [torch.float16, torch.bfloat16]


def make(dtype: torch.dtype) -> torch.nn.Parameter:
    return torch.nn.Parameter(torch.tensor([1.0, -0.5, 0.25], dtype=dtype))


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("name", ["adamw", "sgd"])
def test_parameters_of_16_bits_follow_those_of_32(name: OptimizerName, dtype: torch.dtype) -> None:
    half, full = make(dtype), make(torch.float32)
    optimizers = [Optimizer(name, [each], lr=1e-3, weight_decay=0.1) for each in (half, full)]
    for step in range(20):
        for each, optimizer in zip((half, full), optimizers, strict=True):
            each.grad = torch.tensor([1e-4, -2e-7, 0.0], dtype=each.dtype) * (step + 1)
            optimizer.step()
    assert torch.isfinite(half).all()
    assert torch.equal(half, full.to(dtype))


@pytest.mark.parametrize("dtype", HALF)
def test_updates_too_small_for_16_bits_add_up(dtype: torch.dtype) -> None:
    weight = make(dtype)
    optimizer = Optimizer("sgd", [weight], lr=1.0)
    for _ in range(100):
        weight.grad = torch.full_like(weight, 1e-4)
        optimizer.step()
    assert weight.tolist() == pytest.approx([0.99, -0.51, 0.24], abs=4e-3)


def test_gradients_kept_in_fp32_are_taken_as_they_are() -> None:
    weight = make(torch.float16)
    set_main_grad(weight, torch.full((3,), 1e6))  # infinite in fp16
    Optimizer("sgd", [weight], lr=1e-6).step()
    assert weight.tolist() == [0.0, -1.5, -0.75]


def test_a_parameter_without_a_gradient_is_left_alone() -> None:
    for dtype in (*HALF, torch.float32):
        weight, frozen = make(dtype), make(dtype)
        frozen.requires_grad = False
        optimizer = Optimizer("adamw", [weight, weight, frozen], lr=1.0)
        optimizer.step()
        assert torch.equal(weight, make(dtype))
        assert torch.equal(frozen, make(dtype))


def test_a_rank_with_nothing_to_train_has_nothing_to_do() -> None:
    Optimizer("adamw", [], lr=1.0).step()
