"""``ppdsl explain``: what a code means, or what a layout says."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from ppdsl.cli.exits import exit_code
from ppdsl.cli.inputs import read_inputs
from ppdsl.cli.options import ALIASES_NOTE, help_option, layout_inputs, refuse, report_options, size_options
from ppdsl.cli.output import Outcome, look_of
from ppdsl.cli.prose import tell
from ppdsl.cli.reports import format_diagnostics
from ppdsl.cli.singles import check_single, refuse_layout

if TYPE_CHECKING:
    from collections.abc import Iterator

    from typing_extensions import Unpack

    from ppdsl.cli.options import Values
    from ppdsl.diagnostics import Rule

_WIDTH = 88


@click.command("explain", epilog=ALIASES_NOTE)
@layout_inputs
@size_options
@report_options
@help_option
def command(**values: Unpack[Values]) -> Outcome:
    """Explain a code such as PP302 with its examples, or tell in prose what a layout says."""
    layouts = values["layouts"]
    if len(layouts) == 1 and is_code(layouts[0]):
        return _explain_code(layouts[0].upper())
    inputs = read_inputs(values)
    report = check_single(inputs)
    result = report.result
    code = exit_code(report.diagnostics, warn_error=values["warn_error"])
    if result is None or result.subject is None:
        return refuse_layout(report, inputs, values, code)
    text = "".join(f"{line}\n" for line in tell(result, result.subject))
    found = format_diagnostics([report], "text", look_of(sys.stderr, values["color"]), verbose=values["verbose"])
    return Outcome(text, found, code)


def is_code(text: str) -> bool:
    """Tell whether a text is meant as a code; no layout begins so."""
    return text[:2].upper() == "PP" and text[2:].isascii() and text[2:].isdigit()


def _explain_code(code: str) -> Outcome:
    from ppdsl.catalog import all_rules  # noqa: PLC0415 -- a layout is explained without the rules

    rules = all_rules()
    if code not in rules:
        from difflib import get_close_matches  # noqa: PLC0415 -- needed only for a wrong code

        near = get_close_matches(code, rules, 1, 0)
        refuse(f"no such code {code[:20]}, the nearest is {near[0]}")
    return Outcome("".join(f"{line}\n" for line in _explain_rule(rules[code])))


def _explain_rule(rule: Rule) -> Iterator[str]:
    from textwrap import wrap  # noqa: PLC0415 -- the same

    yield f"{rule.code}: {rule.title} ({rule.severity})"
    yield ""
    yield from wrap(rule.text, _WIDTH, break_long_words=False, break_on_hyphens=False)
    yield ""
    yield "wrong:"
    yield f"  ppdsl {rule.wrong}"
    yield "right:"
    yield f"  ppdsl {rule.right}"
    for name, content in (rule.files or {}).items():
        yield f"with {name}:"
        yield from (f"  {line}".rstrip() for line in content.splitlines())
    if rule.stdin is not None:
        yield "with this on standard input:"
        yield from (f"  {line}".rstrip() for line in rule.stdin.splitlines())
