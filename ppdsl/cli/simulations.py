"""A plan to a program that is proved, and to what it costs: what simulate, compile and diff share."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import click

from ppdsl.cli.exits import INFEASIBLE
from ppdsl.cli.options import refuse
from ppdsl.lowering import lower
from ppdsl.proving import verify
from ppdsl.schedules import NAMES, default_name, find_obstacle, make_schedule
from ppdsl.schedules.automatic import NothingFitsError
from ppdsl.schedules.durations import durations_for
from ppdsl.schedules.naming import SPLIT
from ppdsl.simulation import simulate

if TYPE_CHECKING:
    from ppdsl.cli.assumptions import Assumptions
    from ppdsl.lowering import Program
    from ppdsl.options import Options
    from ppdsl.planning import Plan
    from ppdsl.schedules import Schedule
    from ppdsl.simulation import SimulationReport


class InfeasibleError(click.UsageError):
    """Nothing fits what was asked for; it is answered like a usage error."""

    exit_code = INFEASIBLE


class UnprovedError(RuntimeError):
    """A program that ppdsl made does not pass its own proof."""


class Simulation(NamedTuple):
    """What a plan's schedule costs, and on what grounds.

    Attributes:
        plan: The layout.
        schedule: The actions of each rank.
        program: The same with sends and receives; it is proved.
        assumptions: The costs, and where they come from.
        report: What was found.
    """

    plan: Plan
    schedule: Schedule
    program: Program
    assumptions: Assumptions
    report: SimulationReport


def make_program(plan: Plan, options: Options, assumptions: Assumptions) -> tuple[Schedule, Program]:
    """Make the schedule that is asked for, and its program, and prove the program.

    Args:
        plan: The layout.
        options: With the number of microbatches; without a schedule, the default one is made.
        assumptions: The costs that ``auto`` goes by, and how far ahead receives are posted.

    Raises:
        click.UsageError: The schedule does not fit the plan, or is too long; or the costs do not fit the plan.
        InfeasibleError: No schedule fits the memory limit.
        UnprovedError: The program is not right, which is a fault of ppdsl.
    """
    microbatches, group = options.microbatches or 1, options.microbatch_group_size
    name = options.schedule or default_name(plan)
    _refuse_misfit(plan, name, microbatches, group)
    _refuse_length(plan, name, microbatches, assumptions)
    try:
        durations_for(plan, assumptions.costs)
    except ValueError as error:
        refuse(f"the costs file does not fit the layout: {error}")
    try:
        schedule = make_schedule(plan, name, microbatches, group=group, costs=assumptions.costs, depth=assumptions.depth)
    except NothingFitsError as error:
        raise InfeasibleError(str(error), click.get_current_context()) from None
    program = lower(schedule, assumptions.depth)
    require_proof(program)
    return schedule, program


def require_proof(program: Program) -> None:
    """Prove a program that ppdsl made.

    The proof is the strictest: all transfers of a rank share one hardware queue, and both directions between two ranks one channel.

    Raises:
        UnprovedError: The program is not right, which is a fault of ppdsl.
    """
    verdict = verify(program, queues=1, pairs=True)
    if not verdict.proved:
        raise UnprovedError(f"the program of {program.schedule} is not proved: {verdict.faults[0].message}")


def run_simulation(plan: Plan, options: Options, assumptions: Assumptions) -> Simulation:
    """Make the program of a plan, prove it, and simulate it. Raises as ``make_program``."""
    schedule, program = make_program(plan, options, assumptions)
    report = simulate(plan, schedule, assumptions.costs, depth=assumptions.depth)
    return Simulation(plan, schedule, program, assumptions, report)


def _refuse_misfit(plan: Plan, name: str, microbatches: int, group: int | None) -> None:
    """Refuse a schedule that the plan's placement does not allow, and name those that it does."""
    owners = tuple(chunk.pp_rank for chunk in plan.chunks)
    obstacle = find_obstacle(name, owners, plan.pp, microbatches, group)
    if obstacle is not None:
        fitting = (each for each in NAMES if find_obstacle(each, owners, plan.pp, microbatches, group) is None)
        refuse(f"{obstacle}; what --schedule can be here: {', '.join(fitting)}")


def _refuse_length(plan: Plan, name: str, microbatches: int, assumptions: Assumptions) -> None:
    split = name in SPLIT or (name == "auto" and assumptions.costs.split)
    actions = len(plan.chunks) * microbatches * (3 if split else 2)
    if actions > assumptions.most_actions:
        refuse(f"a schedule of {actions:,} actions is over the limit of {assumptions.most_actions:,} (--max-actions)")
