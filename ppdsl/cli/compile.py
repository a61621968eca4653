"""``ppdsl compile``: the plan of a layout, and the program of each rank, as JSON."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from ppdsl.cli.assumptions import assumption_options, list_read, read_assumptions
from ppdsl.cli.exits import DONE, exit_code
from ppdsl.cli.inputs import read_inputs
from ppdsl.cli.options import ALIASES_NOTE, help_option, layout_inputs, report_options, size_options
from ppdsl.cli.output import Outcome, look_of
from ppdsl.cli.reports import format_diagnostics
from ppdsl.cli.singles import check_single, planned, refuse_layout, require_sizes
from ppdsl.compiling import plan_of

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ppdsl.cli.assumptions import AssumedValues

    class CompileValues(AssumedValues, total=False):
        """The values of the options that only this command has."""

        output: str | None


@click.command("compile", epilog=ALIASES_NOTE)
@layout_inputs
@size_options
@assumption_options
@click.option("-o", "--output", metavar="FILE", help="Write the plan to a file instead of standard output, which is -.")
@report_options
@help_option
def command(**values: Unpack[CompileValues]) -> Outcome:
    """Print the plan of a layout as JSON: which rank owns which layers.

    --pp is needed, unless the stages have owners. --microbatches and --schedule add what each rank does, step by step, and it is proved
    first; the costs are for the schedule auto alone. --microbatches without --schedule is only checked.
    """
    path = None if values["output"] == "-" else values["output"]
    if path is not None:
        from ppdsl.cli.files import refuse_overwriting  # noqa: PLC0415 -- most plans go to standard output

        refuse_overwriting(list_read(values), [("--output", path)])
    inputs = read_inputs(values)
    report = check_single(inputs)
    assumptions = read_assumptions(values, planned(report))
    if isinstance(assumptions, tuple):
        report = report.with_faults(assumptions)
    scheduled = values["schedule"] is not None
    report = require_sizes(report, "a schedule" if scheduled else "a plan", microbatches=scheduled)
    code = exit_code(report.diagnostics, warn_error=values["warn_error"])
    if code != DONE or report.result is None or isinstance(assumptions, tuple):
        return refuse_layout(report, inputs, values, code)
    plan = plan_of(report.result)
    document = plan.to_json()
    if scheduled:
        from ppdsl.cli.simulations import make_program  # noqa: PLC0415 -- most plans come without
        from ppdsl.lowering import program_to_json  # noqa: PLC0415 -- the same

        document["schedule"] = program_to_json(make_program(plan, report.result.options, assumptions)[1])
    warnings = format_diagnostics([report], "text", look_of(sys.stderr, values["color"]), verbose=values["verbose"])
    return _write(document, warnings, path)


def _write(document: dict[str, object], warnings: str, path: str | None) -> Outcome:
    from ppdsl.cli.documents import dump  # noqa: PLC0415 -- json takes a while to load

    text = dump(document)
    if path is None:
        return Outcome(text, warnings)
    from ppdsl.cli.files import write_file  # noqa: PLC0415 -- most plans go to standard output

    write_file(path, text)
    return Outcome("", warnings)
