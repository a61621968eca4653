"""``ppdsl suggest``: the best layout for given costs, and how far from the best it can be at most."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from ppdsl.cli.assumptions import read_assumptions
from ppdsl.cli.exits import DONE, INTERRUPTED, INVALID
from ppdsl.cli.options import ALIASES_NOTE, color_option, document_option, help_option, number, refuse
from ppdsl.cli.output import Outcome, look_of
from ppdsl.cli.searches import read_problem, search_options
from ppdsl.cli.simulations import InfeasibleError, Simulation, require_proof
from ppdsl.cli.suggestions import Suggestion, describe, rival_of, tell_suggestion
from ppdsl.drawing.axes import say_time
from ppdsl.lowering import lower
from ppdsl.simulation import simulate
from ppdsl.suggesting import NoLayoutError, suggest, trade_memory

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import Unpack

    from ppdsl.cli.assumptions import Assumptions
    from ppdsl.cli.searches import SearchValues
    from ppdsl.compiling import CheckResult
    from ppdsl.suggesting import Answer, Problem

    class SuggestValues(SearchValues, total=False):
        """The values of the options that only this command has."""

        compare: str | None
        pareto: bool
        time_limit: int | None


_MOST_SECONDS = 10**6


@click.command("suggest", epilog=ALIASES_NOTE)
@search_options
@click.option(
    "--compare", metavar="LAYOUT", help="Say how a layout of yours does beside it. A trace given as --costs is that of this layout."
)
@click.option("--pareto", is_flag=True, help="List step time against peak memory, too; the schedule auto is made for the memory beside it.")
@number("--time-limit", "Search so many seconds at most; without it the same question has the same answer.")
@document_option
@color_option
@help_option
def command(**values: Unpack[SuggestValues]) -> Outcome:
    """Search for the layout with the least step time, and say how much less it could be at best.

    --pp, --num-layers and --microbatches are needed. What layers cost comes from --costs, or from the model's shape; with neither, all
    decoder layers cost the same.
    """
    compared = _check_compared(values)
    if compared is not None and not compared.valid:
        return _refuse_compared(compared, values)
    assumptions = read_assumptions(values, compared.plan if compared is not None else None)
    if isinstance(assumptions, tuple):
        refuse(assumptions[0].message)
    problem = read_problem(values, assumptions)
    assumptions = replace(assumptions, costs=problem.costs)
    _refuse_seconds(values)
    progress = _Progress(look_of(sys.stderr, "never").width is not None)
    try:
        answer, points = _search(problem, values, assumptions, progress)
    finally:
        progress.clear()
    try:
        return _present(problem, answer, points, assumptions, compared, values)
    except KeyboardInterrupt:  # what was found is shown all the same
        return _present(problem, replace(answer, interrupted=True), points, assumptions, compared, values)


def _present(  # noqa: PLR0913, PLR0917 -- all that is shown
    problem: Problem,
    answer: Answer,
    points: tuple[Answer, ...] | None,
    assumptions: Assumptions,
    compared: CheckResult | None,
    values: SuggestValues,
) -> Outcome:
    """Prove and simulate the answer, and print it."""
    program = lower(answer.schedule, assumptions.depth)
    require_proof(program)
    report = simulate(answer.plan, answer.schedule, assumptions.costs, depth=assumptions.depth)
    rival = rival_of(compared.plan, problem, answer) if compared is not None and compared.plan is not None else None
    suggestion = Suggestion(problem, answer, Simulation(answer.plan, answer.schedule, program, assumptions, report), rival, points)
    code = INTERRUPTED if answer.interrupted else DONE
    if values["output_format"] == "json":
        from ppdsl.cli.documents import dump  # noqa: PLC0415 -- json is loaded for those who ask for it

        return Outcome(dump(describe(suggestion)), "", code)
    return Outcome("".join(tell_suggestion(suggestion, look_of(sys.stdout, values["color"]))), "", code)


def _search(
    problem: Problem, values: SuggestValues, assumptions: Assumptions, watch: Callable[[float], None]
) -> tuple[Answer, tuple[Answer, ...] | None]:
    """Search; give the answer, and the table of time against memory where it is asked for."""
    try:
        _refuse_length(problem, assumptions)
        answer = suggest(problem, seconds=values.get("time_limit"), watch=watch)
    except NoLayoutError as error:
        raise InfeasibleError(str(error), click.get_current_context()) from None
    except ValueError as error:
        refuse(str(error))
    if not values.get("pareto") or answer.interrupted:
        return answer, None
    points = trade_memory(problem, answer, seconds=values.get("time_limit"), watch=watch)
    return answer, points


def _refuse_length(problem: Problem, assumptions: Assumptions) -> None:
    """Refuse what has more actions than are simulated."""
    stages = len(problem.owners) if problem.owners is not None else problem.pp * (problem.vpp or 1)
    actions = stages * problem.microbatches * 2
    if actions > assumptions.most_actions:
        refuse(f"a schedule of {actions:,} actions is over the limit of {assumptions.most_actions:,} (--max-actions)")


def _refuse_seconds(values: SuggestValues) -> None:
    seconds = values.get("time_limit")
    if seconds is not None and not 1 <= seconds <= _MOST_SECONDS:
        refuse(f"--time-limit is {seconds:,}, the range is 1 to {_MOST_SECONDS:,}")


def _check_compared(values: SuggestValues) -> CheckResult | None:
    """Check the layout to compare with, against the sizes that were typed."""
    text = values.get("compare")
    if text is None:
        return None
    from ppdsl.compiling import check_layout  # noqa: PLC0415 -- most searches compare with nothing

    placement = values.get("placement_choice", "loop")
    owned = "@" in text
    return check_layout(
        text,
        pp=values.get("pp"),
        num_layers=values.get("num_layers"),
        mtp_num_layers=values.get("mtp_num_layers") or 0,
        placement=None if owned or placement == "auto" else placement,
    )


def _refuse_compared(compared: CheckResult, values: SuggestValues) -> Outcome:
    """Print what is wrong with the layout to compare with."""
    if values["output_format"] == "json":
        from ppdsl.cli.documents import dump, usage_document  # noqa: PLC0415 -- json is loaded for those who ask for it

        faults = "; ".join(each.message for each in compared.diagnostics if each.severity == "error")
        return Outcome(dump(usage_document(f"--compare is invalid: {faults}")), "", INVALID)
    from ppdsl.rendering import render_summary, render_text  # noqa: PLC0415 -- most layouts are without a fault

    look = look_of(sys.stderr, values["color"])
    wanted = [each for each in compared.diagnostics if each.severity != "info"]
    text = render_text(wanted, compared.source, width=look.width, color=look.color)
    return Outcome("", f"{text}\n\n{render_summary(compared.diagnostics)}\n", INVALID)


class _Progress:
    """Shows the best time so far in one line, on a terminal."""

    def __init__(self, wanted: bool) -> None:  # noqa: FBT001 -- all it knows
        self._wanted = wanted
        self._shown = False

    def __call__(self, time: float) -> None:
        """Show a time, in ms."""
        if self._wanted:
            sys.stderr.write(f"\rbest so far: {say_time(time)} ms\x1b[K")
            sys.stderr.flush()
            self._shown = True

    def clear(self) -> None:
        """Take the line away."""
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
