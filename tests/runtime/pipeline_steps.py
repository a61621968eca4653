"""Cases of pipeline_worker: steps over real ranks, each compared with one process. Each rank runs them with the number of ranks."""

from __future__ import annotations

import os
from typing import Any

import torch
from torch import nn

from ppdsl_runtime.transport.distributed import DistributedTransport
from tests.runtime.pipeline_ends import LOOP, TWICE, UNEVEN, VEE, long_data, open_twins
from tests.runtime.pipelines import WIDTH, Data, Toy, run_plainly, toy_data

SIZES = [(4, 3, 2), (6, 5, 3), (4, 3, 2), (8, 3, 8), (8, 7, 1), (5, 3, 2), (6, 5, 3)]
"""Rows, tokens and microbatches of steps that follow each other; some are uneven, some were seen before."""


def change_shapes(size: int) -> None:
    """Sequence lengths, rows and microbatches change from step to step, and gradients add up."""
    for plan, schedule in ((LOOP, "1f1b"), (LOOP, "zb_h1"), (TWICE, "gpipe"), (VEE, "zb_v"), (UNEVEN, "auto")):
        for depth in (0, 2):
            with open_twins(plan[size], schedule=schedule, depth=depth) as twins:
                for place, (rows, seq, count) in enumerate(SIZES):
                    twins.step(long_data(rows, seq, place), count)
                    twins.compare_grads()


def freeze_or_empty_the_first_stage(size: int) -> None:
    """A first stage that is frozen, or holds nothing, with whole and with split backwards."""
    for plan, schedule in ((LOOP, "1f1b"), (LOOP, "zb_h1"), (LOOP, "zb_h2"), (VEE, "zb_v"), (TWICE, "interleaved_1f1b")):
        for frozen in (True, False):

            def make(stage: int, *, frozen: bool = frozen) -> nn.Module | None:
                return Toy(stage, frozen=stage == 0) if frozen or stage else None

            with open_twins(plan[size], make, schedule=schedule, microbatches=8) as twins:
                for seed in range(2):
                    twins.step(toy_data(8, seed), 8)
                twins.compare_grads()


class Parcel(nn.Module):
    """A chunk that passes on tensors of many types, shapes and strides, with and without gradients."""

    def __init__(self, stage: int) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH, dtype=torch.float64)
        with torch.no_grad():
            self.linear.weight.copy_(torch.eye(WIDTH) + stage / 10)
            self.linear.bias.fill_(0.1)

    def forward(self, hidden: torch.Tensor, *more: torch.Tensor) -> tuple[torch.Tensor, ...]:
        hidden = torch.tanh(self.linear(hidden))
        if not more:
            ids = torch.arange(len(hidden))
            more = (
                ids,
                ids.to(torch.int32),
                ids % 2 == 0,
                hidden.bfloat16(),
                hidden.mean(),
                torch.empty(0, 3),
                hidden.detach(),
                hidden.t(),
            )
        ids, small, mask, half, mean, nothing, cut, turned = more
        hidden = hidden + mask.unsqueeze(-1) * ids.unsqueeze(-1) / 10 + half + mean + cut + turned.t()
        return hidden, ids + 1, small - 1, ~mask, half * 2, mean, nothing, cut, (hidden * small.unsqueeze(-1)).t()


def parcel_loss(output: tuple[torch.Tensor, ...], target: torch.Tensor) -> torch.Tensor:
    """Take a mean that depends on all that can be derived."""
    hidden, ids, small, mask, half, mean, _, cut, turned = output
    scale = (ids + small + mask).unsqueeze(-1)
    return ((hidden - target) * scale).square().mean() + half.double().mean() + mean + cut.mean() + turned.mean()


def send_tuples_of_types(size: int) -> None:
    """Integers, booleans, bf16, scalars, nothing, and what is not contiguous, each with its gradient where it has one."""
    for plan, schedule in ((LOOP, "1f1b"), (LOOP, "zb_h1"), (UNEVEN, "gpipe")):
        with open_twins(plan[size], Parcel, loss_fn=parcel_loss, schedule=schedule) as twins:
            for seed in range(2):
                data = toy_data(6, seed)
                twins.step(Data(data.inputs[:1], data.target), 3)
            twins.compare_grads()


