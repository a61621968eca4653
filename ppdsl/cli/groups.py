"""What the programs of this project have in common: commands that are loaded when they are asked for, and what comes of one."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

import click

from ppdsl._version import __version__
from ppdsl.cli.exits import DONE, INTERRUPTED
from ppdsl.cli.options import Shown
from ppdsl.cli.output import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
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

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that is asked for; the name of one that does not exist is answered with the nearest."""
        name = args[0]
        if name not in self.names and not name.startswith("-"):
            ctx.fail(f"no such command '{name}'{self._nearest(name)}")
        return super().resolve_command(ctx, args)

    def _nearest(self, name: str) -> str:
        from difflib import get_close_matches  # noqa: PLC0415 -- needed only for a wrong name

        near = get_close_matches(name, self.names, 1)
        return f", did you mean '{near[0]}'?" if near else ""

    def invoke(self, ctx: click.Context) -> object:
        """Run the command. An interrupt ends it without a word."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise click.exceptions.Exit(INTERRUPTED) from None

    def answer(self, arguments: Sequence[str], *, silent: bool = False) -> Outcome:
        """Run what was typed, and give what comes of it.

        Args:
            arguments: What stands behind the program's name, which is the group's.
            silent: Whether another process answers wrong usage, and shows help and version.

        Raises:
            Exception: What is no usage error, as the command raised it.
        """
        program = self.name or ""
        try:
            result = self.main([*arguments], program, standalone_mode=False)
        except Shown as shown:
            return Outcome("" if silent else f"{shown}\n")
        except click.UsageError as error:
            if silent:
                return Outcome(exit_code=error.exit_code)
            from ppdsl.cli.refusals import refuse_usage  # noqa: PLC0415 -- most commands are typed without a fault

            return refuse_usage(error, arguments, " ".join([program, *(name for name in arguments[:1] if name in self.names)]))
        except click.Abort:
            return Outcome(exit_code=INTERRUPTED)
        if isinstance(result, Outcome):
            return result
        return Outcome(exit_code=result if isinstance(result, int) else DONE)


def version_option(program: str) -> Callable[[Function], Function]:
    """Make the option that shows the version of a program."""

    def show(context: click.Context, parameter: click.Parameter, value: bool) -> None:  # noqa: FBT001 -- click's signature
        del parameter
        if value and not context.resilient_parsing:
            raise Shown(f"{program} {__version__}")

    return click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=show, help="Show the version and exit.")
