"""The program: its commands, each loaded when it is asked for, and what becomes of errors."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

import click

from ppdsl._version import __version__
from ppdsl.cli.exits import DONE, INTERRUPTED
from ppdsl.cli.options import Shown, help_option, normalize_name
from ppdsl.cli.output import Outcome, write
from ppdsl.cli.refusals import refuse_usage

if TYPE_CHECKING:
    from collections.abc import Sequence

COMMANDS = ("train", "reference", "compare", "profile")
"""The commands, in the order of the help; ``ppdsl_runtime.commands.X`` holds the command X as ``command``."""

_NAME = "python -m ppdsl_runtime"


class RefusedError(Exception):
    """A run that cannot be made; its text says why, in one line or more."""

    def __init__(self, text: str, exit_code: int = 2) -> None:
        super().__init__(text)
        self.exit_code = exit_code


class Program(click.Group):
    """A group whose commands are modules, loaded by name."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Give the names of the commands."""
        del ctx
        return [*COMMANDS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Load a command; None where there is none of that name."""
        del ctx
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(f"ppdsl_runtime.commands.{cmd_name}").command
        return command


def _show_version(context: click.Context, parameter: click.Parameter, value: bool) -> None:  # noqa: FBT001 -- click's signature
    del parameter
    if value and not context.resilient_parsing:
        raise Shown(f"ppdsl_runtime {__version__}")


@click.group(cls=Program, no_args_is_help=False, context_settings={"token_normalize_func": normalize_name, "max_content_width": 100})
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=_show_version, help="Show the version and exit.")
@help_option
def program() -> None:
    """Train GPT-2 and LLaMA under any pipeline layout, beside one process to compare with."""


def run(arguments: Sequence[str]) -> int:
    """Run a command and write what comes of it.

    Args:
        arguments: What stands behind the program's name.

    Returns:
        The exit code. A fault of a rank inside a run is raised, so that its traceback is seen.
    """
    return write(_answer(list(arguments)))


def _answer(arguments: list[str]) -> Outcome:
    try:
        result = program.main(arguments, _NAME, standalone_mode=False)
    except Shown as shown:
        return Outcome(f"{shown}\n")
    except RefusedError as error:
        return Outcome(stderr=f"{error}\n" if str(error) else "", exit_code=error.exit_code)
    except click.UsageError as error:
        return refuse_usage(error, arguments, " ".join([_NAME, *(name for name in arguments[:1] if name in COMMANDS)]))
    except (click.Abort, KeyboardInterrupt):
        return Outcome(exit_code=INTERRUPTED)
    if isinstance(result, Outcome):
        return result
    return Outcome(exit_code=result if isinstance(result, int) else DONE)
