"""How long the actions of a plan take, by the costs of its layers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ppdsl.costs.stages import cost_stages, count_messages
from ppdsl.schedules.timing import Durations

if TYPE_CHECKING:
    from ppdsl.costs.values import Costs
    from ppdsl.planning.plan import Plan


def durations_for(plan: Plan, costs: Costs) -> Durations:
    """Give the durations of a plan's stages, in ms.

    Under a link, the edge behind MTP layers carries their outputs as well and is occupied for as much longer; a pure delay is one for all.

    Raises:
        ValueError: The costs name a decoder layer that the plan does not have.
    """
    stages = cost_stages(plan, costs)
    link = costs.link
    return Durations(
        tuple(float(stage.forward) for stage in stages),
        tuple(float(stage.backward) for stage in stages),
        tuple(float(stage.input_grad) for stage in stages),
        tuple(float(stage.weight_grad) for stage in stages),
        float(costs.p2p_ms) if link is None else link.latency_us / 1e3,
        0.0 if link is None or not link.sending_ms else tuple(link.sending_ms * count for count in count_messages(plan)),
    )
