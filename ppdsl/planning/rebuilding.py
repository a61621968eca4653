"""The layout of a plan that comes from outside, compiled anew: what that costs is bounded by the size of the plan itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

from ppdsl.formatting import format_canonical
from ppdsl.normal_form import normalize
from ppdsl.options import Limits, Options, Placement
from ppdsl.parsing import parse
from ppdsl.planning.building import build_plan
from ppdsl.rendering.characters import visible
from ppdsl.validation import examine, validate

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ppdsl.diagnostics import Diagnostic
    from ppdsl.planning.plan import Plan


def rebuild_plan(layout: str, pp: int, placement: str, stages: int) -> Plan:
    """Compile the layout of a plan.

    Args:
        layout: The layout, in any spelling.
        pp: Number of pipeline ranks.
        placement: ``loop``, ``v`` or ``owners``.
        stages: How many stages the layout must have. A layout with more is refused before they are listed.

    Raises:
        ValueError: The layout is invalid, or does not fit the rest; one line says what is wrong.
    """
    if not 1 <= pp <= stages:
        raise ValueError(f"pp is {_count(pp)}, but there are {stages} chunks")
    if placement not in (*get_args(Placement), "owners"):
        raise ValueError(f"placement is {placement[:20]!a}, not 'loop', 'v' or 'owners'")
    dealt: Placement | None = "loop" if placement == "loop" else "v" if placement == "v" else None
    limits = Limits(text=len(layout), stages=stages, depth=len(layout))
    parsed = parse(layout, limits)
    _refuse(parsed.diagnostics)
    items = parsed.items or ()
    form = normalize(items, limits)
    if form.tally.stages != stages:
        raise ValueError(f"layout has {_count(form.tally.stages)} stages, but there are {stages} chunks")
    subject = examine(layout, items, form, Options(pp=pp, placement=dealt, limits=limits))
    if subject.placement != dealt:
        raise ValueError(f"placement is {placement!r}, but the stages of layout have {'no ' if dealt is None else ''}owners")
    _refuse(validate(subject))
    return build_plan(form, format_canonical(form, max(len(layout), Limits().text)) or layout, pp, dealt)


def _refuse(diagnostics: Iterable[Diagnostic]) -> None:
    """Raise ValueError for the first error, if there is one."""
    for fault in diagnostics:
        if fault.severity == "error":
            raise ValueError(f"layout is invalid: {visible(fault.message)} ({fault.code})")


def _count(count: int) -> str:
    return str(count) if count <= 10**15 else "over 10^15"
