"""What a schedule keeps in memory: microbatches in flight, activations, buffers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ppdsl.costs.stages import cost_stages, count_messages
from ppdsl.schedules.checks import check_count

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ppdsl.costs.values import Costs, LayerCosts
    from ppdsl.planning.plan import Plan
    from ppdsl.schedules.actions import Action, Schedule

_IN_FLIGHT = {"F": 1, "B": -1, "I": -1, "W": 0}
_INPUT_USED = {"F": 1, "B": -1, "I": 0, "W": -1}


def count_in_flight(schedule: Schedule) -> tuple[int, ...]:
    """Give the most forwards done whose backward (B, or I) is not, counted over the chunks of each rank."""
    return tuple(_largest_sum(actions, _IN_FLIGHT) for actions in schedule.ranks)


def measure_memory(plan: Plan, schedule: Schedule, costs: Costs, *, depth: int = 1) -> tuple[int, ...]:
    """Give the largest number of bytes that each rank holds at once.

    That is its parameters with all that belongs to them; the activations in flight, released at B, or, where the backward is split, in part
    at I and the rest at W, with the workspace of the action that runs; and its buffers: for inputs as many as are in use at once (until B,
    or W) and ``depth`` more, for gradients ``1 + depth``, and one for each communicator that it takes part in. A rank that is sent nothing
    has no such buffers.

    Args:
        plan: The layout.
        schedule: A schedule of its stages.
        costs: What its layers cost; a size that is not known counts as nothing.
        depth: How many actions ahead of its use a receive is posted.

    Raises:
        ValueError: The costs name a decoder layer that the plan does not have, or the depth is negative.
    """
    check_count("depth", depth, least=0)
    stages = cost_stages(plan, costs)
    params = [0.0] * plan.pp
    for owner, stage in zip(schedule.owners, stages, strict=True):
        params[owner] += stage.params * costs.bytes_per_param
    messages = _count_buffers(schedule, count_messages(plan), depth) if costs.message_bytes else [0] * plan.pp
    held = (_largest_activations(actions, stages) for actions in schedule.ranks)
    return tuple(round(own + most + count * costs.message_bytes) for own, most, count in zip(params, held, messages, strict=True))


def _largest_sum(actions: Iterable[Action], steps: Mapping[str, int]) -> int:
    held = most = 0
    for _, kind, _ in actions:
        held += steps[kind]
        most = max(most, held)
    return most


def _largest_activations(actions: Sequence[Action], stages: Sequence[LayerCosts]) -> float:
    after = [stage.activation_bytes_after_input_grad for stage in stages]
    steps = {
        "F": [stage.activation_bytes for stage in stages],
        "B": [-stage.activation_bytes for stage in stages],
        "I": [left - stage.activation_bytes for stage, left in zip(stages, after, strict=True)],
        "W": [-left for left in after],
    }
    held = most = 0.0
    for stage, kind, _ in actions:
        before, held = held, held + steps[kind][stage]
        most = max(most, max(before, held) + stages[stage].workspace_bytes)
    return most


def _count_buffers(schedule: Schedule, messages: Sequence[int], depth: int) -> list[int]:
    """Count the buffers of each rank, in messages; where edges carry different numbers of them, a buffer fits the largest."""
    owners = schedule.owners
    inputs, gradients = [0] * schedule.pp, [0] * schedule.pp
    channels: dict[tuple[int, int], int] = {}
    for sender, receiver, count in zip(owners, owners[1:], messages, strict=False):
        if sender != receiver:
            inputs[receiver] = max(inputs[receiver], count)
            gradients[sender] = max(gradients[sender], count)
            for channel in ((sender, receiver), (receiver, sender)):
                channels[channel] = max(channels.get(channel, 0), count)
    sums = [(1 + depth) * count for count in gradients]
    for rank, count in enumerate(inputs):
        if count:
            fed = {stage for stage, owner in enumerate(owners) if owner == rank and stage and owners[stage - 1] != rank}
            used = _largest_sum((action for action in schedule.ranks[rank] if action.stage in fed), _INPUT_USED)
            sums[rank] += (used + depth) * count
    for channel, count in channels.items():
        for rank in channel:
            sums[rank] += count
    return sums
