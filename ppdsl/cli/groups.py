"""What the programs of this project have in common: commands that are loaded when they are asked for, and their version."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

import click

from ppdsl._version import __version__
from ppdsl.cli.options import Shown

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import ClassVar

    from ppdsl.cli.options import Function


class LazyGroup(click.Group):
    """A group whose commands are modules, loaded by name.

    Attributes:
        names: The commands, in the order of the help.
        package: Where the module X holds the command X as ``command``.
    """

    names: ClassVar[tuple[str, ...]] = ()
    package: ClassVar[str] = ""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Give the names of the commands."""
        del ctx
        return [*self.names]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Load a command; None where there is none of that name."""
        del ctx
        if cmd_name not in self.names:
            return None
        command: click.Command = import_module(f"{self.package}.{cmd_name}").command
        return command


def version_option(program: str) -> Callable[[Function], Function]:
    """Make the option that shows the version of a program."""

    def show(context: click.Context, parameter: click.Parameter, value: bool) -> None:  # noqa: FBT001 -- click's signature
        del parameter
        if value and not context.resilient_parsing:
            raise Shown(f"{program} {__version__}")

    return click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=show, help="Show the version and exit.")
