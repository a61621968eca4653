"""``ppdsl fmt``: print layouts in canonical form, or in another spelling of the same meaning."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from ppdsl.cli.exits import INVALID, exit_code
from ppdsl.cli.inputs import read_inputs
from ppdsl.cli.options import ALIASES_NOTE, color_option, help_option, layout_inputs, limit_options, refuse, split_options
from ppdsl.cli.output import Outcome, look_of
from ppdsl.cli.reports import Report, check_entry, format_diagnostics, head_of
from ppdsl.diagnostics import Diagnostic
from ppdsl.formatting import format_expanded, layer_lists
from ppdsl.rendering.characters import visible
from ppdsl.source import Source

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ppdsl.cli.options import Values
    from ppdsl.compiling import CheckResult
    from ppdsl.validation import Subject

    class FmtValues(Values, total=False):
        """The values of the options that only this command has."""

        expand: bool
        spelling: str | None
        written_for: str | None
        unchanged: bool


@click.command("fmt", epilog=ALIASES_NOTE)
@layout_inputs
@click.option("--expand", is_flag=True, help="Write no repeats at all.")
@click.option("--as", "spelling", type=click.Choice(("list",)), help="Write Megatron's list form.")
@click.option("--target", "written_for", type=click.Choice(("megatron",)), help="Write what this framework's own parser reads.")
@click.option("--check", "unchanged", is_flag=True, help="Print only what would change; exit with 1 if anything would.")
@split_options
@limit_options
@color_option
@help_option
def command(**values: Unpack[FmtValues]) -> Outcome:
    """Print a layout in canonical form. No file is ever written.

    LAYOUT is a text such as 'Et*3||t*3|t*6NL'; - reads standard input, one layout a line.
    """
    how = _spelling(values)
    inputs = read_inputs(values)
    look = look_of(sys.stderr, values["color"])
    lines, errors, code = [], [], 0
    for entry in inputs.entries:
        report = check_entry(entry)
        text = None if report.result is None else _write(report.result, how)
        if not isinstance(text, str):
            head = f"{head_of(report)[0]}\n" if inputs.many and head_of(report) else ""
            errors.append(head + format_diagnostics(_refusal(report, text), "text", look, verbose=False))
            code = max(code, exit_code(report.diagnostics), INVALID)
        elif not values["unchanged"]:
            lines.append(f"{text}\n")
        elif isinstance(entry.layout, Source) and entry.layout.text != text:
            line, column = entry.layout.line_column(0)
            lines.append(f"{visible(entry.layout.name)}:{line}:{column}: would change to {text}\n")
            code = max(code, INVALID)
    return Outcome("".join(lines), "\n".join(errors), code)


def _spelling(values: FmtValues) -> str:
    """Give the one spelling that is asked for."""
    asked = [
        name for name, there in (("expand", values["expand"]), ("list", values["spelling"]), ("megatron", values["written_for"])) if there
    ]
    if len(asked) > 1:
        refuse("--expand, --as and --target ask for different spellings: give one of them")
    return asked[0] if asked else "canonical"


def _write(result: CheckResult, how: str) -> str | Diagnostic | None:
    """Write a layout, or say why it cannot be written so; None where the layout itself is at fault."""
    subject, limits = result.subject, result.options.limits
    if subject is None or subject.form.order is None:
        return None
    if result.canonical == "":
        return Diagnostic("PP110", "error", "nothing is left of the layout when `*0` has removed its part", subject.whole)
    if how == "megatron":
        from ppdsl.targets import lower_to_megatron  # noqa: PLC0415 -- needed only for this spelling

        return lower_to_megatron(subject) if result.valid else None
    if how == "list":
        return _write_list(subject, limits.text)
    text = format_expanded(subject.form, limits.text) if how == "expand" else result.canonical
    return _too_long(limits.text) if text is None else text


def _write_list(subject: Subject, limit: int) -> str | Diagnostic:
    from json import dumps  # noqa: PLC0415 -- the same

    from ppdsl.targets import explain_unwritable  # noqa: PLC0415 -- the same

    fault = explain_unwritable(subject)
    if fault is not None:
        return fault
    lists = layer_lists(subject.form, limit)
    return _too_long(limit) if lists is None else dumps(lists)


def _too_long(limit: int) -> Diagnostic:
    return Diagnostic("PP403", "error", f"written so, the layout would be longer than {limit:,}", help="raise the limit with --max-text")


def _refusal(report: Report, fault: Diagnostic | None) -> list[Report]:
    """Give what to print for a layout that cannot be written."""
    if fault is None or report.result is None:
        return [report]
    from dataclasses import replace  # noqa: PLC0415 -- needed only for a refusal

    return [Report(report.entry, replace(report.result, diagnostics=(fault,)))]
