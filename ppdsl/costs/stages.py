"""What the stages of a plan cost, and how much each sends to the next."""

from __future__ import annotations

from dataclasses import fields, replace
from operator import attrgetter
from typing import TYPE_CHECKING

from ppdsl.costs.values import FREE, LayerCosts
from ppdsl.validation.subject import plural

if TYPE_CHECKING:
    from ppdsl.costs.values import Costs
    from ppdsl.planning.plan import Chunk, Plan

_WORKSPACE = "workspace_bytes"
_SUMMED = attrgetter(*(entry.name for entry in fields(LayerCosts) if entry.name != _WORKSPACE))


def cost_stages(plan: Plan, costs: Costs) -> tuple[LayerCosts, ...]:
    """Sum the costs of the layers of each stage, by stage; layers are counted, not listed.

    Raises:
        ValueError: The costs name a decoder layer that the plan does not have, or are those of another number of decoder layers.
    """
    if costs.num_layers not in {None, plan.num_layers}:
        raise ValueError(f"the costs are those of {plural(costs.num_layers or 0, 'decoder layer')}, the layout has {plan.num_layers}")
    special: dict[int, list[LayerCosts]] = {}
    for layer, own in sorted(costs.layers.items()):
        if layer >= plan.num_layers:
            raise ValueError(f"layers.{layer}: there is no such layer, the layout has {plan.num_layers} of kind t")
        special.setdefault(plan.stage_for_layer(layer).stage, []).append(own)
    known: dict[tuple[object, ...], LayerCosts] = {}
    sums = []
    for chunk in plan.chunks:
        own_layers = special.get(chunk.stage, [])
        shape = (chunk.layers[1] - chunk.layers[0], chunk.mtp_layers[1] - chunk.mtp_layers[0], *chunk[5:])
        if own_layers:
            sums.append(_sum_stage(chunk, costs, own_layers))
        else:
            if shape not in known:
                known[shape] = _sum_stage(chunk, costs, [])
            sums.append(known[shape])
    return tuple(sums)


def _sum_stage(chunk: Chunk, costs: Costs, own_layers: list[LayerCosts]) -> LayerCosts:
    kinds = costs.kinds
    parts = [
        (kinds.get("E", FREE), int(chunk.embedding)),
        (kinds.get("t", FREE), chunk.layers[1] - chunk.layers[0] - len(own_layers)),
        *((layer, 1) for layer in own_layers),
        (kinds.get("N", FREE), int(chunk.final_norm)),
        (kinds.get("m", FREE), chunk.mtp_layers[1] - chunk.mtp_layers[0]),
        (kinds.get("L", FREE), int(chunk.loss)),
    ]
    there = [(layer, count) for layer, count in parts if count]
    rows = [[value * count for value in _SUMMED(layer)] for layer, count in there]
    workspace = max((layer.workspace_bytes for layer, _ in there), default=0)
    return replace(LayerCosts(*map(sum, zip(*rows, strict=True))), workspace_bytes=workspace) if rows else FREE


def count_messages(plan: Plan) -> tuple[int, ...]:
    """Count what each stage but the last sends to the next: the hidden state, and one more for each MTP layer up to there.

    The losses of MTP layers are taken beside the model's own, in the last stage, so that their outputs travel that far too.
    """
    return tuple(1 + chunk.mtp_layers[1] for chunk in plan.chunks[:-1])
