"""What holds of the steps of any plan, under any schedule: they are those of one process."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ppdsl.strategies import ScheduledPlan, scheduled_plans
from tests.runtime.pipelines import Toy, assert_same_grads, losses_of, run_pipeline, run_plainly, toy_data

if TYPE_CHECKING:
    from torch import nn

    from ppdsl_runtime.pipeline import Pipeline

EXAMPLES = 500 if os.environ.get("PPDSL_HYPOTHESIS_PROFILE") == "nightly" else 10
PLANS = scheduled_plans(max_microbatches=6, max_pp=4, max_vpp=3, max_layers=8)


def draw_chunks(draw: st.DrawFn, stages: int) -> tuple[list[nn.Module | None], list[nn.Module | None]]:
    """Draw the chunks twice, alike: for the pipeline and for one process."""
    kinds = draw(st.lists(st.sampled_from(["trained", "trained", "frozen", "empty"]), min_size=stages, max_size=stages))

    def make() -> list[nn.Module | None]:
        return [None if kind == "empty" else Toy(stage, frozen=kind == "frozen") for stage, kind in enumerate(kinds)]

    return make(), make()


@settings(max_examples=EXAMPLES)
@given(st.data(), PLANS, st.integers(0, 5), st.booleans())
def test_two_steps_and_an_evaluation_are_those_of_one_process(
    data: st.DataObject,
    case: ScheduledPlan,
    extra: int,
    checkpoint: bool,  # noqa: FBT001 -- drawn
) -> None:
    chunks, twins = data.draw(st.composite(lambda draw: draw_chunks(draw, len(case.plan.chunks)))())
    batches = [toy_data(case.microbatches + extra + more, seed=more) for more in range(2)]

    def work(pipeline: Pipeline) -> list[torch.Tensor | None]:
        losses = [pipeline.step(*batch.inputs, target=batch.target) for batch in batches]
        return [*losses, pipeline.eval_step(*batches[0].inputs, target=batches[0].target)]

    results = run_pipeline(case.plan, chunks, work, program=case.program, checkpoint=checkpoint)
    expected = [run_plainly(twins, batch, case.microbatches) for batch in batches]
    for place, right in enumerate([*expected, expected[0]]):
        torch.testing.assert_close(losses_of([result[place] for result in results]), right, rtol=1e-12, atol=1e-14)
    assert_same_grads(chunks, twins)
