"""The best layout by looking at every one: texts written by hand, compiled and simulated like any other."""

from __future__ import annotations

from itertools import pairwise, product
from typing import TYPE_CHECKING, NamedTuple

from ppdsl import compile_layout
from ppdsl.schedules import make_schedule
from ppdsl.simulation import simulate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ppdsl.options import Placement
    from ppdsl.suggesting import Problem


class Best(NamedTuple):
    """The best of all layouts."""

    time: float
    layout: str


def find_best(problem: Problem, *, vpp: int, placement: Placement, schedule: str | None = None) -> Best | None:
    """Simulate every layout that a problem allows, with one vpp, placement and schedule; None where none fits the memory limit."""
    best: Best | None = None
    for text in list_layouts(problem, place(problem.pp, vpp, placement)):
        plan = compile_layout(text, pp=problem.pp, placement=placement)
        order = make_schedule(plan, schedule or problem.schedule, problem.microbatches, group=problem.group)
        report = simulate(plan, order, problem.costs)
        limit = problem.costs.memory_limit_bytes
        if limit is not None and any(rank.peak_memory > limit for rank in report.ranks):
            continue
        time = report.span if problem.objective == "span" else report.makespan
        if best is None or time < best.time:
            best = Best(time, text)
    return best


def place(pp: int, vpp: int, placement: Placement) -> list[int]:
    """Give the rank of each stage."""
    passes = [[*range(pp)] if placement == "loop" or not number % 2 else [*reversed(range(pp))] for number in range(vpp)]
    return [rank for ranks in passes for rank in ranks]


def list_layouts(problem: Problem, owners: list[int]) -> Iterator[str]:
    """Write every layout. MTP layers stand beside the loss, or before it on a rank that holds neither embedding nor loss."""
    stages = len(owners)
    unit, layers, mtp = problem.unit, problem.num_layers, problem.mtp_num_layers
    whole = [*range(0, layers, unit), layers]
    for cuts in product(whole, repeat=stages - 1):
        ends = (0, *cuts, layers)
        counts = [end - start for start, end in pairwise(ends)]
        if min(counts) < 0:
            continue
        apart = mtp and stages - 2 > 0 and owners[-2] not in {owners[0], owners[-1]}
        for mtp_stage in {stages - 1, stages - 2} if apart else {stages - 1}:
            if mtp_stage < stages - 1 and counts[-1]:
                continue
            if _allowed(problem, counts, mtp_stage):
                texts = ["t" * count for count in counts]
                texts[0] = "E" + texts[0]
                texts[mtp_stage] += "m" * mtp
                yield "|".join(texts) + "L"


def _allowed(problem: Problem, counts: list[int], mtp_stage: int) -> bool:
    """Whether each stage has what it must have."""
    if problem.min_layers is not None:
        enough = all(count >= min(problem.min_layers, 1) for count in counts)
        return enough and (mtp_stage == len(counts) - 1 or not problem.min_layers)
    holds_more = {0, mtp_stage, len(counts) - 1}
    return all(count or stage in holds_more for stage, count in enumerate(counts))
