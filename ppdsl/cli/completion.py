"""``ppdsl completion``: the script that makes a shell complete commands and options."""

from __future__ import annotations

import click
from click.shell_completion import ShellComplete, get_completion_class

from ppdsl.cli.options import help_option
from ppdsl.cli.output import Outcome


@click.command("completion")
@click.argument("shell", type=click.Choice(("bash", "zsh", "fish")))
@help_option
def command(shell: str) -> Outcome:
    """Print the completion script of a shell.

    For bash: eval "$(ppdsl completion bash)" in ~/.bashrc.
    """
    found = get_completion_class(shell) or ShellComplete
    root = click.get_current_context().find_root().command
    # Not the class's own source(): bash's runs bash to ask for its version, and nothing is run here.
    return Outcome(ShellComplete.source(found(root, {}, "ppdsl", "_PPDSL_COMPLETE")))
