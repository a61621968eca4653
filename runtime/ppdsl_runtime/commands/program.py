"""The program: its commands, each loaded when it is asked for, and what becomes of errors."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import click

from ppdsl.cli.exits import FAULT
from ppdsl.cli.groups import LazyGroup, version_option
from ppdsl.cli.options import help_option, normalize_name
from ppdsl.cli.output import Outcome, write

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


def speaks() -> bool:
    """Whether this rank is the one that speaks for its host, of what all ranks find in what was typed; a process that is alone is."""
    return "RANK" not in os.environ or os.environ.get("LOCAL_RANK", "0") == "0"


class Program(LazyGroup):
    """The commands of ``python -m ppdsl_runtime``."""

    names = COMMANDS
    package = "ppdsl_runtime.commands"


@click.group(_NAME, cls=Program, no_args_is_help=False, context_settings={"token_normalize_func": normalize_name, "max_content_width": 100})
@version_option("ppdsl_runtime")
@help_option
def program() -> None:
    """Train GPT-2 and LLaMA under any pipeline layout, beside one process to compare with."""


def run(arguments: Sequence[str]) -> int:
    """Run a command and write what comes of it.

    Args:
        arguments: What stands behind the program's name.

    Returns:
        The exit code.
    """
    try:
        outcome = program.answer(arguments, silent=not speaks())
    except RefusedError as error:
        outcome = Outcome(stderr=f"{error}\n" if str(error) else "", exit_code=error.exit_code)
    except Exception as error:  # noqa: BLE001 -- a fault must not look like two runs that differ; its traceback is shown whole
        sys.excepthook(type(error), error, error.__traceback__)
        outcome = Outcome(exit_code=FAULT)
    return write(outcome)
