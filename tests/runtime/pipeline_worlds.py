"""More cases of pipeline_worker: models, several pipelines in one process, groups of ranks, and what is held."""

from __future__ import annotations

from typing import Any

import torch
from torch import distributed as dist
from torch import nn

from ppdsl import compile_layout
from ppdsl.strategies import ScheduledPlan
from ppdsl_runtime.models import ModelShape
from ppdsl_runtime.transport.distributed import MOST_HELD
from tests.runtime.buffer_chunks import Slow, Through
from tests.runtime.held_storages import Watched, count
from tests.runtime.model_runs import check, run_rank
from tests.runtime.pipeline_ends import LOOP, TWICE, UNEVEN, VEE, WAIT, open_twins
from tests.runtime.pipelines import toy_data
from tests.runtime.random_models import HIDDEN, VOCAB, ModelCase, run_alone
from tests.runtime.transport_ends import count_groups

NOTHING: frozenset[int] = frozenset()
MODELS: dict[int, tuple[tuple[str, str, str, dict[str, Any]], ...]] = {
    2: (
        ("gpt2", "Et|tNL", "1f1b", {"tied": True}),
        ("gpt2", "Et|tNL", "zb_h1", {"tied": True, "checkpoint": frozenset({0, 1})}),
        ("llama", "Et@0|t@1|@1|mmL@0", "zb_v", {"tied": True, "mtp_layers": 2}),
        ("llama", "Et|t|tN|mL", "interleaved_1f1b", {"mtp_layers": 1}),
        ("gpt2", "Et|tNL", "1f1b", {"tied": True, "dtype": torch.bfloat16}),
        ("llama", "Et@1|t@0|tN@1|mL@1", "auto", {"tied": True, "mtp_layers": 1, "dtype": torch.bfloat16}),
        ("gpt2", "Et|tNL", "zb_h2", {"dropout": 0.3, "dropout_seed": 4, "checkpoint": frozenset({1})}),
    ),
    4: (
        ("gpt2", "E|t|t|NL", "1f1b", {"tied": True}),
        ("llama", "Et|t|tNm|L", "zb_h1", {"tied": True, "mtp_layers": 1, "checkpoint": frozenset({2})}),
        ("llama", "E@2|t@0|t@1|N@2|m@3|L@1", "auto", {"tied": True, "mtp_layers": 1, "frozen": frozenset({1})}),
        ("gpt2", "E|t|t|NL", "zb_h2", {"tied": True, "dtype": torch.bfloat16}),
        ("gpt2", "E|t|||t|||NL", "interleaved_1f1b", {"tied": True, "dropout": 0.3, "dropout_seed": 4}),
    ),
}
"""Models by the number of ranks: family, layout, schedule, and what else they have; tied weights are on several ranks, or on one."""


def train_models(size: int) -> None:
    """Two steps of models with tied weights, MTP layers, dropout, checkpoints and bf16 are those of one process."""
    for family, layout, schedule, more in MODELS[size]:
        plan = compile_layout(layout, pp=size)
        sizes = {name: more[name] for name in ("tied", "mtp_layers", "dropout") if name in more}
        case = ModelCase(
            ModelShape(family, plan.num_layers, HIDDEN, 2, VOCAB, max_positions=6, ffn=12, **sizes),  # type: ignore[arg-type]  # names of families
            ScheduledPlan(plan, schedule, 4, 4 if schedule == "interleaved_1f1b" else None, 1),
            dtype=more.get("dtype", torch.float64),
            rows=(4, 6),
            seq=(6, 5),
            checkpoint=more.get("checkpoint", NOTHING),
            dropout_seed=more.get("dropout_seed"),
            frozen=more.get("frozen", NOTHING),
        )
        check(case, run_rank(case, dist.get_rank(), program=case.laid.program, timeout=WAIT), run_alone(case))


def run_one_after_another(size: int) -> None:
    """Pipelines one after the other in one process, of the same ranks under other plans, have nothing of each other."""
    groups = count_groups()
    for _ in range(2):
        for plan, schedule in ((LOOP, "zb_h1"), (UNEVEN, "gpipe"), (VEE, "zb_v")):
            with open_twins(plan[size], schedule=schedule) as twins:
                twins.step(toy_data(6), 3)
                twins.compare_grads()
    assert count_groups() == groups


def run_side_by_side(size: int) -> None:
    """Two pipelines take turns."""
    with open_twins(LOOP[size], schedule="zb_h1") as one, open_twins(TWICE[size], schedule="gpipe") as other:
        for seed in range(3):
            one.step(toy_data(6, seed), 3)
            other.step(toy_data(5, seed), 2)
            other.evaluate(toy_data(6, seed), 3)
        one.compare_grads()
        other.compare_grads()


def run_inside_groups(size: int) -> None:
    """Pipelines of some of the ranks only, at the same time; ranks are counted inside the group."""
    rank = dist.get_rank()
    if size == 2:  # each for itself
        members, plan, schedule = [rank], compile_layout("Et|t|tL", pp=1), "gpipe"
    else:
        members, plan, schedule = [rank % 2, rank % 2 + 2], VEE[2], "zb_v"
    group = dist.new_group(members, use_local_synchronization=True)
    with open_twins(plan, group=group, schedule=schedule) as twins:
        assert twins.pipeline.rank == members.index(rank)
        for seed in range(2):
            twins.step(toy_data(6, seed + 10 * rank % 2), 3)
        twins.compare_grads()
        norm = twins.pipeline.grad_norm()
        assert twins.pipeline.transport.gather(norm.item()) == [norm.item()] * len(members)
    if size > 2 and rank in {1, 2}:  # the others have none
        pair = dist.new_group([1, 2], use_local_synchronization=True)
        with open_twins(LOOP[2], group=pair) as twins:
            twins.step(toy_data(6), 3)
            twins.compare_grads()


def let_go_of_outputs(size: int) -> None:
    """An output is let go of once it is sent, long before its backward: a channel holds a few, and none is left behind the step."""
    with open_twins(LOOP[size], Watched, loss_fn=nn.functional.mse_loss, schedule="gpipe") as twins:
        data = toy_data(32)
        own = twins.chunks[twins.pipeline.rank]
        assert isinstance(own, Watched)
        for _ in range(2):
            own.begin()
            twins.pipeline.step(data.inputs[0], target=data.target, microbatches=32)
            assert count(own.outputs) == count(own.inner) == 0
        kept = 31 if twins.pipeline.has_loss else MOST_HELD  # the graph of the loss keeps the last ones
        assert own.most_outputs <= kept, f"{own.most_outputs} outputs"
        assert own.most_inner == 31


def pass_through_buffers(size: int) -> None:
    """What is passed through a receive buffer is sent as it came, though the buffer is used again before its receiver looks."""
    layouts = {2: ("E@0|t@1|L@0", "gpipe"), 4: ("E|t|t|L", "1f1b")}
    layout, schedule = layouts[size]
    plan = compile_layout(layout, pp=size)
    last = len(plan.chunks) - 1

    def make(stage: int) -> nn.Module:
        slow = Slow(stage, forward=0.01 * (stage == last), backward=0.01 * (stage == 0))
        return slow if stage in {0, last} else Through()

    for depth in range(3):
        with open_twins(plan, make, loss_fn=nn.functional.mse_loss, schedule=schedule, depth=depth) as twins:
            for seed in range(2):
                data = toy_data(24, seed)
                data = data._replace(inputs=data.inputs[:1])
                twins.evaluate(data, 12)
                twins.step(data, 12)
            twins.compare_grads()
