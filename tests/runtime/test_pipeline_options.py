"""Checkpointing, element types, dropout, the scale of gradients, and what is told of a step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn

from ppdsl import compile_layout
from ppdsl_runtime.chunks import seeding
from tests.runtime.pipelines import WIDTH, Toy, assert_same_grads, losses_of, run_pipeline, run_plainly, toy_data, toy_loss

if TYPE_CHECKING:
    from ppdsl.lowering import Instruction
    from ppdsl_runtime.pipeline import Pipeline

PLAN = compile_layout("Et|tL", pp=2)


@pytest.mark.parametrize("schedule", ["1f1b", "zb_h1"])
@pytest.mark.parametrize(("checkpoint", "runs"), [(False, (3, 3)), (True, (6, 6)), ({1}, (3, 6))])
def test_a_checkpointed_chunk_is_recomputed_once(schedule: str, checkpoint: bool | set[int], runs: tuple[int, int]) -> None:  # noqa: FBT001 -- a parameter
    chunks, twins, data = [Toy(0), Toy(1)], [Toy(0), Toy(1)], toy_data(6)

    def step(pipeline: Pipeline) -> object:
        return pipeline.step(*data.inputs, target=data.target)

    run_pipeline(PLAN, chunks, step, schedule=schedule, microbatches=3, checkpoint=checkpoint)
    run_plainly(twins, data, 3)
    assert_same_grads(chunks, twins)
    assert tuple(chunk.runs for chunk in chunks) == runs


@pytest.mark.parametrize("schedule", ["1f1b", "zb_h1"])
def test_parameters_of_16_bits_accumulate_in_fp32(schedule: str) -> None:
    chunks, data = [Toy(0, dtype=torch.bfloat16), Toy(1, dtype=torch.bfloat16)], toy_data(8, dtype=torch.bfloat16)
    twins = [Toy(0, dtype=torch.bfloat16), Toy(1, dtype=torch.bfloat16)]
    sums: dict[torch.Tensor, torch.Tensor] = {}

    def step(pipeline: Pipeline) -> object:
        for _ in range(2):
            pipeline.step(*data.inputs, target=data.target)
        norm = pipeline.grad_norm()
        pipeline.clip_grad_norm_(1e9)
        return norm

    norm, _ = run_pipeline(PLAN, chunks, step, schedule=schedule, microbatches=4, fp32_grads=True)
    for batch in range(8):
        rows = slice(2 * (batch % 4), 2 * (batch % 4) + 2)
        output: Any = tuple(tensor[rows] for tensor in data.inputs)
        for twin in twins:
            output = twin(*output)
        torch.autograd.backward(toy_loss(output, data.target[rows]) / 4)
        for weight in (weight for twin in twins for weight in twin.parameters()):
            assert weight.grad is not None
            sums[weight] = sums.get(weight, torch.zeros(())) + weight.grad.float()
            weight.grad = None
    for chunk, twin in zip(chunks, twins, strict=True):
        for weight, right in zip(chunk.parameters(), twin.parameters(), strict=True):
            assert weight.grad is None
            assert weight.main_grad.dtype is torch.float32  # type: ignore[attr-defined]
            torch.testing.assert_close(weight.main_grad, sums[right], rtol=1e-6, atol=1e-7)  # type: ignore[attr-defined]
    expected = torch.stack([total.double().square().sum() for total in sums.values()]).sum().sqrt()
    torch.testing.assert_close(norm, expected, rtol=1e-6, atol=0)


def test_a_pipeline_without_fp32_gradients_has_nothing_of_one_that_had_them() -> None:
    chunks, twins = ([Toy(stage, dtype=torch.bfloat16) for stage in range(2)] for _ in range(2))
    data = toy_data(8, dtype=torch.bfloat16)

    def step(pipeline: Pipeline) -> torch.Tensor:
        pipeline.step(*data.inputs, target=data.target)
        return pipeline.grad_norm()

    run_pipeline(PLAN, chunks, step, microbatches=4, fp32_grads=True)
    later = run_pipeline(PLAN, chunks, step, microbatches=4)
    assert later == run_pipeline(PLAN, twins, step, microbatches=4)
    for chunk, twin in zip(chunks, twins, strict=True):
        for weight, right in zip(chunk.parameters(), twin.parameters(), strict=True):
            assert weight.grad is not None
            assert right.grad is not None
            assert torch.equal(weight.grad, right.grad)


@pytest.mark.parametrize("schedule", ["1f1b", "zb_h1"])
@pytest.mark.parametrize("checkpoint", [False, True])
def test_autocast_gives_what_it_gives_in_one_process(schedule: str, checkpoint: bool) -> None:  # noqa: FBT001 -- a parameter
    chunks, twins = ([Toy(stage, dtype=torch.float32) for stage in range(2)] for _ in range(2))
    data = toy_data(4, dtype=torch.float32)

    def step(pipeline: Pipeline) -> object:
        return pipeline.step(*data.inputs, target=data.target)

    losses = losses_of(run_pipeline(PLAN, chunks, step, schedule=schedule, microbatches=2, autocast=torch.bfloat16, checkpoint=checkpoint))
    for batch in range(2):
        rows = slice(2 * batch, 2 * batch + 2)
        with torch.autocast("cpu", torch.bfloat16):
            output: Any = tuple(tensor[rows] for tensor in data.inputs)
            for twin in twins:
                output = twin(*output)
            loss = toy_loss(output, data.target[rows])
        assert losses[batch] == loss.detach()
        torch.autograd.backward(loss / 2)
    assert_same_grads(chunks, twins, rtol=1e-5, atol=1e-6)
    plain = [Toy(0, dtype=torch.float32), Toy(1, dtype=torch.float32)]
    assert not torch.equal(run_plainly(plain, data, 2), losses)


def test_the_scale_multiplies_gradients_and_not_losses() -> None:
    chunks, twins, data = [Toy(0), Toy(1)], [Toy(0), Toy(1)], toy_data(4)
    scales = iter([4.0, 8.0])

    def work(pipeline: Pipeline) -> object:
        pipeline.step(*data.inputs, target=data.target)
        return pipeline.step(*data.inputs, target=data.target)

    losses = losses_of(
        run_pipeline(PLAN, chunks, work, microbatches=2, by_rank=lambda rank: {"grad_scale": scales.__next__} if rank else {})
    )
    torch.testing.assert_close(losses, run_plainly(twins, data, 2), rtol=1e-12, atol=0)
    for twin in twins:
        for weight in twin.parameters():
            assert weight.grad is not None
            weight.grad *= 12
    assert_same_grads(chunks, twins)


class Dropping(nn.Module):
    """Layers with dropout, by their numbers over the whole model."""

    def __init__(self, layers: range) -> None:
        super().__init__()
        self.layers = layers
        self.dropout = nn.Dropout(0.5)
        self.weight = nn.Parameter(torch.ones(WIDTH, dtype=torch.float64))

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        for number in self.layers:
            with seeding.layer(number):
                hidden = self.dropout(hidden * self.weight)
        return hidden


def drop(layout: str, pp: int, cuts: list[range], **options: object) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Give the losses of two steps, and of an evaluation, and the gradients by layer."""
    hidden = torch.arange(1.0, 25.0).double().view(8, WIDTH)
    chunks = [Dropping(layers) for layers in cuts]

    def work(pipeline: Pipeline) -> list[torch.Tensor | None]:
        losses = [pipeline.step(hidden, target=hidden) for _ in range(2)]
        return [*losses, pipeline.eval_step(hidden, target=hidden)]

    results = run_pipeline(compile_layout(layout, pp=pp), chunks, work, loss_fn=lambda output, _: output.sum(), microbatches=4, **options)
    grads = [chunk.weight.grad for chunk in chunks if chunk.weight.grad is not None]
    return [losses_of([result[place] for result in results]) for place in range(3)], grads


