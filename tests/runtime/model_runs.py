"""The steps of a model's pipeline, rank by rank, and how far they may be from those of one process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from ppdsl_runtime.chunks import build
from ppdsl_runtime.chunks.accumulating import grad_of
from ppdsl_runtime.models import named_global_parameters, tied_parameters
from ppdsl_runtime.pipeline import Pipeline
from tests.runtime.random_models import LOSS

if TYPE_CHECKING:
    from tests.runtime.random_models import Expected, ModelCase

BOUNDS = {torch.float64: 1e-12, torch.float32: 1e-4, torch.bfloat16: 2.0**-6}
"""How far a gradient may be off, by norm, of its own norm and a hundredth of that of all gradients, since some are 0 but for rounding.

In fp64 and fp32 one process runs the batch in one piece, so that sums are made in another order. In bf16 both run the same microbatches,
which give the same bits, and sum them in fp32. What differs is a shared weight: of its uses in a microbatch, up to 6, one process makes a
sum in bf16, and ranks of their own a sum in fp32. Each such sum may be off by 2**-8; of 600 examples none was by more than 2**-8.3. One of
at most 5 microbatches left out, or counted twice, is far more.
"""


class Found(NamedTuple):
    """What one rank has found.

    Attributes:
        losses: The loss of each step's batch; None where another rank has it.
        grads: Its gradients behind each step, by global name; None where there is none.
        norm: The norm of all ranks' gradients behind the second.
    """

    losses: list[torch.Tensor | None]
    grads: list[dict[str, torch.Tensor | None]]
    norm: torch.Tensor


def run_rank(case: ModelCase, rank: int, **options: Any) -> Found:  # noqa: ANN401 -- of many types
    """Do both steps on one rank, without zero_grad between them.

    Args:
        case: The model and its plan.
        rank: The rank.
        options: Those of ``Pipeline`` that say what transport it has, and what program.
    """
    plan = case.laid.plan
    chunks = build(plan, case.make_builder(), rank=rank)
    case.freeze(chunks)  # type: ignore[arg-type]  # a builder's
    pipeline = Pipeline(
        plan,
        chunks,
        loss_fn=LOSS,
        tied=tied_parameters(chunks),
        checkpoint=case.checkpoint,
        dropout_seed=case.dropout_seed,
        fp32_grads=case.half,
        **options,
    )
    losses: list[torch.Tensor | None] = []
    grads: list[dict[str, torch.Tensor | None]] = []
    for tokens, target in case.make_batches():
        found, weights = pipeline.step(tokens, target=target), pipeline.loss_weights
        losses.append(None if found is None or weights is None else (found.double() * weights).sum())
        grads.append({name: copy_grad(weight) for name, weight in named_global_parameters(chunks).items()})
    norm = pipeline.grad_norm()
    pipeline.close()
    return Found(losses, grads, norm)


def copy_grad(weight: torch.nn.Parameter) -> torch.Tensor | None:
    """Give a copy of a gradient, in float64."""
    gradient = grad_of(weight)
    return None if gradient is None else gradient.double().clone()


def total_norm(grads: dict[str, torch.Tensor]) -> torch.Tensor:
    """Give the norm of all gradients together."""
    norms = [gradient.norm() for gradient in grads.values()]
    return torch.stack([torch.zeros((), dtype=torch.float64), *norms]).square().sum().sqrt()


def check(case: ModelCase, found: Found, expected: Expected) -> None:
    """Compare what one rank has found with what one process has."""
    bound = BOUNDS[case.dtype]
    for step, (loss, wanted) in enumerate(zip(expected.losses, expected.grads, strict=True)):
        own = found.losses[step]
        if own is not None:
            torch.testing.assert_close(own, loss, rtol=bound, atol=bound)
        total = total_norm(wanted)
        for name, gradient in found.grads[step].items():
            right = wanted.get(name, torch.zeros((), dtype=torch.float64))
            error = right.norm() if gradient is None else (gradient - right).norm()
            assert error <= bound * (right.norm() + total / 100), f"{name} behind step {step}: off by {error}, its norm is {right.norm()}"
    torch.testing.assert_close(found.norm, total_norm(expected.grads[-1]), rtol=bound, atol=bound)
