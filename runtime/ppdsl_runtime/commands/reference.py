"""``reference``: the same run in one process."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ppdsl.cli.files import refuse_overwriting
from ppdsl.cli.options import help_option
from ppdsl.cli.output import Outcome
from ppdsl_runtime.commands.options import model_options, precision_options, run_options
from ppdsl_runtime.commands.runs import choose_settings, judge, refusing, running, speaking_once
from ppdsl_runtime.failure.signals import unblock_termination
from ppdsl_runtime.training.references import train_reference
from ppdsl_runtime.training.worlds import read_world

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ppdsl_runtime.commands.options import RunValues

    class ReferenceValues(RunValues, total=False):
        """The values of the options that only this command has."""

        parts: int


@click.command("reference")
@model_options
@run_options
@precision_options
@click.option("--microbatches", "parts", type=click.IntRange(1), default=1, metavar="N", help="Parts in which a batch is run. [default: 1]")
@help_option
def command(**values: Unpack[ReferenceValues]) -> Outcome:
    """Train the same model on the same data in one process, by a plain loop, to compare with.

    --microbatches matters for dropout, which every microbatch draws anew, and for memory.
    """
    with refusing():
        world = read_world(values["device"])
    with speaking_once(), refusing():
        if world.size > 1:
            raise ValueError(f"the reference is one process, but {world.size} were started")
        refuse_overwriting([("--data", values["data"]), ("--weights", values["weights"])], [("--jsonl", values["log"])])
        settings = choose_settings(values)
        if values["parts"] > settings.batches.batch:
            raise ValueError(f"{values['parts']} microbatches cannot be made of {settings.batches.batch} sequences (--global-batch-size)")
    unblock_termination()
    with running(world):
        losses = train_reference(settings, world.device, values["parts"])
    return Outcome(f"loss {losses[0]:.6f} at step 1, {losses[-1]:.6f} at step {len(losses)}\n", exit_code=judge(losses))
