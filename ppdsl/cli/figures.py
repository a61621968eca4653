"""What a simulation found, in words and figures."""

from __future__ import annotations

from math import floor, log10
from typing import TYPE_CHECKING

from ppdsl.cli.tables import draw_figures
from ppdsl.drawing.axes import say_time
from ppdsl.simulation.stalls import list_stalls
from ppdsl.validation.subject import plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ppdsl.cli.assumptions import Assumptions
    from ppdsl.cli.output import Look
    from ppdsl.cli.simulations import Simulation
    from ppdsl.schedules import Schedule, Timing
    from ppdsl.simulation import RankReport, SimulationReport

MOST_RANKS = 64
"""Ranks that the text lists; how many more there are is said."""
_MOST_SHARES = 6
_MOST_STALLS = 4
_DIGITS = 4
_MOST_DIGITS = 9
_CAUSES = ("fill", "drain", "imbalance", "p2p")
_THOUSAND = 1000
_UNITS = ("B", "kB", "MB", "GB", "TB", "PB", "EB")
_GIVEN = {
    "none": "no costs are given: a decoder or MTP layer takes 1 ms forward and 2 ms backward, all else nothing",
    "shape": "costs are estimated from the model's shape, activations are not: they depend on what is recomputed",
}
NO_SIZES = "the costs say nothing of parameters and activations"
_SOURCES = {"none": "all layers alike", "shape": "costs estimated from the shape, without activations", "file": "costs from the file"}


def tell(simulation: Simulation, look: Look) -> Iterator[str]:
    """Tell what was found; whole lines."""
    report, costs = simulation.report, simulation.assumptions.costs
    yield f"{name_run(simulation)}\n"
    yield from tell_basis(simulation.assumptions)
    yield f"\nstep time  {say_time(report.makespan)} ms, of which {report.bubble_ratio_makespan:.2%} bubble\n"
    yield f"span       {say_time(report.span)} ms, of which {report.bubble_ratio:.2%} bubble\n"
    yield f"\n{draw_figures(list_ranks(report, MOST_RANKS), look)}"
    if len(report.ranks) > MOST_RANKS:
        yield f"and {plural(len(report.ranks) - MOST_RANKS, 'more rank')}\n"
    yield f"\ncritical path: {_tell_path(report)}\n"
    yield from tell_stalls(simulation.schedule, report.timing)
    if costs.memory_limit_bytes is not None and not any(rank.peak_memory for rank in report.ranks):
        yield f"memory limit: {say_bytes(costs.memory_limit_bytes)}, but {NO_SIZES}\n"
    elif costs.memory_limit_bytes is not None:
        over = [rank for rank, each in enumerate(report.ranks) if each.peak_memory > costs.memory_limit_bytes]
        fits = f"{plural(len(over), 'rank')} over it, the first is rank {over[0]:,}" if over else "every rank is within it"
        yield f"memory limit: {say_bytes(costs.memory_limit_bytes)}, {fits}\n"


def tell_basis(assumptions: Assumptions) -> Iterator[str]:
    """Tell in a line what the costs come from, where that is not what they seem to be."""
    if assumptions.origin in _GIVEN:
        yield f"{_GIVEN[assumptions.origin]}\n"


def tell_stalls(schedule: Schedule, timing: Timing) -> Iterator[str]:
    """Tell in a line which chunks keep which waiting longest, between the fill and the drain of their ranks; nothing where none does."""
    stalls = list_stalls(schedule, timing)
    named = [
        f"stage {stall.stage:,} (rank {stall.rank:,}) waits {say_time(stall.time)} ms for {stall.source:,} (rank {stall.source_rank:,})"
        for stall in stalls[:_MOST_STALLS]
    ]
    if len(stalls) > _MOST_STALLS:
        named.append(f"others {say_time(sum(stall.time for stall in stalls[_MOST_STALLS:]))} ms")
    if named:
        yield f"stalls: {', '.join(named)}\n"


def name_run(simulation: Simulation) -> str:
    """Say in one line what was simulated, and that it is proved."""
    plan, report = simulation.plan, simulation.report
    batches = "1 microbatch" if report.microbatches == 1 else f"{report.microbatches:,} microbatches"
    return f"{report.schedule}, {batches}, pp {plan.pp:,} x vpp {plan.vpp:,}; the program is proved complete and free of deadlock"