def test_dropout_is_off_unless_asked_for() -> None:
    (first, second, evaluated), _ = drop("Et|tL", 2, [range(2), range(2, 4)])
    assert torch.equal(first, evaluated)
    assert torch.equal(second, evaluated)


@pytest.mark.parametrize("schedule", ["1f1b", "zb_h1"])
def test_seeded_dropout_is_the_same_under_every_layout_and_when_recomputed(schedule: str) -> None:
    whole, (total,) = drop("EttttL", 1, [range(4)], dropout_seed=5)
    parts, grads = drop("Et|tttL", 2, [range(1), range(1, 4)], dropout_seed=5, schedule=schedule, checkpoint=True)
    for one, other in zip(whole, parts, strict=True):
        assert torch.equal(one, other)
    torch.testing.assert_close(sum(grads), total, rtol=1e-12, atol=0)
    first, second, evaluated = whole
    assert not torch.equal(first, second)
    assert not torch.equal(first, evaluated)
    assert not torch.equal(drop("EttttL", 1, [range(4)], dropout_seed=6)[0][0], first)


def test_layers_draw_other_numbers_and_leave_the_generator_as_it_was() -> None:
    assert len({seeding.mix(*numbers) for numbers in [(0, 0, 0, 0), (1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 1, 0), (0, 0, 0, 1)]}) == 5
    dropout = seeding.Dropout(3, torch.device("cpu"))
    before = torch.get_rng_state()
    with dropout.microbatch(0, 0):
        with seeding.layer(0):
            one = torch.rand(4)
        with seeding.layer(1):
            other = torch.rand(4)
    assert not torch.equal(one, other)
    assert torch.equal(torch.get_rng_state(), before)
    with seeding.layer(0):
        torch.rand(4)
    assert not torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("seed", [None, 1])
