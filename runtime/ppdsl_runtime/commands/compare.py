"""``compare``: whether two runs agree."""

from __future__ import annotations

import json

import click

from ppdsl.cli.assumptions import Quantity
from ppdsl.cli.exits import DONE, INVALID
from ppdsl.cli.options import document_option, help_option
from ppdsl.cli.output import Outcome
from ppdsl_runtime.commands.options import Place
from ppdsl_runtime.commands.runs import check_positive, refusing
from ppdsl_runtime.comparing import compare_runs


@click.command("compare")
@click.argument("first", type=Place())
@click.argument("second", type=Place())
@click.option("--atol", type=Quantity(), default="1e-5", metavar="X", help="Absolute difference that is allowed. [default: 1e-5]")
@click.option("--rtol", type=Quantity(), default="0", metavar="X", help="Relative difference that is allowed. [default: 0]")
@document_option
@help_option
def command(first: str, second: str, atol: float, rtol: float, output_format: str) -> Outcome:
    """Compare the losses and the gradients of two runs: logs, or folders with logs and dumped gradients.

    The exit code is 1 where something is missing or differs by more than --atol plus --rtol times the larger value.
    """
    with refusing():
        check_positive("atol", atol, zero=True)
        check_positive("rtol", rtol, zero=True)
        comparison = compare_runs(first, second)
    equal = comparison.within(atol, rtol)
    if output_format == "json":
        text = json.dumps({"equal": equal, "atol": atol, "rtol": rtol, **comparison.to_json()}, indent=2)
    else:
        text = comparison.to_text(atol, rtol)
    return Outcome(f"{text}\n", exit_code=DONE if equal else INVALID)
