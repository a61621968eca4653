"""What a step holds: outputs until they are sent, activations until they are used, and as many receive buffers as the program says."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn

from ppdsl import compile_layout
from ppdsl.schedules import make_schedule
from tests.runtime.held_storages import Watched, count, refer
from tests.runtime.pipelines import WIDTH, run_pipeline, toy_data

if TYPE_CHECKING:
    from ppdsl import Plan
    from ppdsl_runtime.pipeline import Pipeline

LOOP = "E|t|t|L"
MSE = nn.functional.mse_loss


class Early(Watched):
    """Says, when the backward of an output begins, whether the output itself is gone."""

    def begin(self) -> None:
        super().begin()
        self.gone: list[bool] = []
        self.used: list[int] = []

    def forward(self, hidden: torch.Tensor, *, mask: torch.Tensor | None = None) -> torch.Tensor:
        found = super().forward(hidden, mask=mask)
        output = self.outputs[-1]
        if found.requires_grad:
            hook: Any = found.register_hook  # torch leaves it untyped
            hook(lambda _: self.note(output))
        return found

    def note(self, output: Any) -> None:  # noqa: ANN401 -- a reference of torch's, untyped
        """Note what is there as a backward begins."""
        self.gone.append(output.expired())
        self.used.append(count(self.inner))


def run(layout: str, pp: int, schedule: str, microbatches: int, **options: Any) -> list[Early]:  # noqa: ANN401 -- of many types
    """Do two steps, and give the chunks."""
    plan = compile_layout(layout, pp=pp)
    chunks = [Early(stage) for stage in range(len(plan.chunks))]
    data = toy_data(microbatches)

    def work(pipeline: Pipeline) -> None:
        for _ in range(2):
            pipeline.step(data.inputs[0], target=data.target)

    run_pipeline(plan, chunks, work, loss_fn=MSE, schedule=schedule, microbatches=microbatches, **options)
    return chunks


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b", "zb_h1"])
def test_an_output_is_gone_before_its_backward_begins(schedule: str) -> None:
    *before, _ = run(LOOP, 4, schedule, 8)  # the last output is the loss's
    for chunk in before:
        assert chunk.gone == [True] * 16


@pytest.mark.parametrize(("layout", "pp", "schedule"), [("Et@0|t@0|t@1|tL@1", 2, "gpipe"), ("EttL", 1, "1f1b")])
def test_an_output_for_a_stage_of_the_same_rank_is_handed_over_and_not_kept_twice(layout: str, pp: int, schedule: str) -> None:
    for chunk in run(layout, pp, schedule, 4):
        assert count(chunk.outputs) == 0


@pytest.mark.parametrize(("schedule", "held"), [("1f1b", [4, 3, 2, 1]), ("gpipe", [16, 16, 16, 16])])
def test_activations_go_once_they_are_used(schedule: str, held: list[int]) -> None:
    for chunk, most in zip(run(LOOP, 4, schedule, 16), held, strict=True):
        assert chunk.most_inner == most - 1, "those in flight when another forward begins"
        assert max(chunk.used) == most
        if schedule == "gpipe":
            assert chunk.used == [*range(16, 0, -1)] * 2, "each backward frees its own"
        assert count(chunk.inner) == 0


@pytest.mark.parametrize(("schedule", "layout", "pp"), [("zb_h1", LOOP, 4), ("zb_h2", LOOP, 4), ("zb_v", "Et@0|t@1|t@1|tL@0", 2)])
def test_activations_go_with_their_weight_gradient(schedule: str, layout: str, pp: int) -> None:
    plan = compile_layout(layout, pp=pp)
    for stage, chunk in enumerate(run(layout, pp, schedule, 16)):
        most = count_held(plan, schedule, stage, 16)
        assert most < 16
        assert chunk.most_inner <= most
        assert count(chunk.inner) == 0


def count_held(plan: Plan, schedule: str, stage: int, microbatches: int) -> int:
    """Count the microbatches of a stage between F and W, at most."""
    held = most = 0
    for action in make_schedule(plan, schedule, microbatches).ranks[plan.chunks[stage].pp_rank]:
        if action.stage == stage:
            held += {"F": 1, "W": -1, "B": -1}.get(action.kind, 0)
            most = max(most, held)
    return most


def test_a_checkpointed_chunk_keeps_nothing_between_its_forward_and_its_backward() -> None:
    for chunk in run(LOOP, 4, "gpipe", 8, checkpoint=True):
        assert chunk.most_inner == 0


@pytest.mark.parametrize("schedule", ["1f1b", "zb_h1"])
def test_nothing_of_a_step_is_left_behind_it(schedule: str) -> None:
    plan = compile_layout(LOOP, pp=4)
    chunks = [Watched(stage) for stage in range(4)]
    given: list[Any] = []

    def work(pipeline: Pipeline) -> list[int]:
        left = []
        for act in (pipeline.step, pipeline.eval_step, pipeline.step):
            data = toy_data(8)
            mask = torch.ones_like(data.target)
            given.extend(map(refer, (data.inputs[0], data.target, mask)))
            act(data.inputs[0], target=data.target, mask=mask)
            del data, mask
            pipeline.transport.gather(None)
            left.append(count(given))
            pipeline.transport.gather(None)
        return left

    gc.disable()
    try:
        results = run_pipeline(plan, chunks, work, loss_fn=MSE, schedule=schedule, microbatches=8)
    finally:
        gc.enable()
    assert results == [[0, 0, 0]] * 4
    assert [count(chunk.outputs) + count(chunk.inner) for chunk in chunks] == [0] * 4


@pytest.mark.parametrize("depth", [0, 1, 2])
@pytest.mark.parametrize(("schedule", "held"), [("1f1b", [4, 3, 2, 1]), ("zb_h1", [4, 4, 4, 4])])
def test_receive_buffers_do_not_grow_with_the_microbatches(schedule: str, held: list[int], depth: int) -> None:
    """There is one for each activation between its forward and the backward, or weight gradient, that needs it, and the depth."""
    plan = compile_layout(LOOP, pp=4)
    size = WIDTH * 8
    chunks = [Watched(stage) for stage in range(4)]

    def work(pipeline: Pipeline) -> list[tuple[list[int], list[int]]]:
        found = []
        for microbatches in (8, 64, 512):
            data = toy_data(microbatches)
            pipeline.step(data.inputs[0], target=data.target, microbatches=microbatches)
            found.append(pipeline.buffer_bytes())
        return found

    results = run_pipeline(plan, chunks, work, loss_fn=MSE, schedule=schedule, depth=depth, microbatches=8)
    for rank, found in enumerate(results):
        activations, gradients = found[0]
        assert found == [(activations, gradients)] * 3
        assert {*activations, *gradients} == {size}
        assert 1 <= len(activations) <= held[rank] + depth if rank else not activations
        assert 1 <= len(gradients) <= 1 + depth if rank < 3 else not gradients


def test_a_receive_buffer_grows_to_the_longest_message_and_is_kept() -> None:
    plan = compile_layout("E|L", pp=2)

    def work(pipeline: Pipeline) -> list[tuple[list[int], list[int]]]:
        held = []
        for rows in (4, 8, 2):
            data = toy_data(rows)
            pipeline.step(data.inputs[0], target=data.target, microbatches=2)
            held.append(pipeline.buffer_bytes())
        return held

    first, second = run_pipeline(plan, [Watched(0), Watched(1)], work, loss_fn=MSE, schedule="1f1b", depth=0)
    rows = WIDTH * 8
    assert first == [([], [2 * rows]), ([], [4 * rows]), ([], [4 * rows])]
    assert second == [([2 * rows], []), ([4 * rows], []), ([4 * rows], [])]
