"""What a search found, in words and figures, and as a document."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ppdsl._version import __version__
from ppdsl.cli.documents import SCHEMA_VERSION
from ppdsl.cli.figures import MOST_RANKS, NO_SIZES, list_ranks, name_run, say_bytes, tell_basis, tell_stalls
from ppdsl.cli.tables import draw, draw_figures
from ppdsl.drawing.axes import say_time
from ppdsl.schedules import find_obstacle, make_schedule
from ppdsl.schedules.automatic import NothingFitsError
from ppdsl.schedules.durations import durations_for
from ppdsl.schedules.memory import measure_memory
from ppdsl.schedules.timing import time_schedule
from ppdsl.simulation.stalls import list_stalls
from ppdsl.suggesting import make_uniform
from ppdsl.validation.subject import plural

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ppdsl.cli.output import Look
    from ppdsl.cli.simulations import Simulation
    from ppdsl.planning import Plan
    from ppdsl.suggesting import Answer, Problem


_MEGATRON = frozenset({"1f1b", "interleaved_1f1b"})
"""The schedules that Megatron-LM runs."""
_SMALL = 1e-4


class Rival(NamedTuple):
    """Another layout, simulated.

    Attributes:
        layout: Its text.
        schedule: The schedule that it was simulated with; None where none fits.
        time: What is to be small, in ms; None where no schedule fits.
        peak_memory: The most bytes that a rank holds.
    """

    layout: str
    schedule: str | None
    time: float | None
    peak_memory: int


class Suggestion(NamedTuple):
    """What there is to tell.

    Attributes:
        problem: What was asked.
        answer: What was found.
        simulation: The answer, simulated and proved.
        rival: The layout to compare with, if there is one.
        points: Step time against memory, if that is asked for.
    """

    problem: Problem
    answer: Answer
    simulation: Simulation
    rival: Rival | None
    points: tuple[Answer, ...] | None


def rival_of(plan: Plan, problem: Problem, answer: Answer) -> Rival:
    """Simulate another layout: with the schedule of the answer on the same stages, else with the one that was asked for or is usual."""
    owners = [chunk.pp_rank for chunk in plan.chunks]
    same = owners == [chunk.pp_rank for chunk in answer.plan.chunks]
    name = answer.schedule.name if same else problem.schedule
    if name is not None and find_obstacle(name, owners, plan.pp, problem.microbatches, answer.group) is not None:
        name = None
    try:
        schedule = make_schedule(plan, name, problem.microbatches, group=answer.group, costs=problem.costs, depth=problem.depth)
    except (NothingFitsError, ValueError):
        return Rival(plan.layout, None, None, 0)
    timing = time_schedule(schedule, durations_for(plan, problem.costs))
    time = timing.span if problem.objective == "span" else timing.makespan
    return Rival(plan.layout, schedule.name, time, max(measure_memory(plan, schedule, problem.costs, depth=problem.depth)))


def write_forms(answer: Answer) -> tuple[str | None, str | None]:
    """Give what ``--partition`` and ``--chunks`` take; None where that form cannot say it: it has MTP layers beside the loss."""
    plan, counts = answer.plan, answer.per_stage
    if plan.mtp_num_layers and not (plan.chunks[-1].mtp_layers == (0, plan.mtp_num_layers) and plan.chunks[-1].final_norm):
        return None, None
    chunks = ",".join(f"{chunk.pp_rank}:{count}" for chunk, count in zip(plan.chunks, counts, strict=True))
    owners = [chunk.pp_rank for chunk in plan.chunks]
    whole = owners == [*range(plan.pp)] and all(counts)
    return ",".join(map(str, counts)) if whole else None, chunks


def write_megatron(answer: Answer) -> str | None:
    """Give the string that Megatron-LM accepts; None where it has no words for the layout."""
    from ppdsl.compiling import check_layout  # noqa: PLC0415 -- its neighbours are loaded with it
    from ppdsl.targets import lower_to_megatron  # noqa: PLC0415 -- the same

    plan = answer.plan
    subject = check_layout(plan.layout, pp=plan.pp, placement=None if plan.placement == "owners" else plan.placement).subject
    text = None if subject is None else lower_to_megatron(subject)
    return text if isinstance(text, str) else None


def describe(found: Suggestion) -> dict[str, object]:
    """Give it as data that ``json.dumps`` takes."""
    problem, answer, plan = found.problem, found.answer, found.answer.plan
    uniform = rival_of(make_uniform(problem, answer), problem, answer)
    partition, chunks = write_forms(answer)
    report = found.simulation.report.to_json()
    return {
        "schema_version": SCHEMA_VERSION,
        "ppdsl_version": __version__,
        "layout": plan.layout,
        "per_stage": list(answer.per_stage),
        "step_ms": answer.time,
        "lower_bound_ms": answer.bound,
        "gap": answer.gap,
        "optimal": answer.optimal,
        "uniform": _describe_rival(uniform),
        "compared": None if found.rival is None else _describe_rival(found.rival),
        "megatron_layout": write_megatron(answer),
        "partition": partition,
        "chunks": chunks,
        "objective": problem.objective,
        "pp": plan.pp,
        "vpp": plan.vpp,
        "placement": plan.placement,
        "schedule": answer.schedule.name,
        "microbatches": problem.microbatches,
        "microbatch_group_size": answer.group,
        "costs_from": found.simulation.assumptions.origin,
        "memory_limit_bytes": problem.costs.memory_limit_bytes,
        "peak_memory_bytes": answer.peak_memory,
        "layouts_timed": answer.tried,
        "interrupted": answer.interrupted,
        "ranks": report["ranks"],
        "stalls": [stall.to_json() for stall in list_stalls(answer.schedule, found.simulation.report.timing)],
        "pareto": None if found.points is None else [_describe_point(point) for point in found.points],
    }


def _describe_rival(rival: Rival) -> dict[str, object]:
    return {"layout": rival.layout, "step_ms": rival.time, "schedule": rival.schedule, "peak_memory_bytes": rival.peak_memory}


def _describe_point(point: Answer) -> dict[str, object]:
    return {
        "layout": point.plan.layout,
        "placement": point.plan.placement,
        "schedule": point.schedule.name,
        "microbatch_group_size": point.group,
        "step_ms": point.time,
        "lower_bound_ms": point.bound,
        "peak_memory_bytes": point.peak_memory,
    }


def tell_suggestion(found: Suggestion, look: Look) -> Iterator[str]:
    """Tell what was found; whole lines."""
    problem, answer, simulation = found.problem, found.answer, found.simulation
    yield f"{name_run(simulation)}\n"
    yield from tell_basis(simulation.assumptions)
    if answer.interrupted:
        yield "interrupted: this is the best that was found so far\n"
    yield f"\n{draw(answer.plan, look)}\n"
    yield from _tell_forms(answer)
    yield f"\n{'step time' if problem.objective == 'makespan' else 'span':9}  {_tell_time(answer)}\n"
    yield f"uniform    {_tell_rival(rival_of(make_uniform(problem, answer), problem, answer), problem, answer)}\n"
    if found.rival is not None:
        yield f"compared   {_tell_rival(found.rival, problem, answer)}\n"
    yield f"\n{draw_figures(list_ranks(simulation.report, MOST_RANKS), look)}"
    if len(simulation.report.ranks) > MOST_RANKS:
        yield f"and {plural(len(simulation.report.ranks) - MOST_RANKS, 'more rank')}\n"
    stalls = [*tell_stalls(simulation.schedule, simulation.report.timing)]
    yield from ["\n", *stalls] if stalls or problem.costs.memory_limit_bytes is not None else []
    if problem.costs.memory_limit_bytes is not None:
        held = f"the fullest rank holds {say_bytes(answer.peak_memory)}" if answer.peak_memory else f"but {NO_SIZES}"
        yield f"memory limit: {say_bytes(problem.costs.memory_limit_bytes)}, {held}\n"
    if found.points is not None:
        yield (
            f"\n{draw_figures(_list_points(found.points), look)}" if answer.peak_memory else f"\nno step time against memory: {NO_SIZES}\n"
        )


def _tell_forms(answer: Answer) -> Iterator[str]:
    """Tell the layout in all its forms, and what has to be said with it."""
    partition, chunks = write_forms(answer)
    megatron = write_megatron(answer)
    yield f"layout       {answer.plan.layout}\n"
    if answer.plan.placement == "v":
        yield "--placement  v\n"
    yield f"Megatron-LM  {megatron if megatron is not None else 'has no words for it'}\n"
    if megatron is not None and answer.schedule.name not in _MEGATRON:
        yield f"--schedule   {answer.schedule.name}, which Megatron-LM does not run: there the step takes another time\n"
    for name, text in (("--partition", partition), ("--chunks", chunks)):
        if text is not None:
            yield f"{name:11}  {text}\n"
    if answer.group is not None:
        yield f"--microbatch-group-size  {answer.group}\n"


def _tell_time(answer: Answer) -> str:
    if answer.optimal:
        return f"{say_time(answer.time)} ms, which no layout beats"
    less = f"{answer.gap:.2%} less" if answer.gap >= _SMALL else f"less than {_SMALL:.2%} less"
    return f"{say_time(answer.time)} ms; no layout is faster than {say_time(answer.bound)} ms, {less}"


def _tell_rival(rival: Rival, problem: Problem, answer: Answer) -> str:
    if rival.time is None:
        return f"no schedule fits {rival.layout}"
    change = f" ({rival.time / answer.time - 1:+.2%})" if answer.time else ""
    schedule = "" if rival.schedule == answer.schedule.name else f", {rival.schedule}"
    limit = problem.costs.memory_limit_bytes
    over = "" if limit is None or rival.peak_memory <= limit else ", over the memory limit"
    return f"{say_time(rival.time)} ms{change}: {rival.layout}{schedule}{over}"


def _list_points(points: tuple[Answer, ...]) -> list[list[str]]:
    rows = [["step ms", "peak memory", "schedule", "layout"]]
    return rows + [[say_time(each.time), say_bytes(each.peak_memory), _name_order(each), each.plan.layout] for each in points]


def _name_order(answer: Answer) -> str:
    """Name what decides the order of a layout's actions."""
    group = "" if answer.group is None else f", microbatch group {answer.group}"
    return f"{answer.schedule.name}{group}{', placement v' if answer.plan.placement == 'v' else ''}"