def list_ranks(report: SimulationReport, most: int | None = None) -> list[list[str]]:
    """Give a table of the ranks: a heading, a row for each, and the share that each cause has of the time of them all.

    Memory has a column where anything is known of it, and p2p where there is any.

    Args:
        report: What was found.
        most: How many ranks are listed; by default all.
    """
    memory = any(rank.peak_memory for rank in report.ranks)
    causes = [cause for cause in _CAUSES if cause != "p2p" or any(rank.idle.p2p for rank in report.ranks)]
    times = [_times(rank, causes) for rank in report.ranks]
    digits = _count_digits(report.makespan, times)
    rows = [["rank", "busy ms", *causes, "in flight", *(["peak memory"] if memory else [])]]
    for number, (rank, own) in enumerate(zip(report.ranks[:most], times, strict=False)):
        shown = [f"{time:.{digits}f}" for time in own]
        rows.append([str(number), *shown, str(rank.peak_in_flight), *([say_bytes(rank.peak_memory)] if memory else [])])
    whole = report.makespan * len(report.ranks)
    shares = [f"{sum(column) / whole if whole else 0.0:.1%}" for column in zip(*times, strict=True)]
    most_memory = [say_bytes(max(rank.peak_memory for rank in report.ranks))] if memory else []
    return [*rows, ["all", *shares, str(max(rank.peak_in_flight for rank in report.ranks)), *most_memory]]


def _count_digits(makespan: float, times: Sequence[Sequence[float]]) -> int:
    """Give the digits behind the point with which times are written: none for whole numbers, else what makes four with the makespan's."""
    if not makespan or all(time == round(time) for own in times for time in own):
        return 0
    return min(max(1, _DIGITS - 1 - floor(log10(makespan))), _MOST_DIGITS)


def _times(rank: RankReport, causes: Sequence[str]) -> list[float]:
    return [rank.busy, *(getattr(rank.idle, cause) for cause in causes)]


def say_bytes(size: float) -> str:
    """Write a size with its unit, in powers of 1000."""
    unit = 0
    while size >= _THOUSAND and unit < len(_UNITS) - 1:
        size /= _THOUSAND
        unit += 1
    return f"{size:.{1 if unit else 0}f} {_UNITS[unit]}"


def tell_changes(before: Simulation, after: Simulation) -> Iterator[str]:
    """Tell in lines how the time of a step and the memory change from one simulation to another."""
    old, new = before.report, after.report
    schedule = old.schedule if old.schedule == new.schedule else f"{old.schedule} -> {new.schedule}"
    batches = "1 microbatch" if new.microbatches == 1 else f"{new.microbatches:,} microbatches"
    yield f"simulated with {batches}, {schedule}, {_SOURCES[after.assumptions.origin]}:"
    yield f"  step time: {say_time(old.makespan)} ms -> {say_time(new.makespan)} ms{_tell_change(old.makespan, new.makespan)}"
    yield f"  bubble: {old.bubble_ratio_makespan:.2%} -> {new.bubble_ratio_makespan:.2%} of the step time"
    most = [max(rank.peak_memory for rank in report.ranks) for report in (old, new)]
    if any(most):
        yield f"  peak memory of the fullest rank: {say_bytes(most[0])} -> {say_bytes(most[1])}{_tell_change(*most)}"


def _tell_change(before: float, after: float) -> str:
    return f" ({after / before - 1:+.1%})" if before and before != after else ""


def _tell_path(report: SimulationReport) -> str:
    """Say what shares of the critical path the ranks have, and its transfers."""
    times: dict[str, float] = {}
    for step in report.critical_path:
        name = "transfers" if step.receiver is not None else f"rank {step.rank:,}"
        times[name] = times.get(name, 0.0) + step.end - step.start
    shares = sorted(
        ((time / report.makespan, name) for name, time in times.items() if time), key=lambda share: (-share[0], len(share[1]), share[1])
    )
    named = [f"{name} {share:.1%}" for share, name in shares[:_MOST_SHARES]]
    if len(shares) > _MOST_SHARES:
        named.append(f"others {sum(share for share, _ in shares[_MOST_SHARES:]):.1%}")
    return ", ".join(named) or "nothing takes any time"
