"""A layout in prose, stage by stage; equal stages in a row take one line."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from ppdsl.placing import rank_cycle, sum_by_rank
from ppdsl.validation.subject import plural

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ppdsl.compiling import CheckResult
    from ppdsl.normal_form import Stage
    from ppdsl.validation import Subject

MOST_LINES = 100
"""Runs of equal stages that are told; how many more there are is said."""


def tell(result: CheckResult, subject: Subject) -> Iterator[str]:
    """Tell a layout in lines.

    Args:
        result: What checking it gave; the ranks are told only where it is valid and pp is known.
        subject: The layout in normal form.
    """
    tally = subject.form.tally
    counts = [plural(subject.stages, "stage"), plural(tally.count("t"), "decoder layer")]
    if tally.count("m"):
        counts.append(plural(tally.count("m"), "MTP layer"))
    dealt = subject.dealt_pp if result.valid else None
    if dealt is not None:
        counts.append(f"pp {dealt:,} x vpp {subject.vpp:,}, placement {subject.placement or 'owners'}")
    yield ", ".join(counts)
    if subject.form.order is None:
        return
    yield ""
    yield from _tell_stages(subject, _places(subject, dealt))
    if dealt is not None:
        yield ""
        yield _tell_loads(subject, dealt)


def _tell_stages(subject: Subject, place: Callable[[int, int, Stage], str]) -> Iterator[str]:
    layer = mtp = 0
    order = subject.form.order or ()
    norm = subject.form.implied_norm_stage() if not subject.form.tally.count("N") else None
    for number, stage, count in islice(subject.form.runs(), MOST_LINES):
        last = number + count - 1
        layers, mtps = stage.count("t"), stage.count("m")
        where = f"stage {number:,}" if count == 1 else f"stages {number:,} to {last:,}"
        parts = [*_tell_contents(stage, count, layer, mtp)]
        if norm is not None and number <= norm <= last:
            told = "the final norm (implied)" if count == 1 else f"the final norm in stage {norm:,} (implied)"
            parts.insert(len(parts) - (1 if stage.count("L") else 0), told)
        yield f"{where}{place(number, count, stage)}: {', '.join(parts) or 'nothing, what comes in goes on'}"
        layer, mtp = layer + layers * count, mtp + mtps * count
    if len(order) > MOST_LINES:
        yield f"and {len(order) - MOST_LINES:,} more runs of equal stages"


def _tell_contents(stage: Stage, times: int, layer: int, mtp: int) -> Iterator[str]:
    """Name what a stage holds, given how many layers and MTP layers stand before it."""
    each = " each" if times > 1 else ""
    for kind, count in stage.runs:
        if kind == "t":
            yield f"{_numbers('decoder layer', layer, count, times)}{each}"
            layer += count
        elif kind == "m":
            yield f"{_numbers('MTP layer', mtp, count, times)}{each}"
            mtp += count
        else:
            name = {"E": "the embedding", "N": "the final norm", "L": "the loss"}[kind]
            yield name if count * times == 1 else f"{name} {count * times:,} times"


def _numbers(noun: str, first: int, count: int, times: int) -> str:
    if times > 1:
        return f"{noun}s {first:,} to {first + count * times - 1:,}, {count:,}"
    return f"{noun} {first:,}" if count == 1 else f"{noun}s {first:,} to {first + count - 1:,}"


def _places(subject: Subject, pp: int | None) -> Callable[[int, int, Stage], str]:
    """Give the function that tells which rank and chunk a run of stages has."""
    if pp is None:
        return lambda _number, _count, _stage: ""
    if subject.placement is None:
        return lambda _number, _count, stage: f" (rank {stage.owner:,})"
    cycle = rank_cycle(pp, subject.placement)

    def place(number: int) -> str:
        return f"rank {cycle[number % len(cycle)]:,} chunk {number // pp:,}"

    return lambda number, count, _stage: f" ({place(number)})" if count == 1 else f" ({place(number)} to {place(number + count - 1)})"


def _tell_loads(subject: Subject, pp: int) -> str:
    loads = sum_by_rank(subject.form, (stage.count("t") for stage in subject.form.stages), pp, subject.placement)
    least, most = min(loads), max(loads)
    if least == most:
        return f"every rank has {plural(most, 'decoder layer')}"
    mean = sum(loads) / pp
    return f"the ranks have {least:,} to {plural(most, 'decoder layer')}, {mean:,.2f} on average; rank {loads.index(most):,} has the most"
