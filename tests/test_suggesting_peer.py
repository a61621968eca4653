"""Every layout that is suggested for Megatron-LM is one that its own class builds and finds valid."""

from __future__ import annotations

import sys
from random import Random
from typing import Any

import pytest

from ppdsl.cli.suggestions import write_megatron
from ppdsl.suggesting import Problem, suggest
from tests.suggest_cases import weigh

pytestmark = pytest.mark.peer

PROBLEMS = 200


def draw(random: Random) -> Problem:
    """Some model on some ranks, in the loop, which is all that the peer has."""
    pp, vpp = random.choice((1, 2, 3, 4, 8)), random.choice((1, 1, 2, 3, 4))
    layers = pp * vpp + random.randint(0, 40)
    mtp = random.choice((0, 0, 1, 2))
    costs = weigh(E=random.choice((0.0, 0.1, 3.0)), t=1.0, m=random.choice((1.0, 1.3)), N=0.01, L=random.choice((0.5, 1.5, 6.0)))
    fields: dict[str, Any] = {"min_layers": random.choice((None, None, 0, 1)), "unit": random.choice((1, 1, 1, 2))}
    if fields["unit"] > 1:
        layers = max(layers, 2 * pp * vpp)
    return Problem(costs, layers, pp, pp * random.randint(1, 3), mtp, vpp, final_norm=random.choice((False, True)), **fields)


def test_the_peer_accepts_every_suggestion() -> None:
    if sys.version_info < (3, 11):
        pytest.skip("megatron-core needs Python 3.11: nothing is known of its verdict here")
    from megatron.core.transformer.pipeline_parallel_layer_layout import PipelineParallelLayerLayout  # noqa: PLC0415 -- it takes seconds to load

    random = Random(5)  # noqa: S311 -- the same cases each time
    apart = 0
    for _ in range(PROBLEMS):
        problem = draw(random)
        answer = suggest(problem, effort=40_000)
        text = write_megatron(answer)
        assert text is not None, answer.plan.layout
        PipelineParallelLayerLayout(text, problem.pp).validate_layer_layout(problem.num_layers, problem.mtp_num_layers or None)
        apart += "m|L" in text or "mm|L" in text
    assert apart  # MTP layers before the loss are among them
