"""Counts of units to a layout: its text, and its plan."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ppdsl.formatting import MOST_COUNT, format_run, write_stages
from ppdsl.normal_form import normalize
from ppdsl.options import Limits
from ppdsl.parsing import parse
from ppdsl.planning import build_plan
from ppdsl.suggesting.choices import Choice

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ppdsl.planning.plan import Plan
    from ppdsl.suggesting.answers import Answer
    from ppdsl.suggesting.problem import Problem


def count_layers(problem: Problem, counts: Sequence[int]) -> tuple[int, ...]:
    """Give the decoder layers of each stage; only the last unit of all may be a smaller one."""
    layers, end = [], 0
    for count in counts:
        start, end = end, end + count
        layers.append(min(end * problem.unit, problem.num_layers) - min(start * problem.unit, problem.num_layers))
    return tuple(layers)


def write_layout(problem: Problem, choice: Choice, counts: Sequence[int]) -> str:
    """Write the layout in canonical form."""
    layers = count_layers(problem, counts)
    last = len(layers) - 1
    norm = last
    if problem.mtp_num_layers and problem.num_layers:
        norm = max(stage for stage, number in enumerate(layers) if number)
    runs = []
    for stage, number in enumerate(layers):
        text = ("E" if not stage else "") + format_run("t", number)
        text += "N" if problem.final_norm and stage == norm else ""
        text += format_run("m", problem.mtp_num_layers) if stage == choice.mtp_stage else ""
        text += "L" if stage == last else ""
        runs.append((text if choice.placement != "owners" else f"{text}@{choice.owners[stage]}", 1))
    return write_stages(runs, MOST_COUNT) or ""


def make_plan(problem: Problem, choice: Choice, counts: Sequence[int]) -> Plan:
    """Make the plan of the layout."""
    text = write_layout(problem, choice, counts)
    limits = Limits(text=len(text) + 1)
    form = normalize(parse(text, limits).items or (), limits)
    return build_plan(form, text, problem.pp, None if choice.placement == "owners" else choice.placement)


def make_uniform(problem: Problem, answer: Answer) -> Plan:
    """Make the plan of the even split over the same stages; the remainder goes one each to the earliest ones, MTP layers to the last."""
    owners = tuple(chunk.pp_rank for chunk in answer.plan.chunks)
    share, longer = divmod(problem.num_layers, len(owners))
    counts = tuple(share + (stage < longer) for stage in range(len(owners)))
    choice = Choice(owners, answer.plan.placement, answer.schedule.name, answer.group, len(owners) - 1, counts, counts)
    return make_plan(replace(problem, unit=1), choice, counts)
