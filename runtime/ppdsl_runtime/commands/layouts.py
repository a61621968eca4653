"""Which layout a run has: written in any form of the language, found in a launch file, or compiled before."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, cast

import click

from ppdsl import LayoutError, Plan
from ppdsl.cli.exits import DONE, exit_code
from ppdsl.cli.inputs import read_inputs
from ppdsl.cli.options import refuse
from ppdsl.cli.output import look_of
from ppdsl.cli.reports import format_diagnostics
from ppdsl.cli.singles import check_single, refuse_layout, require_sizes
from ppdsl.compiling import plan_of
from ppdsl.lowering import Program, lower, program_from_json
from ppdsl.proving import verify
from ppdsl.schedules import make_schedule
from ppdsl_runtime.commands.program import RefusedError
from ppdsl_runtime.models import check_plan

if TYPE_CHECKING:
    from ppdsl.cli.options import Values
    from ppdsl_runtime.models import ModelShape

    class LayoutValues(Values, total=False):
        """The values of the options that say how a model is laid out."""

        plan: str | None
        global_batch_size: int
        batch: int | None
        depth: int | None


class Laid(NamedTuple):
    """What a run executes.

    Attributes:
        plan: Which rank holds what.
        program: What each rank does; proved.
    """

    plan: Plan
    program: Program


def choose_layout(values: LayoutValues, shape: ModelShape, ranks: int) -> Laid:
    """Read, check, schedule and prove the layout of a run.

    Args:
        values: What was typed.
        shape: The model's sizes, which the layout has to agree with.
        ranks: Number of processes.

    Raises:
        click.UsageError: No layout is given, or more than one, or the schedule does not fit.
        RefusedError: The layout is not valid for this model and these ranks; the text has the diagnostics.
    """
    laid = _read_compiled(values, values["plan"]) if values.get("plan") is not None else _read_written(values, shape, ranks)
    try:
        check_plan(laid.plan, shape)
    except ValueError as error:
        raise RefusedError(f"error: {error}") from None
    if laid.plan.pp != ranks:
        raise RefusedError(f"error: the layout has {laid.plan.pp} pipeline ranks, the run has {ranks} (torchrun --nproc-per-node)")
    if laid.program.microbatches > values["global_batch_size"]:
        sequences = f"{values['global_batch_size']} sequences (--global-batch-size)"
        raise RefusedError(f"error: {laid.program.microbatches} microbatches cannot be made of {sequences}")
    return laid


def _count_microbatches(values: LayoutValues, pp: int) -> int:
    """Give the number of microbatches of a step: as typed, or twice pp, or as many as there are sequences."""
    sequences, size = values["global_batch_size"], values["batch"]
    if size is None:
        return min(2 * pp, sequences) if values["microbatches"] is None else values["microbatches"]
    if size < 1 or sequences % size or values["microbatches"] not in {None, sequences // size}:
        refuse(f"--global-batch-size is {sequences}, which is not --microbatches times --batch = {size}")
    return sequences // size


def _read_written(values: LayoutValues, shape: ModelShape, ranks: int) -> Laid:
    plain = {"target": None, "features": (), "output_format": "text", "warn_error": False, "verbose": False}
    filled = cast("LayoutValues", {**values, **plain})
    pp = filled["pp"] = ranks if filled["pp"] is None else filled["pp"]
    if filled["num_layers"] is None:
        filled["num_layers"] = shape.layers
    if filled["mtp_num_layers"] is None:
        filled["mtp_num_layers"] = shape.mtp_layers
    filled["microbatches"] = _count_microbatches(values, pp)
    inputs = read_inputs(filled)
    report = require_sizes(check_single(inputs), "a run", microbatches=True)
    code = exit_code(report.diagnostics)
    if code != DONE or report.result is None:
        raise RefusedError(refuse_layout(report, inputs, filled, code).stderr.rstrip("\n"), code)
    warnings = format_diagnostics([report], "text", look_of(sys.stderr, values["color"]), verbose=False)
    if warnings:
        click.echo(warnings, err=True)
    plan, options = plan_of(report.result), report.result.options
    try:
        schedule = make_schedule(plan, values["schedule"], options.microbatches or 1, group=options.microbatch_group_size)
    except ValueError as error:
        refuse(str(error))
    depth = values.get("depth")
    return Laid(plan, _prove(lower(schedule, 1 if depth is None else depth), "the layout's program"))


def _read_compiled(values: LayoutValues, path: str | None) -> Laid:
    """Read what ``ppdsl compile -o FILE`` wrote. It is proved again: a file may have been changed."""
    forms = ("layouts", "given_layout", "launch_files", "uniform", "partition", "chunks", "lists", "rank_major")
    if any(values.get(name) for name in forms):
        refuse("--plan and a layout are given; one of them is enough")
    try:
        document = json.loads(Path(path or "").read_text(encoding="utf-8"))
        scheduled = document.pop("schedule", None) if isinstance(document, dict) else None
        plan = Plan.from_json(document)
        if scheduled is not None:
            program = program_from_json(scheduled)
        else:
            batches = _count_microbatches(values, plan.pp)
            depth = values.get("depth")
            program = lower(make_schedule(plan, values["schedule"], batches), 1 if depth is None else depth)
    except LayoutError as error:
        raise RefusedError(f"error: {path} holds no valid plan\n{error}") from None
    except (OSError, ValueError) as error:
        reason = error.strerror.lower() if isinstance(error, OSError) and error.strerror else error
        raise RefusedError(f"error: cannot read the plan {path}: {reason}") from None
    if program.owners != tuple(chunk.pp_rank for chunk in plan.chunks):
        raise RefusedError(f"error: {path} holds a program for other stages than those of its plan")
    return Laid(plan, _prove(program, f"the program of {path}"))


def _prove(program: Program, what: str) -> Program:
    verdict = verify(program, queues=1, pairs=True)
    if not verdict.proved:
        verdict = verify(program)  # a program made elsewhere may need a queue for each channel
    if not verdict.proved:
        raise RefusedError(f"error: {what} is not proved: {verdict.faults[0].message}")
    return program
