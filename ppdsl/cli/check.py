"""``ppdsl check``: validate layouts, and show where their layers go."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from ppdsl.cli.exits import DONE, exit_code
from ppdsl.cli.inputs import read_inputs
from ppdsl.cli.options import ALIASES_NOTE, help_option, layout_inputs, report_options, size_options
from ppdsl.cli.output import Outcome, look_of
from ppdsl.cli.reports import check_entry, format_reports

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ppdsl.cli.options import Values


@click.command("check", epilog=ALIASES_NOTE)
@layout_inputs
@size_options
@report_options
@help_option
def command(**values: Unpack[Values]) -> Outcome:
    """Check a layout, and show which rank has which layers.

    LAYOUT is a text such as 'Et*3||t*3|t*6NL'; - reads standard input, one layout a line.
    """
    inputs = read_inputs(values)
    reports = [check_entry(entry) for entry in inputs.entries]
    look = look_of(sys.stdout, values["color"])
    text = format_reports(reports, inputs, values["output_format"], look, verbose=values["verbose"])
    codes = [exit_code(each.diagnostics, warn_error=values["warn_error"]) for each in reports]
    refused = any(each.valid and code for each, code in zip(reports, codes, strict=True))
    return Outcome(text, "error: warnings count as errors (--warn-error)\n" if refused else "", max(codes, default=DONE))
