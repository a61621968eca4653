"""Steps of a pipeline against one process: what other runtimes get wrong, each by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
from torch import nn

from ppdsl import compile_layout
from tests.runtime.pipelines import Toy, assert_same_grads, losses_of, run_pipeline, run_plainly, toy_data

if TYPE_CHECKING:
    from ppdsl_runtime.pipeline import Pipeline


def toys(stages: int, *, empty: tuple[int, ...] = (), frozen: tuple[int, ...] = ()) -> list[nn.Module | None]:
    return [None if stage in empty else Toy(stage, frozen=stage in frozen) for stage in range(stages)]


SCHEDULES = [
    ("Et|tL", 2, "1f1b"),
    ("Et|tL", 2, "gpipe"),
    ("Et|t|t|tL", 2, "interleaved_1f1b"),  # the previous rank is the next rank
    ("Et|t|t|tL", 4, "zb_h1"),
    ("Et|t|tL", 3, "zb_h2"),
    ("Et@0|t@1|t@1|tL@0", 2, "zb_v"),
    ("Et@0|t@0|t@1|t@0|t@0|t@0|tL@1", 2, "gpipe"),  # several chunks of a rank next to each other, uneven counts
    ("Et@1|t@2|t@1|tL@0", 3, "auto"),
    ("EttL", 1, "1f1b"),
]


@pytest.mark.parametrize("depth", [0, 1, 2])
@pytest.mark.parametrize("case", SCHEDULES)
@pytest.mark.parametrize(("empty", "frozen"), [((), ()), ((0,), ()), ((), (0,)), ((1,), ()), ((), (1,))])
def test_losses_and_gradients_are_those_of_one_process(
    case: tuple[str, int, str], empty: tuple[int, ...], frozen: tuple[int, ...], depth: int
) -> None:
    layout, pp, schedule = case
    plan = compile_layout(layout, pp=pp)
    chunks, twins = (toys(len(plan.chunks), empty=empty, frozen=frozen) for _ in range(2))
    data = toy_data(8)

    def step(pipeline: Pipeline) -> torch.Tensor | None:
        return pipeline.step(*data.inputs, target=data.target)

    losses = losses_of(run_pipeline(plan, chunks, step, schedule=schedule, microbatches=4, depth=depth))
    torch.testing.assert_close(losses, run_plainly(twins, data, 4), rtol=1e-12, atol=0)
    assert_same_grads(chunks, twins)


def test_only_the_loss_rank_has_losses_unless_all_are_to() -> None:
    plan, data = compile_layout("Et|tL", pp=2), toy_data(5)

    def step(pipeline: Pipeline) -> object:
        alone = pipeline.step(*data.inputs, target=data.target, microbatches=2)
        return alone, pipeline.step(*data.inputs, target=data.target, microbatches=2, loss_everywhere=True), pipeline.loss_weights

    (first, one, weights), (last, other, _) = run_pipeline(plan, toys(2), step)
    assert first is None
    assert torch.equal(one, other)
    assert torch.equal(last, one)
    assert weights.tolist() == [3 / 5, 2 / 5]


@pytest.mark.parametrize("schedule", ["1f1b", "zb_h1"])
def test_a_second_step_adds_exactly_as_much_again(schedule: str) -> None:
    plan, data, chunks = compile_layout("Et|tL", pp=2), toy_data(6), toys(2)
    grads: list[list[torch.Tensor]] = []

    def work(pipeline: Pipeline) -> None:
        for _ in range(2):
            pipeline.step(*data.inputs, target=data.target)
            if pipeline.rank:
                grads.append([weight.grad.clone() for weight in chunks[1].parameters() if weight.grad is not None])  # type: ignore[union-attr]

    run_pipeline(plan, chunks, work, schedule=schedule, microbatches=3)
    assert len(grads[0]) == len([*Toy(1).parameters()])
    for once, twice in zip(*grads, strict=True):
        torch.testing.assert_close(twice, 2 * once, rtol=1e-12, atol=1e-14)


class Embedding(nn.Module):
    """Tokens to vectors."""

    def __init__(self, weight: nn.Parameter) -> None:
        super().__init__()
        self.weight = weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.weight[tokens]


class Head(nn.Module):
    """Vectors to logits, by the embedding's weight."""

    def __init__(self, weight: nn.Parameter) -> None:
        super().__init__()
        self.linear = nn.Linear(weight.shape[1], weight.shape[0], bias=False, dtype=weight.dtype)
        self.linear.weight = weight

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.linear(hidden)
        return logits


def embedding_weight(seed: int) -> nn.Parameter:
    return nn.Parameter(torch.randn(7, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64))


