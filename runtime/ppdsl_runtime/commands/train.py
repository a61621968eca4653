"""``train``: train a model under a layout, on the ranks that torchrun starts."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import click

from ppdsl.cli.exits import USAGE
from ppdsl.cli.files import refuse_overwriting
from ppdsl.cli.options import ALIASES_NOTE, color_option, help_option, layout_inputs, split_options
from ppdsl.cli.output import Outcome, look_of, write
from ppdsl_runtime.commands.layouts import choose_layout
from ppdsl_runtime.commands.options import model_options, pipeline_options, precision_options, run_options
from ppdsl_runtime.commands.runs import check_positive, check_writable, choose_settings, judge, refusing, running, save, speaking_once
from ppdsl_runtime.training.reports import profile_document, tell_run, trace_document
from ppdsl_runtime.training.runs import PipelineSettings, train_pipeline
from ppdsl_runtime.training.worlds import open_world, read_world

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ppdsl_runtime.commands.layouts import LayoutValues
    from ppdsl_runtime.commands.options import RunValues
    from ppdsl_runtime.training.runs import RunResult

    class TrainValues(LayoutValues, RunValues, total=False):
        """The values of the options that only this command has."""

        checkpoint_activations: bool
        timeout: float
        trace: str | None
        profile: str | None


_WIDTH = 100
_MOST_SECONDS = 1e9


@click.command("train", epilog=ALIASES_NOTE)
@layout_inputs
@split_options
@pipeline_options
@model_options
@run_options
@precision_options
@color_option
@help_option
def command(**values: Unpack[TrainValues]) -> Outcome:
    """Train GPT-2 or LLaMA under a layout.

    torchrun --nproc-per-node 2 -m ppdsl_runtime train 'Et*2|t*2NL'

    Each process is one pipeline rank. The layout is given in any form that ppdsl check reads, and checked against the model and proved free
    of deadlock before any of the model's memory is taken.
    """
    with refusing():
        world = read_world(values["device"])
    with speaking_once():
        _check_files(values)
        settings = choose_settings(values)
        laid = choose_layout(values, settings.shape, world.size)
    pipeline = PipelineSettings(laid.plan, laid.program, checkpoint=values["checkpoint_activations"], timeout=values["timeout"])
    if world.main and (code := write(Outcome(f"{laid.plan.layout}\n{laid.plan.table()}\n", laid.warnings))):
        return Outcome(exit_code=code)
    with running(world), open_world(world, values["timeout"]):
        result = train_pipeline(settings, pipeline, world)
    return _tell(values, result) if world.main else Outcome()


def _check_files(values: TrainValues) -> None:
    """Check the timeout, and the files that are written once the run is done."""
    with refusing():
        check_positive("timeout", values["timeout"], most=_MOST_SECONDS)
        for path in (values["trace"], values["profile"]):
            check_writable(path)
    files = values["layouts"] if values["files"] else ()
    read: list[tuple[str, str | None]] = [*(("--from", path) for path in values["launch_files"]), *(("--files", path) for path in files)]
    read += [("--plan", values["plan"]), ("--data", values["data"]), ("--weights", values["weights"])]
    refuse_overwriting(read, [("--jsonl", values["log"]), ("--trace", values["trace"]), ("--profile", values["profile"])])


def _tell(values: TrainValues, result: RunResult) -> Outcome:
    """Write what was measured, and tell it, written or not."""
    faults = ""
    if values["trace"] is not None:
        faults += save(values["trace"], json.dumps(trace_document(result.measured[-1])) + "\n")
    if values["profile"] is not None:
        faults += save(values["profile"], json.dumps(profile_document(result.measured), indent=2) + "\n")
    look = look_of(sys.stdout, values["color"])
    text = "".join(tell_run(result.losses, result.measured, look.width or _WIDTH, color=look.color))
    return Outcome(text, faults, USAGE if faults else judge(result.losses))
