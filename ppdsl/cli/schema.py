"""``ppdsl schema``: the JSON Schema of an output, or of the costs file."""

from __future__ import annotations

import click

from ppdsl.cli.documents import dump
from ppdsl.cli.options import help_option
from ppdsl.cli.output import Outcome
from ppdsl.schemas import NAMES, schema_for


@click.command("schema")
@click.argument("output", type=click.Choice(NAMES))
@help_option
def command(output: str) -> Outcome:
    """Print the JSON Schema of what check, compile (its plan), simulate or suggest prints, or of a costs file."""
    return Outcome(dump(schema_for(output)))
