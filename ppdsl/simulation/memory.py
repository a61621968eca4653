"""What each rank holds over time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ppdsl.costs.stages import cost_stages

if TYPE_CHECKING:
    from ppdsl.costs.values import Costs
    from ppdsl.planning.plan import Plan
    from ppdsl.schedules.actions import Schedule
    from ppdsl.simulation.report import SimulationReport


def follow_memory(plan: Plan, schedule: Schedule, costs: Costs, report: SimulationReport) -> dict[int, list[tuple[float, float]]]:
    """Give what each rank holds from each time on at which that changes, in ms and bytes; its largest is the rank's peak memory.

    Activations are taken when a forward begins, and given up when a backward ends; an action's workspace is there while it runs.

    Args:
        plan: The layout.
        schedule: A schedule for it.
        costs: What its layers cost.
        report: What simulating the three gave.
    """
    stages = cost_stages(plan, costs)
    whole = [stage.activation_bytes for stage in stages]
    after = [stage.activation_bytes_after_input_grad for stage in stages]
    released = {"B": whole, "I": [held - left for held, left in zip(whole, after, strict=True)], "W": after}
    found: dict[int, list[tuple[float, float]]] = {}
    for rank, actions in enumerate(schedule.ranks):
        held = most = 0.0
        steps = [(0.0, 0.0)]
        for (stage, kind, _), start, end in zip(actions, report.timing.starts[rank], report.timing.ends[rank], strict=True):
            during = held + (whole[stage] if kind == "F" else 0.0) + stages[stage].workspace_bytes
            held += whole[stage] if kind == "F" else -released[kind][stage]
            most = max(most, during)
            for time, size in ((start, during), (end, held)):
                if size != steps[-1][1]:
                    steps.append((time, size))
        rest = report.ranks[rank].peak_memory - most
        found[rank] = [(time, max(rest + size, 0.0)) for time, size in steps]
    return found
