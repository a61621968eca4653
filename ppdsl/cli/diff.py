"""``ppdsl diff``: which layers move from one layout to another, and what that does to the ranks."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from ppdsl._version import __version__
from ppdsl.cli.assumptions import assumption_options, read_assumptions
from ppdsl.cli.comparing import compare
from ppdsl.cli.exits import DONE, INVALID, exit_code
from ppdsl.cli.inputs import read_text
from ppdsl.cli.options import ALIASES_NOTE, color_option, compile_options, document_option, help_option, size_options
from ppdsl.cli.output import Outcome, look_of
from ppdsl.cli.reports import check_entry, format_diagnostics
from ppdsl.compiling import plan_of
from ppdsl.diagnostics import LayoutError
from ppdsl.validation.subject import plural

if TYPE_CHECKING:
    from collections.abc import Iterator

    from typing_extensions import Unpack

    from ppdsl.cli.assumptions import AssumedValues
    from ppdsl.cli.comparing import Comparison, Move, Place
    from ppdsl.cli.inputs import Entry
    from ppdsl.cli.reports import Report
    from ppdsl.cli.simulations import Simulation
    from ppdsl.planning import Plan

    Simulations = tuple[Simulation, Simulation]

    class DiffValues(AssumedValues, total=False):
        """The values of the options and arguments that only this command has."""

        before: str
        after: str


MOST_MOVES = 100
"""Moves, and ranks, that the text lists; how many more there are is said."""

_NOUNS = {"embedding": "the embedding", "final_norm": "the final norm", "loss": "the loss"}


@click.command("diff", epilog=ALIASES_NOTE)
@click.argument("before", metavar="A")
@click.argument("after", metavar="B")
@size_options
@assumption_options
@document_option
@color_option
@click.option("--warn-error", is_flag=True, help="A warning about A or B counts like an error.")
@help_option
def command(**values: Unpack[DiffValues]) -> Outcome:
    """Say which layers move from layout A to layout B. Exits with 1 if the two differ in meaning.

    With --microbatches it also says what a step takes under each, simulated, and the memory of the fullest rank.
    """
    options = compile_options(values)
    before, old = _compile(read_text(values["before"], options, "<A>"))
    after, new = _compile(read_text(values["after"], options, "<B>"))
    assumptions = read_assumptions(values, before)
    if isinstance(assumptions, tuple):
        old = old.with_faults(assumptions)
    code = max(exit_code(report.diagnostics, warn_error=values["warn_error"]) for report in (old, new))
    if code != DONE or before is None or after is None or isinstance(assumptions, tuple):
        return _refuse([old, new], values, code)
    simulations = None
    if options.microbatches is not None:
        from ppdsl.cli.simulations import run_simulation  # noqa: PLC0415 -- only with microbatches

        simulations = run_simulation(before, options, assumptions), run_simulation(after, options, assumptions)
    comparison = compare(before, after)
    code = DONE if comparison.same else INVALID
    if values["output_format"] == "json":
        from ppdsl.cli.documents import dump  # noqa: PLC0415 -- json is loaded for those who ask for it

        return Outcome(dump(_document(before, after, comparison, simulations)), "", code)
    return Outcome("".join(f"{line}\n" for line in _tell(before, after, comparison, simulations)), "", code)


def _compile(entry: Entry) -> tuple[Plan | None, Report]:
    report = check_entry(entry)
    if report.result is None:
        return None, report
    try:
        return plan_of(report.result), report
    except LayoutError as error:
        return None, report._replace(result=replace(report.result, diagnostics=error.diagnostics))


def _refuse(reports: list[Report], values: DiffValues, code: int) -> Outcome:
    """Say why two layouts cannot be compared."""
    if values["output_format"] == "json":
        from ppdsl.cli.documents import document_of, dump  # noqa: PLC0415 -- json is loaded for those who ask for it

        return Outcome(dump(document_of(reports, many=True)), "", code)
    faulty = [report for report in reports if exit_code(report.diagnostics, warn_error=values["warn_error"]) != DONE]
    return Outcome("", format_diagnostics(faulty, "text", look_of(sys.stderr, values["color"]), verbose=False), code)


def _document(before: Plan, after: Plan, comparison: Comparison, simulations: Simulations | None) -> dict[str, object]:
    document = {
        "schema_version": "1.0",
        "ppdsl_version": __version__,
        "same": comparison.same,
        "before": _plan_as_json(before),
        "after": _plan_as_json(after),
        "moves": [_move_as_json(move) for move in comparison.moves],
        "loads": [{"pp_rank": rank, "before": old, "after": new, "change": new - old} for rank, (old, new) in enumerate(comparison.loads)],
    }
    if simulations is not None:
        document["simulations"] = {name: _simulation_as_json(each) for name, each in zip(("before", "after"), simulations, strict=True)}
    return document


def _plan_as_json(plan: Plan) -> dict[str, object]:
    names = ("layout", "pp", "vpp", "placement", "num_layers", "mtp_num_layers", "fingerprint")
    return {name: getattr(plan, name) for name in names}


def _simulation_as_json(simulation: Simulation) -> dict[str, object]:
    report = simulation.report
    return {
        "schedule": report.schedule,
        "microbatches": report.microbatches,
        "costs_from": simulation.assumptions.origin,
        "makespan_ms": report.makespan,
        "span_ms": report.span,
        "bubble_ratio": report.bubble_ratio,
        "bubble_ratio_makespan": report.bubble_ratio_makespan,
        "peak_memory_bytes": [rank.peak_memory for rank in report.ranks],
    }


def _move_as_json(move: Move) -> dict[str, object]:
    places = {name: {"pp_rank": rank, "vpp_rank": chunk} for name, (rank, chunk) in (("before", move.before), ("after", move.after))}
    return {"kind": move.kind, "layers": list(move.layers), **places}


def _tell(before: Plan, after: Plan, comparison: Comparison, simulations: Simulations | None) -> Iterator[str]:
    if comparison.same:
        yield "no difference in meaning"
        return
    for name, old, new in (
        ("decoder layers", before.num_layers, after.num_layers),
        ("MTP layers", before.mtp_num_layers, after.mtp_num_layers),
        ("stages", len(before.chunks), len(after.chunks)),
        ("pp", before.pp, after.pp),
        ("vpp", before.vpp, after.vpp),
        ("placement", before.placement, after.placement),
    ):
        if old != new:
            yield f"{name}: {old} -> {new}"
    common = min(before.num_layers, after.num_layers)
    moved, shifted = comparison.moved("decoder"), comparison.shifted("decoder")
    chunks = f", to another chunk of their rank: {shifted:,}" if shifted else ""
    yield f"to another rank: {moved:,} of {plural(common, 'decoder layer')}{chunks}"
    for move in comparison.moves[:MOST_MOVES]:
        yield f"  {_tell_layers(move)}: {_tell_place(move.before)} -> {_tell_place(move.after)}"
    if len(comparison.moves) > MOST_MOVES:
        yield f"  and {len(comparison.moves) - MOST_MOVES:,} more moves"
    yield from _tell_loads(comparison)
    if simulations is not None:
        from ppdsl.cli.figures import tell_changes  # noqa: PLC0415 -- only with microbatches

        yield from tell_changes(*simulations)


def _tell_layers(move: Move) -> str:
    if move.kind in _NOUNS:
        return _NOUNS[move.kind]
    noun = "decoder layer" if move.kind == "decoder" else "MTP layer"
    first, stop = move.layers
    return f"{noun} {first:,}" if stop - first == 1 else f"{noun}s {first:,} to {stop - 1:,}"


def _tell_place(place: Place) -> str:
    return f"rank {place[0]:,} chunk {place[1]:,}"


def _tell_loads(comparison: Comparison) -> Iterator[str]:
    """Give the ranks whose number of decoder layers changes."""
    changed = [(rank, old, new) for rank, (old, new) in enumerate(comparison.loads) if old != new]
    if not changed:
        yield "each rank has as many decoder layers as before"
        return
    yield "decoder layers of each rank that changes:"
    for rank, old, new in changed[:MOST_MOVES]:
        yield f"  rank {rank:,}: {old:,} -> {new:,} ({new - old:+,})"
    if len(changed) > MOST_MOVES:
        yield f"  and {len(changed) - MOST_MOVES:,} more ranks"
    heaviest = [max(loads) for loads in zip(*comparison.loads, strict=True)]
    yield f"the heaviest rank: {heaviest[0]:,} -> {heaviest[1]:,}"