def tied_reference(tokens: torch.Tensor, steps: int) -> tuple[torch.Tensor, torch.Tensor]:
    weight = embedding_weight(0)
    block = nn.Linear(3, 3, dtype=torch.float64)
    with torch.no_grad():
        block.weight.fill_(0.3)
        block.bias.fill_(0.1)
    for _ in range(steps):
        torch.autograd.backward(nn.functional.cross_entropy(block(weight[tokens]) @ weight.t(), tokens))
    assert weight.grad is not None
    assert block.weight.grad is not None
    norm = (weight.grad.square().sum() + sum(p.grad.square().sum() for p in block.parameters() if p.grad is not None)).sqrt()
    return weight.grad, norm


def tied_block() -> nn.Module:
    block = nn.Linear(3, 3, dtype=torch.float64)
    with torch.no_grad():
        block.weight.fill_(0.3)
        block.bias.fill_(0.1)
    return block


@pytest.mark.parametrize("schedule", ["gpipe", "auto", "zb_v"])
def test_tied_weights_on_one_rank_are_one_parameter(schedule: str) -> None:
    plan = compile_layout("E@0|t@1|@1|L@0", pp=2)
    weight, tokens = embedding_weight(0), torch.arange(6) % 7

    def work(pipeline: Pipeline) -> torch.Tensor:
        for _ in range(2):
            pipeline.step(tokens, target=tokens)
        return pipeline.grad_norm()

    chunks = [Embedding(weight), tied_block(), None, Head(weight)]
    norms = run_pipeline(plan, chunks, work, loss_fn=nn.functional.cross_entropy, schedule=schedule, microbatches=3)
    right, norm = tied_reference(tokens, 2)
    assert weight.grad is not None
    torch.testing.assert_close(weight.grad, right, rtol=1e-12, atol=1e-14)
    for found in norms:
        torch.testing.assert_close(found, norm, rtol=1e-12, atol=0)


@pytest.mark.parametrize("schedule", ["1f1b", "zb_h1"])
def test_tied_copies_start_equal_get_the_summed_gradient_and_count_once(schedule: str) -> None:
    plan = compile_layout("E|t|L", pp=3)
    first, last, tokens = embedding_weight(0), embedding_weight(1), torch.arange(6) % 7
    tied = {0: {"embedding": first}, 2: {"embedding": last}}

    def work(pipeline: Pipeline) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        for _ in range(2):
            pipeline.step(tokens, target=tokens)
        before = pipeline.grad_norm()
        return before, pipeline.clip_grad_norm_(0.01), pipeline.grad_norm()

    norms = run_pipeline(
        plan,
        [Embedding(first), tied_block(), Head(last)],
        work,
        loss_fn=nn.functional.cross_entropy,
        schedule=schedule,
        microbatches=3,
        by_rank=lambda rank: {"tied": tied.get(rank)},
    )
    right, norm = tied_reference(tokens, 2)
    assert torch.equal(first, last)
    assert first.grad is not None
    assert last.grad is not None
    assert torch.equal(first.grad, last.grad)
    torch.testing.assert_close(first.grad, right * (0.01 / (norm + 1e-6)), rtol=1e-9, atol=1e-12)
    for before, told, after in norms:
        torch.testing.assert_close(before, norm, rtol=1e-12, atol=0)
        assert torch.equal(before, told)
        torch.testing.assert_close(after, torch.tensor(0.01, dtype=torch.float64), rtol=1e-3, atol=0)


def test_a_gradient_that_is_not_finite_is_found_on_every_rank() -> None:
    plan, data, chunks = compile_layout("Et|tL", pp=2), toy_data(4), toys(2)

    def work(pipeline: Pipeline) -> list[bool]:
        pipeline.step(*data.inputs, target=data.target)
        found = [pipeline.has_non_finite_grads()]
        if pipeline.rank:
            next(weight.grad for weight in chunks[1].parameters() if weight.grad is not None)[0] = float("nan")  # type: ignore[union-attr]
        found.append(pipeline.has_non_finite_grads())
        pipeline.zero_grad()
        return [*found, pipeline.has_non_finite_grads()]

    assert run_pipeline(plan, chunks, work) == [[False, True, False]] * 2


def test_a_rank_without_parameters_takes_part() -> None:
    plan = compile_layout("Et@0|@1|tL@0", pp=2)
    chunks, twins = (toys(3, empty=(1,)) for _ in range(2))
    data = toy_data(4)

    def step(pipeline: Pipeline) -> tuple[torch.Tensor | None, torch.Tensor]:
        losses = pipeline.step(*(data.inputs if pipeline.rank == 0 else ()), target=data.target)
        return losses, pipeline.grad_norm()

    results = run_pipeline(plan, chunks, step, schedule="gpipe", microbatches=2)
    run_plainly(twins, data, 2)
    assert_same_grads(chunks, twins)
    assert results[0][0] is not None
    assert len({norm.item() for _, norm in results}) == 1
    assert results[1][1] > 0
