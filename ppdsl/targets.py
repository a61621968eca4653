"""Lowering a layout to what another framework's own parser reads, with the same meaning."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ppdsl.parsing.rules import TOO_LONG
from ppdsl.validation.portability import NORM, PLACEMENT, is_loop, megatron_text, norm_is_implied

if TYPE_CHECKING:
    from ppdsl.diagnostics import Diagnostic
    from ppdsl.validation import Subject


def lower_to_megatron(subject: Subject) -> str | Diagnostic:
    """Write a layout as a string that Megatron-LM accepts and reads as the same stages on the same ranks.

    Args:
        subject: A valid layout.

    Returns:
        The string, or why none exists: an ``N`` outside its implied stage, a placement that is not the loop, or a text over the limit.
    """
    fault = explain_unwritable(subject)
    if fault is not None:
        return fault
    text = megatron_text(subject.form, subject.options.limits.text)
    if text is None:
        return TOO_LONG.report(f"the text would be longer than {subject.options.limits.text:,} characters", subject.whole)
    return text


def explain_unwritable(subject: Subject) -> Diagnostic | None:
    """Say why Megatron-LM's language, or its list form, has no words for a layout; None where it has.

    Args:
        subject: A layout whose syntax is clean.
    """
    norm = subject.form.tally.first("N")
    if norm is not None and not norm_is_implied(subject.form):
        return NORM.report(
            "megatron cannot put the final norm where this `N` stands",
            norm.span,
            notes=[f"it is implied in stage {subject.form.implied_norm_stage():,}"],
            help="leave `N` out, or write it in that stage",
        )
    if subject.placement != "loop" and not (subject.dealt_pp is not None and is_loop(subject.form, subject.dealt_pp, subject.placement)):
        return PLACEMENT.report(
            "megatron deals stages to ranks in a loop, and this placement is another",
            subject.whole,
            help=None if subject.pp is not None else "give --pp, so that the placement can be compared with the loop",
        )
    return None
