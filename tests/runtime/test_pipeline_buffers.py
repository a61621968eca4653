"""What a chunk passes through outlives the receive buffer that it came in, whoever uses the buffer next."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn

from ppdsl import compile_layout
from tests.random_schedules import order_randomly
from tests.runtime.buffer_chunks import Counter, Marked, Multiply, Slow, Through
from tests.runtime.pipelines import assert_same_grads, losses_of, run_pipeline, run_plainly, toy_data

if TYPE_CHECKING:
    from ppdsl_runtime.pipeline import Pipeline
    from tests.runtime.pipelines import Chunks, Data

MSE = nn.functional.mse_loss


def single(rows: int) -> Data:
    """Draw a batch without integers."""
    data = toy_data(rows)
    return data._replace(inputs=data.inputs[:1])


def agree(layout: str, pp: int, chunks: Chunks, twins: Chunks, **options: Any) -> None:  # noqa: ANN401
    """Compare an evaluation and two steps with one process."""
    data = single(2 * options["microbatches"])

    def work(pipeline: Pipeline) -> list[torch.Tensor | None]:
        evaluated = pipeline.eval_step(*data.inputs, target=data.target)
        return [evaluated, *(pipeline.step(*data.inputs, target=data.target) for _ in range(2))]

    results = run_pipeline(compile_layout(layout, pp=pp), chunks, work, loss_fn=MSE, **options)
    expected = run_plainly(twins, data, options["microbatches"], MSE)
    run_plainly(twins, data, options["microbatches"], MSE)
    for place in range(3):
        torch.testing.assert_close(losses_of([result[place] for result in results]), expected, rtol=1e-12, atol=0)
    assert_same_grads(chunks, twins)


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("schedule", ["gpipe", "1f1b", "zb_h1"])
@pytest.mark.parametrize("through", [Through, lambda: None])
def test_what_a_rank_passes_on_to_another_survives_its_buffer(schedule: str, depth: int, through: Any) -> None:  # noqa: ANN401 -- makes a chunk
    chunks, twins = ([Slow(0), through(), Slow(2)] for _ in range(2))
    agree("E|t|L", 3, chunks, twins, schedule=schedule, depth=depth, microbatches=6)


@pytest.mark.parametrize("through", [Through, lambda: None])
def test_what_a_rank_passes_on_to_its_own_next_stage_survives_its_buffer(through: Any) -> None:  # noqa: ANN401 -- the same
    chunks, twins = ([Slow(0), through(), Slow(2)] for _ in range(2))
    agree("E@0|t@1|L@1", 2, chunks, twins, schedule="gpipe", microbatches=6)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("through", [Through, lambda: None])
def test_weight_gradients_put_off_find_what_was_passed_through(seed: int, through: Any) -> None:  # noqa: ANN401 -- the same
    chunks, twins = ([Slow(0), through(), Slow(2), Slow(3)] for _ in range(2))
    random = Random(seed)  # noqa: S311 -- which schedule, no secret
    agree("E@0|t@1|t@1|L@0", 2, chunks, twins, schedule=order_randomly(random, (0, 1, 1, 0), 2, 5), microbatches=5)


@pytest.mark.parametrize("schedule", ["1f1b", "zb_h1"])
def test_a_gradient_that_is_a_part_of_what_came_back_survives_its_buffer(schedule: str) -> None:
    chunks, twins = ([Marked(0), Multiply(), Slow(2)] for _ in range(2))
    agree("E|t|L", 3, chunks, twins, schedule=schedule, microbatches=4)


@pytest.mark.parametrize(("layout", "pp"), [("E@0|t@0|L@0", 1), ("E@0|t@1|L@1", 2), ("E@0|t@1|L@0", 2)])
@pytest.mark.parametrize("schedule", ["gpipe", "auto"])
def test_a_stage_that_writes_to_integers_does_not_write_to_those_of_the_stage_before(layout: str, pp: int, schedule: str) -> None:
    chunks, twins = ([Counter(stage, in_place=way and stage > 0) for stage in range(3)] for way in (True, False))
    data = toy_data(8)

    def loss_fn(output: tuple[torch.Tensor, torch.Tensor], target: torch.Tensor) -> torch.Tensor:
        return MSE(output[0], target)

    def step(pipeline: Pipeline) -> torch.Tensor | None:
        return pipeline.step(*data.inputs, target=data.target)

    results = run_pipeline(compile_layout(layout, pp=pp), chunks, step, loss_fn=loss_fn, schedule=schedule, microbatches=4)
    torch.testing.assert_close(losses_of(results), run_plainly(twins, data, 4, loss_fn), rtol=1e-12, atol=0)
    assert_same_grads(chunks, twins)
