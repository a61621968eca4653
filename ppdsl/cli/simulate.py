"""``ppdsl simulate``: what a step takes, and where its time and memory go, without running anything."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from ppdsl._version import __version__
from ppdsl.cli.assumptions import assumption_options, list_read, read_assumptions
from ppdsl.cli.exits import DONE, exit_code
from ppdsl.cli.figures import list_ranks, name_run, tell
from ppdsl.cli.inputs import read_inputs
from ppdsl.cli.options import (
    ALIASES_NOTE,
    color_option,
    document_option,
    help_option,
    layout_inputs,
    severity_options,
    size_options,
)
from ppdsl.cli.output import Outcome, look_of
from ppdsl.cli.reports import format_diagnostics
from ppdsl.cli.simulations import run_simulation
from ppdsl.cli.singles import check_single, planned, refuse_layout, require_sizes
from ppdsl.compiling import plan_of
from ppdsl.simulation.stalls import list_stalls

if TYPE_CHECKING:
    from collections.abc import Iterator

    from typing_extensions import Unpack

    from ppdsl.cli.assumptions import AssumedValues
    from ppdsl.cli.output import Look
    from ppdsl.cli.simulations import Simulation

    class SimulateValues(AssumedValues, total=False):
        """The values of the options that only this command has."""

        trace: str | None
        svg: str | None
        html: str | None
        gantt: bool | None


_WIDTH = 100


@click.command("simulate", epilog=ALIASES_NOTE)
@layout_inputs
@size_options
@assumption_options
@click.option("--trace", metavar="FILE", help="Write a Chrome trace, which Perfetto opens.")
@click.option("--svg", metavar="FILE", help="Write a picture.")
@click.option("--html", metavar="FILE", help="Write a page with the picture to zoom into, and all figures.")
@click.option("--gantt/--no-gantt", default=None, help="Draw the schedule as text; by default on a terminal.")
@document_option
@color_option
@severity_options
@help_option
def command(**values: Unpack[SimulateValues]) -> Outcome:
    """Say what a step takes: its time, its bubble, each rank's load and peak memory, and what decides the time.

    The schedule's program is made and proved first. --pp, unless the stages have owners, and --microbatches are needed.
    """
    _refuse_overwriting(values)
    inputs = read_inputs(values)
    report = check_single(inputs)
    assumptions = read_assumptions(values, planned(report))
    if isinstance(assumptions, tuple):
        report = report.with_faults(assumptions)
    report = require_sizes(report, "a simulation", microbatches=True)
    code = exit_code(report.diagnostics, warn_error=values["warn_error"])
    if code != DONE or report.result is None or isinstance(assumptions, tuple):
        return refuse_layout(report, inputs, values, code)
    simulation = run_simulation(plan_of(report.result), report.result.options, assumptions)
    warnings = format_diagnostics([report], "text", look_of(sys.stderr, values["color"]), verbose=values["verbose"])
    for path, text in _draw(simulation, values):
        from ppdsl.cli.files import write_file  # noqa: PLC0415 -- most simulations draw nothing

        write_file(path, text)
    if values["output_format"] == "json":
        from ppdsl.cli.documents import dump  # noqa: PLC0415 -- json is loaded for those who ask for it

        return Outcome(dump(_document(simulation)), warnings)
    look = look_of(sys.stdout, values["color"])
    return Outcome("".join([*tell(simulation, look), *_draw_gantt(simulation, values["gantt"], look)]), warnings)


def _refuse_overwriting(values: SimulateValues) -> None:
    """Refuse two pictures in one file, and one in place of what is read."""
    pictures = [("--trace", values["trace"]), ("--svg", values["svg"]), ("--html", values["html"])]
    if any(path is not None for _, path in pictures):
        from ppdsl.cli.files import refuse_overwriting  # noqa: PLC0415 -- most simulations draw nothing

        refuse_overwriting(list_read(values), pictures)


def _document(simulation: Simulation) -> dict[str, object]:
    """Give the report, and what it is based on."""
    assumptions, document = simulation.assumptions, simulation.report.to_json()
    return {
        "schema_version": document.pop("schema_version"),
        "ppdsl_version": __version__,
        **document,
        "pp": simulation.plan.pp,
        "vpp": simulation.plan.vpp,
        "placement": simulation.plan.placement,
        "costs_from": assumptions.origin,
        "depth": assumptions.depth,
        "memory_limit_bytes": assumptions.costs.memory_limit_bytes,
        "stalls": [stall.to_json() for stall in list_stalls(simulation.schedule, simulation.report.timing)],
    }


def _draw(simulation: Simulation, values: SimulateValues) -> Iterator[tuple[str, str]]:
    """Draw what is asked for; give paths and texts."""
    schedule, timing = simulation.schedule, simulation.report.timing
    if values["trace"] is not None:
        yield values["trace"], _trace(simulation)
    if values["svg"] is not None:
        from ppdsl.drawing import draw_svg  # noqa: PLC0415 -- drawn only where asked for

        yield values["svg"], draw_svg(schedule, timing, f"{simulation.plan.layout}: {_caption(simulation)}")
    if values["html"] is not None:
        from ppdsl.drawing import draw_page  # noqa: PLC0415 -- the same

        columns, *rows = list_ranks(simulation.report)
        page = draw_page(schedule, timing, title=simulation.plan.layout, facts=_caption(simulation), columns=columns, rows=rows)
        yield values["html"], page


def _trace(simulation: Simulation) -> str:
    from json import dumps  # noqa: PLC0415 -- drawn only where asked for

    from ppdsl.drawing import chrome_trace  # noqa: PLC0415 -- the same
    from ppdsl.simulation import follow_memory  # noqa: PLC0415 -- the same

    plan, schedule, _, assumptions, report = simulation
    known = any(rank.peak_memory for rank in report.ranks)
    memory = follow_memory(plan, schedule, assumptions.costs, report) if known else None
    return dumps(chrome_trace(schedule, report.timing, memory), separators=(",", ":")) + "\n"


def _caption(simulation: Simulation) -> str:
    from ppdsl.drawing.axes import say_time  # noqa: PLC0415 -- drawn only where asked for

    report = simulation.report
    return f"{name_run(simulation)}; {say_time(report.makespan)} ms, bubble {report.bubble_ratio_makespan:.1%}"


def _draw_gantt(simulation: Simulation, wanted: bool | None, look: Look) -> Iterator[str]:  # noqa: FBT001 -- what an option says
    if wanted is None:
        wanted = look.width is not None
    if wanted:
        from ppdsl.drawing import draw_gantt  # noqa: PLC0415 -- drawn only where asked for

        yield f"\n{draw_gantt(simulation.schedule, simulation.report.timing, look.width or _WIDTH, color=look.color)}\n"
