"""A plan, a schedule and costs to a report."""

from __future__ import annotations

from math import fsum
from typing import TYPE_CHECKING

from ppdsl.schedules.durations import durations_for
from ppdsl.schedules.memory import count_in_flight, measure_memory
from ppdsl.schedules.timing import time_schedule
from ppdsl.simulation.critical_path import find_critical_path
from ppdsl.simulation.idling import split_idle_time
from ppdsl.simulation.producers import Producers
from ppdsl.simulation.report import RankReport, SimulationReport

if TYPE_CHECKING:
    from ppdsl.costs.values import Costs
    from ppdsl.planning.plan import Plan
    from ppdsl.schedules.actions import Schedule
    from ppdsl.schedules.timing import Durations


def simulate(plan: Plan, schedule: Schedule, costs: Costs, *, depth: int = 1) -> SimulationReport:
    """Find what a schedule costs, in time linear in the number of its actions.

    Args:
        plan: The layout.
        schedule: A schedule for it.
        costs: What its layers cost.
        depth: How many actions ahead of its use a receive is posted; only memory depends on it.

    Raises:
        ValueError: The schedule is for another placement, the costs name a decoder layer that the plan does not have, or the depth is
            negative.
        StuckError: The schedule cannot be carried out.
    """
    if schedule.owners != tuple(chunk.pp_rank for chunk in plan.chunks) or schedule.pp != plan.pp:
        raise ValueError("the schedule is for other stages than those of the plan")
    durations = durations_for(plan, costs)
    timing = time_schedule(schedule, durations)
    producers = Producers(schedule, timing)
    busy = [_sum_busy_time(schedule, durations, rank) for rank in range(schedule.pp)]
    idle = split_idle_time(schedule, timing, durations, producers)
    mean = sum(busy) / len(busy)
    return SimulationReport(
        plan.layout,
        schedule.name,
        schedule.microbatches,
        timing.makespan,
        timing.span,
        _ratio(timing.span, mean),
        _ratio(timing.makespan, mean),
        tuple(map(RankReport, busy, idle, count_in_flight(schedule), measure_memory(plan, schedule, costs, depth=depth))),
        find_critical_path(schedule, timing, durations, producers),
        timing,
    )


def _sum_busy_time(schedule: Schedule, durations: Durations, rank: int) -> float:
    times = {"F": durations.forward, "B": durations.backward, "I": durations.input_grad, "W": durations.weight_grad}
    return fsum(times[kind][stage] for stage, kind, _ in schedule.ranks[rank])


def _ratio(whole: float, busy: float) -> float:
    """Give the part of a time that is not busy; rounding may leave it a little off 0."""
    return max(0.0, (whole - busy) / whole) if whole else 0.0
