"""Whether the microbatches fit the schedule: PP315."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ppdsl.diagnostics import Rule
from ppdsl.validation.subject import plural

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ppdsl.diagnostics import Diagnostic
    from ppdsl.validation.subject import Subject

MICROBATCHES = Rule(
    "PP315",
    "error",
    "microbatches do not fit the schedule",
    "The interleaved schedule works through the M microbatches in groups of N, by default pp. It needs pp <= N <= M, and M mod N must be "
    "0 or at least pp; outside of that Megatron-LM's own order deadlocks. 1F1B with fewer microbatches than ranks runs, with a warning: "
    "it never keeps all ranks busy at once.",
    wrong="check 'Et|t|t|tL' --pp 2 --microbatches 3",
    right="check 'Et|t|t|tL' --pp 2 --microbatches 4",
)
RULES = (MICROBATCHES,)


def check_microbatches(subject: Subject) -> Iterator[Diagnostic]:
    """PP315: M and N against pp, for the schedule that is given or implied."""
    options, pp, vpp = subject.options, subject.dealt_pp, subject.vpp
    if options.microbatches is None or pp is None or vpp is None:
        return
    implied = "1f1b" if vpp == 1 else "interleaved_1f1b" if subject.placement == "loop" else "auto"
    schedule = options.schedule or implied
    if schedule == "interleaved_1f1b":
        yield from _check_interleaved(subject, options.microbatches, options.microbatch_group_size or pp, pp)
    elif schedule == "1f1b" and options.microbatches < pp:
        yield MICROBATCHES.report(
            f"{_written(options.microbatches)} cannot keep {plural(pp, 'rank')} busy at once",
            subject.whole,
            severity="warning",
            help=f"use {pp:,} microbatches or more",
        )


def _written(microbatches: int) -> str:
    return "1 microbatch" if microbatches == 1 else f"{microbatches:,} microbatches"


def _check_interleaved(subject: Subject, microbatches: int, group: int, pp: int) -> Iterator[Diagnostic]:
    rest = microbatches % group
    if pp <= group <= microbatches and (rest == 0 or rest >= pp):
        return
    if group < pp:
        reason = f"the microbatch group of {group:,} is smaller than pp = {pp:,}"
        help_text = "leave --microbatch-group-size out, or raise it to pp"
    elif group > microbatches:
        reason = f"{microbatches:,} is less than the microbatch group of {group:,}"
        help_text = f"use {group:,} microbatches"
    else:
        reason = f"{microbatches:,} mod {group:,} = {rest:,}, which is neither 0 nor at least pp = {pp:,}"
        help_text = f"use {microbatches - rest:,} or {microbatches - rest + pp:,} microbatches"
    message = f"{_written(microbatches)} cannot be scheduled by interleaved_1f1b: {reason}"
    yield MICROBATCHES.report(message, subject.whole, help=help_text)
