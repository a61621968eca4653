"""What a step is given: microbatches, rows, side inputs and targets, and how it refuses what does not fit."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from ppdsl import compile_layout
from ppdsl.lowering import lower
from ppdsl.schedules import make_schedule
from ppdsl_runtime.failure.fingerprints import DifferenceError
from ppdsl_runtime.pipeline import Pipeline
from ppdsl_runtime.transport.faults import MismatchError
from ppdsl_runtime.transport.rendezvous import make_rendezvous
from tests.runtime.buffer_chunks import Slow
from tests.runtime.pipelines import WIDTH, Toy, assert_same_grads, losses_of, run_pipeline, run_plainly, toy_data

PLAN = compile_layout("Et|tL", pp=2)


def toys() -> list[nn.Module | None]:
    return [Toy(0), Toy(1)]


@pytest.mark.parametrize("schedule", ["1f1b", "zb_h2"])
def test_rows_and_microbatches_change_between_steps(schedule: str) -> None:
    chunks, twins = toys(), toys()
    sizes = [(4, 2), (7, 3), (4, 2), (9, 1), (7, 7), (8, 2)]

    def work(pipeline: Pipeline) -> list[torch.Tensor | None]:
        batches = [(toy_data(rows), count) for rows, count in sizes]
        return [pipeline.step(*data.inputs, target=data.target, microbatches=count) for data, count in batches]

    results = run_pipeline(PLAN, chunks, work, schedule=schedule)
    for place, (rows, count) in enumerate(sizes):
        expected = run_plainly(twins, toy_data(rows), count)
        torch.testing.assert_close(losses_of([result[place] for result in results]), expected, rtol=1e-12, atol=0)
    assert_same_grads(chunks, twins)


def test_uneven_microbatches_weigh_their_rows() -> None:
    chunks, twins, data = toys(), toys(), toy_data(5)
    run_pipeline(PLAN, chunks, lambda pipeline: pipeline.step(*data.inputs, target=data.target), microbatches=3)
    run_plainly(twins, data, 1)
    assert_same_grads(chunks, twins)


class Masked(nn.Module):
    """A chunk that takes a mask by rows, and a value for all."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH, dtype=torch.float64)
        with torch.no_grad():
            self.linear.weight.copy_(torch.randn(WIDTH, WIDTH, generator=torch.Generator().manual_seed(seed), dtype=torch.float64))
            self.linear.bias.fill_(0.1)

    def forward(self, hidden: torch.Tensor, *, mask: torch.Tensor, factor: float = 1.0, piece: torch.Tensor | None = None) -> torch.Tensor:
        found: torch.Tensor = self.linear(hidden) * mask.unsqueeze(-1) * factor
        return found if piece is None else found + piece


