"""The program: its commands, each loaded when it is asked for, and what becomes of errors."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from ppdsl.cli.exits import DONE, FAULT, INTERRUPTED
from ppdsl.cli.groups import LazyGroup, version_option
from ppdsl.cli.options import Shown, help_option, normalize_name
from ppdsl.cli.output import Outcome, write

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

COMMANDS = ("check", "fmt", "compile", "explain", "diff", "simulate", "suggest", "schema", "completion")
"""The commands, in the order of the help; ``ppdsl.cli.X`` holds the command X as ``command``."""


class Program(LazyGroup):
    """The commands of ``ppdsl``."""

    names = COMMANDS
    package = "ppdsl.cli"

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that is asked for; the name of one that does not exist is answered with the nearest."""
        name = args[0]
        if name not in COMMANDS and not name.startswith("-"):
            ctx.fail(f"no such command '{name}'{_nearest(name)}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> object:
        """Run the command. An interrupt ends it without a word."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise click.exceptions.Exit(INTERRUPTED) from None


def _nearest(name: str) -> str:
    from difflib import get_close_matches  # noqa: PLC0415 -- needed only for a wrong name

    near = get_close_matches(name, COMMANDS, 1)
    return f", did you mean '{near[0]}'?" if near else ""


@click.group(cls=Program, no_args_is_help=False, context_settings={"token_normalize_func": normalize_name, "max_content_width": 100})
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
    return write(_answer(list(arguments), os.environ))


def _answer(arguments: list[str], environment: Mapping[str, str]) -> Outcome:
    try:
        result = program.main(arguments, "ppdsl", standalone_mode=False)
    except Shown as shown:
        return Outcome(f"{shown}\n")
    except click.UsageError as error:
        from ppdsl.cli.refusals import refuse_usage  # noqa: PLC0415 -- most commands are typed without a fault

        return refuse_usage(error, arguments, " ".join(["ppdsl", *(name for name in arguments[:1] if name in COMMANDS)]))
    except click.Abort:
        return Outcome(exit_code=INTERRUPTED)
    except Exception as error:  # noqa: BLE001 -- the last line of defence: a fault of ppdsl must not look like an invalid layout
        return _report_fault(error, environment)
    if isinstance(result, Outcome):
        return result
    return Outcome(exit_code=result if isinstance(result, int) else DONE)


def _report_fault(error: Exception, environment: Mapping[str, str]) -> Outcome:
    from ppdsl.rendering.characters import visible  # noqa: PLC0415 -- needed only for a fault

    name = f"{type(error).__name__}: {error}".partition("\n")[0][:200]
    text = f"error: a fault of ppdsl ({visible(name)}); please report it with the command; PPDSL_DEBUG=1 shows the traceback\n"
    if environment.get("PPDSL_DEBUG") == "1":
        from traceback import format_exception  # noqa: PLC0415 -- the same

        text = "".join(format_exception(error)) + text
    return Outcome(stderr=text, exit_code=FAULT)
