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
    "The interleaved schedule works through groups of N microbatches (by default pp of them): pp <= N <= M, and M mod N is 0 or at least pp. "
    "Outside of that Megatron-LM's own order deadlocks. 1F1B with fewer microbatches than ranks runs, but no rank is ever fully busy.",
    wrong="check 'Et|t|t|tL' --pp 2 --microbatches 3",
    right="check 'Et|t|t|tL' --pp 2 --microbatches 4",
)
RULES = (MICROBATCHES,)


def check_microbatches(subject: Subject) -> Iterator[Diagnostic]:
    """PP315: M and N against pp, for the schedule that is given or implied."""
    options, pp, vpp = subject.options, subject.dealt_pp, subject.vpp
    if options.microbatches is None or pp is None or vpp is None:
        return
    schedule = options.schedule or ("interleaved_1f1b" if vpp > 1 else "1f1b")
    if schedule == "interleaved_1f1b":
        yield from _check_interleaved(subject, options.microbatches, options.microbatch_group_size or pp, pp)
    elif schedule == "1f1b" and options.microbatches < pp:
        yield MICROBATCHES.report(
            f"{_written(options.microbatches)} for {plural(pp, 'rank')}",
            subject.whole,
            severity="warning",
            notes=["no rank is ever fully busy"],
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
    elif group > microbatches:
        reason = f"{microbatches:,} is less than the microbatch group of {group:,}"
    else:
        reason = f"{microbatches:,} mod {group:,} = {rest:,}, which is neither 0 nor at least pp = {pp:,}"
    group = max(group, pp)
    nearest = [count for count in (microbatches // group * group, (microbatches // group + 1) * group) if count]
    yield MICROBATCHES.report(
        f"{_written(microbatches)} cannot be scheduled by interleaved_1f1b: {reason}",
        subject.whole,
        help=f"use {' or '.join(f'{count:,}' for count in nearest)} microbatches",
    )