class Predictor(nn.Module):
    """A chunk that gets the tokens again, as that of multi-token prediction does, and gives its loss along."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(11, WIDTH, dtype=torch.float64)
        with torch.no_grad():
            self.embedding.weight.copy_(torch.arange(11.0).unsqueeze(1) / 10)

    def forward(self, hidden: torch.Tensor, *, tokens: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return hidden, hidden * self.embedding(tokens)


def test_side_inputs_reach_the_chunks_that_name_them() -> None:
    plan = compile_layout("Et|t|tL", pp=3)
    chunks, twins = ([Masked(stage) for stage in range(3)] for _ in range(2))
    hidden, target = torch.randn(2, 5, WIDTH, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    mask = torch.tensor([1, 0, 1, 1, 0])
    pieces = [torch.full((WIDTH,), float(batch), dtype=torch.float64) for batch in range(2)]

    def step(pipeline: Pipeline) -> object:
        return pipeline.step(hidden, target=target, microbatches=2, mask=mask, factor=0.5, piece=pieces)

    run_pipeline(plan, chunks, step, loss_fn=nn.functional.mse_loss)
    for batch, rows in enumerate((slice(0, 3), slice(3, 5))):
        output = hidden[rows]
        for twin in twins:
            output = twin(output, mask=mask[rows], factor=0.5, piece=pieces[batch])
        torch.autograd.backward(nn.functional.mse_loss(output, target[rows]) * len(output) / 5)
    assert_same_grads(chunks, twins)


@pytest.mark.parametrize("schedule", ["1f1b", "zb_h1"])
def test_a_chunk_in_the_middle_gets_the_tokens(schedule: str) -> None:
    plan = compile_layout("Et|t|tL", pp=3)

    def make() -> list[nn.Module | None]:
        return [nn.Embedding(11, WIDTH, _weight=torch.arange(33.0).double().view(11, WIDTH) / 9), Predictor(), None]

    chunks, twins = make(), make()
    tokens = torch.arange(8) % 11

    def loss_fn(output: tuple[torch.Tensor, torch.Tensor], target: torch.Tensor) -> torch.Tensor:
        hidden, predicted = output
        return (hidden.sum(-1) - target).square().mean() + predicted.square().mean()

    def step(pipeline: Pipeline) -> object:
        return pipeline.step(tokens, target=tokens, microbatches=4)

    run_pipeline(plan, chunks, step, loss_fn=loss_fn, schedule=schedule)
    first, second, _ = twins
    assert first is not None
    assert second is not None
    torch.autograd.backward(loss_fn(second(first(tokens), tokens=tokens), tokens))
    assert_same_grads(chunks, twins)


def counted(output: torch.Tensor, target: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return nn.functional.cross_entropy(output, target, reduction="sum"), (target != -100).sum()


def test_a_sum_and_its_count_weigh_by_the_count() -> None:
    chunks, twins = ([nn.Linear(WIDTH, WIDTH, dtype=torch.float64), nn.Linear(WIDTH, 4, dtype=torch.float64)] for _ in range(2))
    for chunk, twin in zip(chunks, twins, strict=True):
        twin.load_state_dict(chunk.state_dict())
    hidden, target = toy_data(6).target, torch.tensor([1, -100, -100, 2, 3, -100])

    def step(pipeline: Pipeline) -> object:
        return pipeline.step(hidden, target=target, microbatches=3), pipeline.loss_weights

    _, (losses, weights) = run_pipeline(PLAN, chunks, step, loss_fn=counted)
    whole = nn.functional.cross_entropy(nn.Sequential(*twins)(hidden), target)
    torch.autograd.backward(whole)
    assert_same_grads(chunks, twins)
    assert weights.tolist() == [1 / 3, 1 / 3, 1 / 3]
    torch.testing.assert_close((losses * weights).sum(), whole.detach(), rtol=1e-12, atol=0)


def test_counts_that_differ_are_refused() -> None:
    data = toy_data(4)
    chunks = [nn.Linear(WIDTH, WIDTH, dtype=torch.float64), nn.Linear(WIDTH, 4, dtype=torch.float64)]

    def step(pipeline: Pipeline) -> object:
        return pipeline.step(data.target, target=torch.tensor([0, 1, 2, -100]), microbatches=2)

    with pytest.raises(ValueError, match=r"loss_fn counts \[2, 1\] targets in the microbatches, count_fn \[2, 2\]"):
        run_pipeline(PLAN, chunks, step, loss_fn=counted, count_fn=len)


REFUSALS = [
    ({"rows": (3, 3, 3), "microbatches": 4}, "3 rows cannot be split into 4 microbatches"),
    ({"rows": (4, 3, 4)}, "input 1 has 3 rows, input 0 has 4"),
    ({"rows": (4, 4, 5)}, "target has 5 rows, the inputs have 4"),
    ({"rows": (4, 4, 4), "microbatches": 0}, "microbatches is '0', not an integer from 1"),
    ({"rows": (None, None, 4)}, "stage 0 is on this rank, so the step needs its inputs"),
    ({"rows": (4, 4, None)}, "the loss is on this rank, so the step needs its target"),
]


@pytest.mark.parametrize(("given", "text"), REFUSALS)
def test_inputs_that_do_not_fit_are_refused(given: dict[str, Any], text: str) -> None:
    first, second, third = given["rows"]
    inputs = [] if first is None else [torch.zeros(first, WIDTH, dtype=torch.float64), torch.zeros(second, dtype=torch.int64)]
    target = None if third is None else torch.zeros(third, WIDTH, dtype=torch.float64)

    def step(pipeline: Pipeline) -> object:
        return pipeline.step(*inputs, target=target, microbatches=given.get("microbatches", 2))

    with pytest.raises(ValueError, match=text):
        run_pipeline(PLAN, toys(), step)


def test_a_side_input_that_is_missing_or_does_not_fit_is_refused() -> None:
    hidden = torch.zeros(4, WIDTH, dtype=torch.float64)

    def step(pipeline: Pipeline) -> object:
        return pipeline.step(hidden, target=hidden, **side)

    side: dict[str, Any] = {}
    with pytest.raises(ValueError, match=r"stage \d needs 'mask', which the step was not given on this rank"):
        run_pipeline(PLAN, [Masked(0), Masked(1)], step, loss_fn=nn.functional.mse_loss)
    side["mask"] = torch.zeros(3)
    with pytest.raises(ValueError, match="mask has 3 rows, the inputs have 4"):
        run_pipeline(PLAN, [Masked(0), Masked(1)], step, loss_fn=nn.functional.mse_loss)
    side["mask"] = [torch.zeros(2)] * 3
    with pytest.raises(ValueError, match="mask has 3 values, but there are 2 microbatches"):
        run_pipeline(PLAN, [Masked(0), Masked(1)], step, loss_fn=nn.functional.mse_loss, microbatches=2)


@pytest.mark.parametrize(("chunks", "names"), [([Masked(0), None, Masked(2)], "factor, mask, piece"), ([Slow(0), None, None], "none")])
def test_a_keyword_that_no_chunk_takes_is_refused(chunks: list[nn.Module | None], names: str) -> None:
    """It is often misspelt, and would have no effect."""
    hidden = torch.zeros(4, WIDTH, dtype=torch.float64)
    plan = compile_layout("Et|t|tL", pp=3)

    def work(pipeline: Pipeline) -> None:
        for act in (pipeline.step, pipeline.eval_step):
            with pytest.raises(ValueError, match=f"^no chunk takes 'maks'; keyword inputs of the chunks are {names}$"):
                act(hidden, target=hidden, maks=hidden)

    run_pipeline(plan, chunks, work)


def test_microbatches_that_nobody_told_are_named_where_they_do_not_fit() -> None:
    plan = compile_layout("Et|t|t|tL", pp=2)
    text = "1 microbatch cannot be scheduled by interleaved_1f1b: 1 is less than the microbatch group of 2"
    more = "; the pipeline was not told microbatches, which are 1 then"
    with pytest.raises(ValueError, match=f"^{text}{more}$"):
        run_pipeline(plan, [None] * 4, lambda _: None)
    with pytest.raises(ValueError, match=f"^{text}$"):
        run_pipeline(plan, [None] * 4, lambda _: None, microbatches=1)


def test_a_stage_to_be_checkpointed_that_is_not_there_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^checkpoint names stage 2, the plan has stages 0 to 1$"):
        run_pipeline(PLAN, toys(), lambda _: None, checkpoint={0, 2, 5})


def test_ranks_that_are_told_different_things_say_both() -> None:
    data = toy_data(4)

    def step(pipeline: Pipeline) -> object:
        return pipeline.step(*data.inputs, target=data.target, microbatches=2 - pipeline.rank)

    with pytest.raises(ValueError, match="microbatches is 1 on rank 1, but 2 on rank 0"):
        run_pipeline(PLAN, toys(), step)
    for option, values in {
        "schedule": ("1f1b", "gpipe"),
        "depth": (1, 2),
        "microbatches": (2, 3),
        "autocast": (None, torch.bfloat16),
    }.items():
        with pytest.raises(DifferenceError, match=option):
            run_pipeline(PLAN, toys(), step, by_rank=lambda rank, name=option, pair=values: {name: pair[rank]})
    with pytest.raises(DifferenceError, match=r"parameters are torch.float64 on rank 0, but torch.float32 on rank 1"):
        run_pipeline(PLAN, [Toy(0), Toy(1, dtype=torch.float32)], step)


class Shifty(nn.Module):
    """A chunk whose output has another shape the second time."""

    def __init__(self) -> None:
        super().__init__()
        self.runs = 0

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        self.runs += 1
        return hidden[:, : WIDTH - self.runs + 1]


def test_an_output_that_is_not_what_was_announced_is_refused() -> None:
    hidden = torch.zeros(4, WIDTH, dtype=torch.float64)
    text = r"edge 0, microbatch 1: stage 0 gives torch.float64 \(2, 2\), but torch.float64 \(2, 3\) was announced for 'train None; input 0"
    with pytest.raises(MismatchError, match=text):
        run_pipeline(
            PLAN,
            [Shifty(), None],
            lambda pipeline: pipeline.step(hidden, target=hidden, microbatches=2),
            loss_fn=lambda output, _: output.sum(),
        )


def test_programs_are_proved_again_and_kept_for_their_microbatches() -> None:
    program = lower(make_schedule(PLAN, "1f1b", 2))
    data = toy_data(6)
    broken = lower(make_schedule(PLAN, "1f1b", 2))
    ranks = (broken.ranks[0][:-2], *broken.ranks[1:])
    object.__setattr__(broken, "ranks", ranks)
    with pytest.raises(ValueError, match="the program is not proved: "):
        run_pipeline(PLAN, toys(), lambda _: None, program=broken)
    other = compile_layout("Et@1|tL@0", pp=2)
    with pytest.raises(ValueError, match=r"the program's stages belong to ranks \(0, 1\), those of the plan to \(1, 0\)"):
        run_pipeline(other, toys(), lambda _: None, program=program)
    with pytest.raises(ValueError, match="the program is for 2 microbatches, not 3, and no schedule is named"):
        run_pipeline(PLAN, toys(), lambda pipeline: pipeline.step(*data.inputs, target=data.target, microbatches=3), program=program)


def test_chunks_are_as_many_as_the_plan_has() -> None:
    plan = compile_layout("Et@0|t@0|tL@0", pp=1)
    (end,) = make_rendezvous(1)
    with pytest.raises(ValueError, match="rank 0 was given 2 chunks, the plan has 3 for it"):
        Pipeline(plan, toys(), loss_fn=nn.functional.mse_loss, schedule="gpipe", transport=end)
    with pytest.raises(ValueError, match="the transport has 1 ranks, the plan 2"):
        Pipeline(PLAN, toys(), loss_fn=nn.functional.mse_loss, transport=end)
    with pytest.raises(TypeError, match="unknown option 'shedule'"):
        Pipeline(PLAN, toys(), loss_fn=nn.functional.mse_loss, shedule="gpipe")  # type: ignore[call-arg]