def test_a_step_gives_the_modules_their_mode_back(seed: int | None) -> None:
    chunks = [Dropping(range(1)), Dropping(range(1, 2))]
    chunks[1].eval()
    modes: list[tuple[bool, bool, bool]] = []
    chunks[0].register_forward_pre_hook(lambda module, _: modes.append((module.training, module.dropout.training, torch.is_grad_enabled())))
    hidden = torch.ones(4, WIDTH, dtype=torch.float64)

    def work(pipeline: Pipeline) -> object:
        own = chunks[pipeline.rank]
        found = []
        for act in (pipeline.eval_step, pipeline.step):
            act(hidden, target=hidden)
            found.append({own.training, own.dropout.training})
        return found

    assert run_pipeline(PLAN, chunks, work, loss_fn=lambda output, _: output.sum(), dropout_seed=seed) == [[{True}] * 2, [{False}] * 2]
    assert modes == [(False, False, False), (seed is not None, seed is not None, True)]


def test_a_recorder_is_told_every_action_in_order() -> None:
    data = toy_data(4)
    told: dict[int, list[tuple[Instruction, float, float]]] = {0: [], 1: []}

    def work(pipeline: Pipeline) -> object:
        pipeline.record(lambda *record: told[pipeline.rank].append(record))
        pipeline.step(*data.inputs, target=data.target)
        pipeline.record(None)
        pipeline.step(*data.inputs, target=data.target)
        return [row for row in pipeline.program(2).ranks[pipeline.rank] if row.kind != "REDUCE_GRAD"]

    programs = run_pipeline(PLAN, [Toy(0), Toy(1)], work, microbatches=2)
    for rank, program in enumerate(programs):
        assert [instruction for instruction, _, _ in told[rank]] == program
        times = [time for _, begin, end in told[rank] for time in (begin, end)]
        assert times == sorted(times)


def test_actions_are_named_for_a_profiler_and_stages_reduced_once_their_gradients_are_complete() -> None:
    data = toy_data(4)
    reduced: list[int] = []

    def work(pipeline: Pipeline) -> set[str]:
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:  # it sees its own thread only
            pipeline.step(*data.inputs, target=data.target)
        return {event.key for event in profile.key_averages()}

    plan = compile_layout("EttL", pp=1)
    (names,) = run_pipeline(plan, [Toy(0)], work, microbatches=2, ranges="profiler", reduce=reduced.append)
    assert {"0F0", "0F1", "0B0", "0B1"} <= names
    assert reduced == [0]
