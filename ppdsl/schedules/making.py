"""The schedule of a plan, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ppdsl.schedules.naming import NAMES, make_named

if TYPE_CHECKING:
    from collections.abc import Callable

    from ppdsl.costs.values import Costs
    from ppdsl.planning.plan import Plan
    from ppdsl.schedules.actions import Schedule


def make_schedule(
    plan: Plan,
    name: str | None,
    microbatches: int,
    *,
    group: int | None = None,
    costs: Costs | None = None,
) -> Schedule:
    """Make a schedule for a plan.

    Args:
        plan: The layout.
        name: One of ``NAMES``; None is interleaved_1f1b where vpp > 1, else 1f1b.
        microbatches: Number of microbatches in a step, from 1.
        group: Microbatches that a chunk works through before the next takes its turn, for interleaved_1f1b; pp by default.
        costs: What layers cost, for ``auto``: its times, and the memory limit if there is one. By default all decoder layers cost the same,
            all else nothing, and a backward is twice its forward. Backwards are split only where both halves are known.

    Raises:
        ValueError: There is no such schedule, or it is not legal for this plan and these microbatches, or nothing fits the memory limit.
    """
    name = name or default_name(plan)
    if name not in NAMES:
        raise ValueError(f"unknown schedule {name[:40]!a}; there are {', '.join(NAMES)}")
    _check_count("microbatches", microbatches)
    if group is not None:
        _check_count("the microbatch group", group)
    owners = tuple(chunk.pp_rank for chunk in plan.chunks)
    if name != "auto":
        return make_named(name, owners, plan.pp, microbatches, group)
    from ppdsl.costs.values import UNIT_COSTS  # noqa: PLC0415 -- only this schedule needs costs
    from ppdsl.schedules.automatic import automatic  # noqa: PLC0415 -- the same
    from ppdsl.schedules.draining import Task  # noqa: PLC0415 -- the same
    from ppdsl.schedules.durations import durations_for  # noqa: PLC0415 -- the same

    costs = costs or UNIT_COSTS
    excess = None if costs.memory_limit_bytes is None else _excess(plan, costs, costs.memory_limit_bytes)
    task = Task(owners, plan.pp, microbatches, durations_for(plan, costs))
    return automatic(task, group=group, split=costs.split, excess=excess)


def default_name(plan: Plan) -> str:
    """Give the schedule that a plan has where none is named."""
    return "interleaved_1f1b" if plan.vpp > 1 else "1f1b"


def _check_count(what: str, count: object) -> None:
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise ValueError(f"{what} is {str(count)[:40]!a}, not an integer from 1")


def _excess(plan: Plan, costs: Costs, limit: float) -> Callable[[Schedule], float]:
    """Give the function that says by how many bytes a schedule is over the limit."""
    from ppdsl.schedules.memory import measure_memory  # noqa: PLC0415 -- only where there is a limit

    return lambda schedule: max(measure_memory(plan, schedule, costs)) - limit