class Aided(nn.Module):
    """A chunk that takes side inputs of all kinds, and the tokens, in the middle too."""

    def __init__(self, stage: int) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH, dtype=torch.float64)
        with torch.no_grad():
            self.linear.weight.copy_(torch.eye(WIDTH) + stage / 10)
            self.linear.bias.fill_(0.1)

    def forward(
        self, hidden: torch.Tensor, *, mask: torch.Tensor, tokens: torch.Tensor, factor: float, piece: torch.Tensor
    ) -> torch.Tensor:
        found: torch.Tensor = self.linear(hidden) * mask.unsqueeze(-1) * factor + piece + tokens.mean()
        return found


def take_side_inputs(size: int) -> None:
    """Side inputs reach the chunks that name them: a tensor by rows, a list by microbatches, a value for all."""
    data = toy_data(5)
    hidden, mask = data.inputs[0], torch.tensor([1, 0, 1, 1, 0])
    pieces = [torch.full((WIDTH,), float(batch), dtype=torch.float64) for batch in range(2)]
    for plan, schedule in ((LOOP, "1f1b"), (VEE, "zb_v")):
        with open_twins(plan[size], Aided, loss_fn=nn.functional.mse_loss, schedule=schedule) as twins:
            losses = twins.pipeline.step(hidden, target=data.target, microbatches=2, mask=mask, factor=0.5, piece=pieces)
            expected = []
            for piece, rows in zip(pieces, (slice(0, 3), slice(3, 5)), strict=True):
                output: Any = hidden[rows]
                for twin in twins.twins:
                    output = twin(output, mask=mask[rows], tokens=hidden[rows], factor=0.5, piece=piece)  # type: ignore[misc]
                expected.append(nn.functional.mse_loss(output, data.target[rows]))
                torch.autograd.backward(expected[-1] * len(output) / 5)
            twins.compare(losses, torch.stack(expected).detach())
            twins.compare_grads()


def evaluate_between_steps(size: int) -> None:
    """Evaluations between steps change no gradient, and take other microbatches; a length may be seen there first."""
    for plan, schedule in ((LOOP, "1f1b"), (VEE, "zb_v"), (UNEVEN, "auto")):
        with open_twins(plan[size], schedule=schedule) as twins:
            for place, (rows, seq, count) in enumerate(SIZES):
                (twins.evaluate if place % 2 else twins.step)(long_data(rows, seq, place), count)
                twins.evaluate(long_data(5, 2, place), 5)
            twins.compare_grads()


def check_every_message(size: int) -> None:
    """Debug mode changes nothing that comes out."""
    os.environ["PPDSL_DEBUG_COMM"] = "1"
    for plan, schedule in ((LOOP, "1f1b"), (TWICE, "gpipe"), (VEE, "zb_v")):
        with open_twins(plan[size], schedule=schedule) as twins:
            assert isinstance(twins.pipeline.transport, DistributedTransport)
            assert twins.pipeline.transport.debug
            for place, (rows, seq, count) in enumerate(SIZES):
                twins.step(long_data(rows, seq, place), count)
                twins.evaluate(long_data(rows, seq, place), count)
            twins.compare_grads()
    del os.environ["PPDSL_DEBUG_COMM"]


def tell_everybody(size: int) -> None:
    """Losses, their weights, norms and clipping are the same on every rank, and those of one process."""
    for plan, schedule in ((LOOP, "1f1b"), (UNEVEN, "auto")):
        with open_twins(plan[size], schedule=schedule) as twins:
            data = toy_data(5)
            losses = twins.pipeline.step(*data.inputs, target=data.target, microbatches=2, loss_everywhere=True)
            torch.testing.assert_close(losses, run_plainly(twins.twins, data, 2), rtol=1e-12, atol=0)
            assert twins.pipeline.loss_weights is not None
            assert twins.pipeline.loss_weights.tolist() == [3 / 5, 2 / 5]
            weights = [weight for chunk in twins.twins if chunk is not None for weight in chunk.parameters()]
            norm = nn.utils.clip_grad_norm_(weights, 0.01)
            torch.testing.assert_close(twins.pipeline.clip_grad_norm_(0.01), norm, rtol=1e-12, atol=0)
            torch.testing.assert_close(
                twins.pipeline.grad_norm(), nn.utils.get_total_norm([weight.grad for weight in weights if weight.grad is not None])
            )
            twins.compare_grads()
