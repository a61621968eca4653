"""The schedule of a plan, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ppdsl.schedules.checks import check_count
from ppdsl.schedules.naming import NAMES, make_named

if TYPE_CHECKING:
    from collections.abc import Callable

    from ppdsl.costs.values import Costs
    from ppdsl.planning.plan import Plan
    from ppdsl.schedules.actions import Schedule


def make_schedule(  # noqa: PLR0913 -- what only auto looks at, by name
    plan: Plan,
    name: str | None,
    microbatches: int,
    *,
    group: int | None = None,
    costs: Costs | None = None,
    depth: int = 1,
) -> Schedule:
    """Make a schedule for a plan.

    Args:
        plan: The layout.
        name: One of ``NAMES``; None is the one of ``default_name``.
        microbatches: Number of microbatches in a step, from 1.
        group: Microbatches that a chunk works through before the next takes its turn, for interleaved_1f1b; pp by default.
        costs: What layers cost, for ``auto``: its times, and the memory limit if there is one. By default all decoder layers cost the same,
            all else nothing, and a backward is twice its forward. Backwards are split only where both halves are known.
        depth: How many actions ahead of its use a receive will be posted: ``auto`` counts the buffers for that to the memory.

    Raises:
        ValueError: There is no such schedule, or it is not legal for this plan and these microbatches, or nothing fits the memory limit.
    """
    name = name or default_name(plan)
    if name not in NAMES:
        raise ValueError(f"unknown schedule {name[:40]!a}; there are {', '.join(NAMES)}")
    check_count("microbatches", microbatches)
    check_count("depth", depth, least=0)
    if group is not None:
        check_count("the microbatch group", group)
    if name != "auto":
        return make_named(name, tuple(chunk.pp_rank for chunk in plan.chunks), plan.pp, microbatches, group)
    from ppdsl.costs.values import UNIT_COSTS  # noqa: PLC0415 -- only this schedule needs costs

    return _make_automatic(plan, microbatches, group, costs or UNIT_COSTS, depth)


def _make_automatic(plan: Plan, microbatches: int, group: int | None, costs: Costs, depth: int) -> Schedule:
    from ppdsl.schedules.automatic import automatic  # noqa: PLC0415 -- only this schedule is searched for
    from ppdsl.schedules.draining import Task  # noqa: PLC0415 -- the same
    from ppdsl.schedules.durations import durations_for  # noqa: PLC0415 -- the same

    excess = None if costs.memory_limit_bytes is None else _excess(plan, costs, costs.memory_limit_bytes, depth)
    task = Task(tuple(chunk.pp_rank for chunk in plan.chunks), plan.pp, microbatches, durations_for(plan, costs))
    return automatic(task, group=group, split=costs.split, excess=excess)


def default_name(plan: Plan) -> str:
    """Give the schedule that a plan has where none is named: Megatron-LM's where its placement allows one, else ``auto``."""
    owners = [chunk.pp_rank for chunk in plan.chunks]
    if sorted(owners) == [*range(plan.pp)]:
        return "1f1b"
    return "interleaved_1f1b" if owners == [*range(plan.pp)] * plan.vpp else "auto"


def _excess(plan: Plan, costs: Costs, limit: float, depth: int) -> Callable[[Schedule], float]:
    """Give the function that says by how many bytes a schedule is over the limit."""
    from ppdsl.schedules.memory import measure_memory  # noqa: PLC0415 -- only where there is a limit

    return lambda schedule: max(measure_memory(plan, schedule, costs, depth=depth)) - limit
