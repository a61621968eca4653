"""``train``: train a model under a layout, on the ranks that torchrun starts."""

from __future__ import annotations

import json
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ppdsl.cli.options import ALIASES_NOTE, color_option, help_option, layout_inputs, split_options
from ppdsl.cli.output import Outcome, look_of
from ppdsl_runtime.commands.layouts import choose_layout
from ppdsl_runtime.commands.options import model_options, pipeline_options, precision_options, run_options
from ppdsl_runtime.commands.program import RefusedError
from ppdsl_runtime.commands.runs import check_positive, check_writable, choose_settings, refusing
from ppdsl_runtime.training.reports import profile_document, tell_run, trace_document
from ppdsl_runtime.training.runs import PipelineSettings, train_pipeline
from ppdsl_runtime.training.worlds import open_world, read_world

if TYPE_CHECKING:
    from collections.abc import Iterator

    from typing_extensions import Unpack

    from ppdsl_runtime.commands.layouts import LayoutValues
    from ppdsl_runtime.commands.options import RunValues
    from ppdsl_runtime.training.runs import RunResult
    from ppdsl_runtime.training.worlds import World

    class TrainValues(LayoutValues, RunValues, total=False):
        """The values of the options that only this command has."""

        checkpoint_activations: bool
        timeout: float
        trace: str | None
        profile: str | None


_WIDTH = 100


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
    r"""Train GPT-2 or LLaMA under a layout.

    \b
    torchrun --nproc-per-node 2 -m ppdsl_runtime train 'Et*3||t*3|t*6NL' --model gpt2-tiny,layers=12

    Each process is one pipeline rank. The layout is given in any form that ppdsl check reads, and checked against the model and proved free
    of deadlock before any of the model's memory is taken.
    """
    with refusing():
        world = read_world(values["device"])
    with _speaking_once(world):
        settings = choose_settings(values)
        laid = choose_layout(values, settings.shape, world.size)
        with refusing():
            check_positive("timeout", values["timeout"])
            for path in (values["trace"], values["profile"]):
                check_writable(path)
    pipeline = PipelineSettings(laid.plan, laid.program, checkpoint=values["checkpoint_activations"], timeout=values["timeout"])
    if world.main:
        click.echo(f"{laid.plan.layout}\n{laid.plan.table()}")
    with open_world(world, values["timeout"]):
        result = train_pipeline(settings, pipeline, world)
    return _tell(values, result) if world.main else Outcome()


@contextmanager
def _speaking_once(world: World) -> Iterator[None]:
    """Let the main rank alone say what all ranks find; they were all given the same."""
    try:
        yield
    except (RefusedError, click.UsageError) as error:
        if world.main:
            raise
        raise RefusedError("", error.exit_code) from None


def _tell(values: TrainValues, result: RunResult) -> Outcome:
    """Write what was measured, and tell it."""
    if values["trace"] is not None and result.measured:
        Path(values["trace"]).write_text(json.dumps(trace_document(result.measured[-1])) + "\n", encoding="utf-8")
    if values["profile"] is not None and result.measured:
        Path(values["profile"]).write_text(json.dumps(profile_document(result.measured), indent=2) + "\n", encoding="utf-8")
    look = look_of(sys.stdout, values["color"])
    return Outcome("".join(tell_run(result.losses, result.measured, look.width or _WIDTH, color=look.color)))
