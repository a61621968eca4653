"""The program: its commands, each loaded when it is asked for, and what becomes of errors."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from ppdsl.cli.exits import FAULT
from ppdsl.cli.groups import LazyGroup, version_option
from ppdsl.cli.options import help_option, normalize_name
from ppdsl.cli.output import Outcome, write

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

COMMANDS = ("check", "fmt", "compile", "explain", "diff", "simulate", "suggest", "schema", "completion")
"""The commands, in the order of the help; ``ppdsl.cli.X`` holds the command X as ``command``."""


class Program(LazyGroup):
    """The commands of ``ppdsl``."""

    names = COMMANDS
    package = "ppdsl.cli"


@click.group(
    "ppdsl", cls=Program, no_args_is_help=False, context_settings={"token_normalize_func": normalize_name, "max_content_width": 100}
)
@version_option("ppdsl")
@help_option
def program() -> None:
    """Check, format, explain, compile and simulate pipeline layouts such as 'Et*3||t*3|t*6NL'."""


def run(arguments: Sequence[str]) -> int:
    """Run ``ppdsl`` and write what comes of it.

    Args:
        arguments: What stands behind the program's name.

    Returns:
        The exit code.
    """
    try:
        outcome = program.answer(arguments)
    except Exception as error:  # noqa: BLE001 -- the last line of defence: a fault of ppdsl must not look like an invalid layout
        outcome = _report_fault(error, os.environ)
    return write(outcome)


def _report_fault(error: Exception, environment: Mapping[str, str]) -> Outcome:
    from ppdsl.rendering.characters import visible  # noqa: PLC0415 -- needed only for a fault

    name = f"{type(error).__name__}: {error}".partition("\n")[0][:200]
    text = f"error: a fault of ppdsl ({visible(name)}); please report it with the command; PPDSL_DEBUG=1 shows the traceback\n"
    if environment.get("PPDSL_DEBUG") == "1":
        from traceback import format_exception  # noqa: PLC0415 -- the same

        text = "".join(format_exception(error)) + text
    return Outcome(stderr=text, exit_code=FAULT)
