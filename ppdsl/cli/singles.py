"""Commands that work on one layout: how it is checked, and what is said where it cannot be worked on."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from ppdsl.cli.options import refuse
from ppdsl.cli.output import Outcome, look_of
from ppdsl.cli.reports import check_entry, format_diagnostics, format_reports
from ppdsl.rendering import render_summary
from ppdsl.sizes import missing_sizes

if TYPE_CHECKING:
    from ppdsl.cli.inputs import Inputs
    from ppdsl.cli.options import Values
    from ppdsl.cli.reports import Report
    from ppdsl.planning import Plan


def check_single(inputs: Inputs) -> Report:
    """Check the one layout of an input.

    Raises:
        click.UsageError: There are more, or none.
    """
    if len(inputs.entries) != 1:
        refuse(f"one layout is taken, the input holds {len(inputs.entries)}")
    return check_entry(inputs.entries[0])


def planned(report: Report) -> Plan | None:
    """Give the plan of the layout that was checked; None where it is at fault, or pp is not known."""
    return None if report.result is None else report.result.plan


def require_sizes(report: Report, what: str, *, microbatches: bool) -> Report:
    """Add the fault of a valid layout without the sizes that something needs (PP202); a report of another stays as it is.

    Args:
        report: What checking the layout found.
        what: What needs pp, or the owners that say it.
        microbatches: Whether it needs the number of microbatches as well.
    """
    if report.result is None or not report.valid:
        return report
    missing: dict[str, None] = {}
    if report.result.plan is None:
        missing["pp"] = None
    if microbatches and report.result.options.microbatches is None:
        missing["microbatches"] = None
    return report.with_faults([missing_sizes(what, **missing)]) if missing else report


def refuse_layout(report: Report, inputs: Inputs, values: Values, code: int) -> Outcome:
    """Print why a layout is not worked on: documents on standard output, text on standard error."""
    wanted, verbose = values["output_format"], values["verbose"]
    look = look_of(sys.stderr, values["color"])
    if wanted in {"json", "sarif"}:
        return Outcome(format_reports([report], inputs, wanted, look, verbose=verbose), "", code)
    text = format_diagnostics([report], wanted, look, verbose=verbose)
    if wanted == "text":
        text += f"\n{render_summary(report.diagnostics)}\n"
    return Outcome("", text, code)
