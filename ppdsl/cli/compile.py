"""``ppdsl compile``: the plan of a layout, as JSON."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from ppdsl.cli.exits import DONE, USAGE, exit_code
from ppdsl.cli.inputs import Inputs, read_inputs
from ppdsl.cli.options import ALIASES_NOTE, help_option, layout_inputs, refuse, report_options, size_options
from ppdsl.cli.output import Outcome, look_of
from ppdsl.cli.reports import Report, check_entry, format_diagnostics, format_reports
from ppdsl.compiling import plan_of
from ppdsl.diagnostics import LayoutError
from ppdsl.rendering import render_summary
from ppdsl.rendering.characters import visible

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ppdsl.cli.options import Values

    class CompileValues(Values, total=False):
        """The values of the options that only this command has."""

        output: str | None


@click.command("compile", epilog=ALIASES_NOTE)
@layout_inputs
@size_options
@click.option("-o", "--output", metavar="FILE", help="Write the plan to a file instead of standard output.")
@report_options
@help_option
def command(**values: Unpack[CompileValues]) -> Outcome:
    """Print the plan of a layout as JSON: which rank owns which layers.

    --pp is needed, unless the stages have owners. --microbatches is checked against the schedule.
    """
    inputs = read_inputs(values)
    report = check_single(inputs)
    plan = None
    if report.result is not None and report.valid:
        try:
            plan = plan_of(report.result)
        except LayoutError as error:
            report = report._replace(result=replace(report.result, diagnostics=error.diagnostics))
    code = exit_code(report.diagnostics, warn_error=values["warn_error"])
    if plan is None or code != DONE:
        return refuse_layout(report, inputs, values, code)
    from ppdsl.cli.documents import dump  # noqa: PLC0415 -- json takes a while to load

    text = dump(plan.to_json())
    warnings = format_diagnostics([report], "text", look_of(sys.stderr, values["color"]), verbose=values["verbose"])
    path = values["output"]
    if path is None:
        return Outcome(text, warnings)
    reason = write_file(path, text)
    if reason is not None:
        return Outcome("", f"error: cannot write '{visible(path)}': {reason}\n", USAGE)
    return Outcome("", warnings)


def check_single(inputs: Inputs) -> Report:
    """Check the one layout of an input.

    Raises:
        click.UsageError: There are more, or none.
    """
    if len(inputs.entries) != 1:
        refuse(f"one layout is taken, the input holds {len(inputs.entries)}")
    return check_entry(inputs.entries[0])


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


def write_file(path: str, text: str) -> str | None:
    """Write a file whole or not at all, and follow a symbolic link; what is no regular file (``/dev/stdout``) is written through.

    Returns:
        The reason why it could not be written; None where it was.
    """
    from pathlib import Path  # noqa: PLC0415 -- most plans go to standard output

    try:
        target = Path(path)
        if target.exists() and not target.is_file():
            target.write_text(text, encoding="utf-8")
            return None
        target = target.resolve()
        draft = target.with_name(f"{target.name}.{os.getpid()}.tmp")
        try:
            with draft.open("x", encoding="utf-8") as stream:
                stream.write(text)
            draft.replace(target)
        except OSError:
            draft.unlink(missing_ok=True)
            raise
    except (OSError, ValueError, RuntimeError) as error:
        return (getattr(error, "strerror", None) or str(error)).lower()
    return None
