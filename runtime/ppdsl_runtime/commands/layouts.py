"""Which layout a run has: written in any form of the language, found in a launch file, or compiled before."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, NamedTuple, cast

from ppdsl.cli.exits import DONE, exit_code
from ppdsl.cli.inputs import read_inputs
from ppdsl.cli.options import refuse
from ppdsl.cli.output import look_of
from ppdsl.cli.reports import format_diagnostics
from ppdsl.cli.singles import check_single, refuse_layout, require_sizes
from ppdsl.compiling import plan_of
from ppdsl.lowering import lower
from ppdsl.proving import verify
from ppdsl.schedules import make_schedule
from ppdsl_runtime.commands.plans import read_compiled
from ppdsl_runtime.commands.program import RefusedError
from ppdsl_runtime.models import check_plan

if TYPE_CHECKING:
    from ppdsl import Plan
    from ppdsl.cli.options import Values
    from ppdsl.lowering import Program
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
        warnings: What is said of the layout, which is valid all the same.
    """

    plan: Plan
    program: Program
    warnings: str = ""


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
    if ranks > 1 and "-" in (*values["layouts"], *values["launch_files"]):
        refuse("standard input is shared by all ranks, so the layout cannot come from it")
    path = values.get("plan")
    return _follow_written(values, shape, ranks) if path is None else _follow_compiled(values, path, shape, ranks)


def _follow_written(values: LayoutValues, shape: ModelShape, ranks: int) -> Laid:
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
    plan, options = plan_of(report.result), report.result.options
    _check_sizes(plan, shape, ranks)
    program = _make_program(values, plan, options.microbatches or 1, options.microbatch_group_size)
    return Laid(plan, _prove(program, "the layout's program"), warnings)


def _follow_compiled(values: LayoutValues, path: str, shape: ModelShape, ranks: int) -> Laid:
    """Take what was compiled before. It is proved again: a file may have been changed."""
    plan, program = read_compiled(path, values)
    _check_sizes(plan, shape, ranks)
    if program is None:
        program = _make_program(values, plan, _count_microbatches(values, plan.pp), values["microbatch_group_size"])
    elif values["batch"] is None:
        _check_count(program.microbatches, values["global_batch_size"])
    elif _count_microbatches(values, plan.pp) != program.microbatches:
        sequences = f"{values['global_batch_size']} sequences by {values['batch']} (--batch)"
        raise RefusedError(f"error: {sequences} are not the {program.microbatches} microbatches that the program of {path} has")
    return Laid(plan, _prove(program, f"the program of {path}"))


def _make_program(values: LayoutValues, plan: Plan, microbatches: int, group: int | None) -> Program:
    depth = values.get("depth")
    try:
        return lower(make_schedule(plan, values["schedule"], microbatches, group=group), 1 if depth is None else depth)
    except ValueError as error:
        refuse(str(error))


def _count_microbatches(values: LayoutValues, pp: int) -> int:
    """Give the number of microbatches of a step: as typed, or twice pp, or as many as there are sequences."""
    sequences, size = values["global_batch_size"], values["batch"]
    if size is None:
        return _check_count(min(2 * pp, sequences) if values["microbatches"] is None else values["microbatches"], sequences)
    if size < 1:
        refuse(f"--batch is {size}, not an integer from 1")
    if sequences % size or values["microbatches"] not in {None, sequences // size}:
        refuse(f"--global-batch-size is {sequences}, which is not --microbatches times --batch = {size}")
    return sequences // size


def _check_count(microbatches: int, sequences: int) -> int:
    """Give a number of microbatches as it is; a program of too many is never made."""
    if microbatches > sequences:
        raise RefusedError(f"error: {microbatches} microbatches cannot be made of {sequences} sequences (--global-batch-size)")
    return microbatches


def _check_sizes(plan: Plan, shape: ModelShape, ranks: int) -> None:
    try:
        check_plan(plan, shape)
    except ValueError as error:
        raise RefusedError(f"error: {error}") from None
    if plan.pp != ranks:
        raise RefusedError(f"error: the layout has {plan.pp} pipeline ranks, the run has {ranks} (torchrun --nproc-per-node)")


def _prove(program: Program, what: str) -> Program:
    verdict = verify(program, queues=1, pairs=True)
    if not verdict.proved:
        verdict = verify(program)  # a program made elsewhere may need a queue for each channel
    if not verdict.proved:
        raise RefusedError(f"error: {what} is not proved: {verdict.faults[0].message}")
    return program
