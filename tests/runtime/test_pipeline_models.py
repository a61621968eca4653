"""What holds of any model under any plan and schedule: two steps give the losses and gradients of one process."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st

from ppdsl_runtime.transport.rendezvous import make_rendezvous, run_ranks
from tests.runtime.model_runs import Found, check, run_rank
from tests.runtime.pipelines import SECONDS
from tests.runtime.random_models import ModelCase, model_cases, run_alone

if TYPE_CHECKING:
    from ppdsl_runtime.transport.interface import Transport

EXAMPLES = 300 if os.environ.get("PPDSL_HYPOTHESIS_PROFILE") == "nightly" else 10


@settings(max_examples=EXAMPLES)
@given(model_cases(), st.booleans())
def test_random_models_agree_with_one_process(case: ModelCase, proved: bool) -> None:  # noqa: FBT001 -- drawn
    laid, expected = case.laid, run_alone(case)
    options: dict[str, Any] = {"schedule": laid.schedule, "depth": laid.depth, "microbatches": laid.microbatches}
    if proved:
        options = {"program": laid.program}

    def work(transport: Transport) -> Found:
        return run_rank(case, transport.rank, transport=transport, **options)

    results = run_ranks(make_rendezvous(laid.plan.pp, SECONDS), work)
    for result in results:
        check(case, result, expected)
    for step, wanted in enumerate(expected.grads):
        assert sum(result.losses[step] is not None for result in results) == 1
        assert {name for result in results for name in result.grads[step]} >= {*wanted}
