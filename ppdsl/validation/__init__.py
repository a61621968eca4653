"""The meaning of a layout: a tuple of small rules, each of which reports its faults as data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ppdsl.source import Span
from ppdsl.validation import advice, counts, microbatches, order, portability, ranks, targets
from ppdsl.validation.subject import Subject, examine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ppdsl.diagnostics import Diagnostic, Rule

__all__ = ["CHECKS", "RULES", "Subject", "examine", "validate"]

RULES: tuple[Rule, ...] = (
    *order.RULES,
    *counts.RULES,
    *ranks.RULES,
    *microbatches.RULES,
    *portability.RULES,
    *targets.RULES,
    *advice.RULES,
)

CHECKS: tuple[Callable[[Subject], Iterator[Diagnostic]], ...] = (
    order.check_ends,
    order.check_mtp_order,
    order.check_mtp_stages,
    order.check_norm,
    order.check_outer_stages,
    counts.check_limits,
    counts.check_layer_count,
    counts.check_mtp_count,
    ranks.check_divisibility,
    ranks.check_vpp,
    ranks.check_owner_range,
    ranks.check_mtp_chunk,
    microbatches.check_microbatches,
    portability.check_portability,
    targets.check_features,
    targets.check_infinitrain,
    advice.advise_empty_stages,
    advice.advise_loads,
    advice.advise_implied_vpp,
    advice.advise_mtp_alone,
    advice.advise_removals,
    advice.advise_stripping,
)


def validate(subject: Subject) -> list[Diagnostic]:
    """Check the meaning of a layout.

    Returns:
        Errors, then warnings, then infos, each in the order of the text; remedies are still proposals.
    """
    found = [diagnostic for check in CHECKS for diagnostic in check(subject)]
    if len(found) > 1:
        found.sort(key=_rank)
    return found


_SEVERITIES = ("error", "warning", "info")


def _rank(diagnostic: Diagnostic) -> tuple[int, Span]:
    return _SEVERITIES.index(diagnostic.severity), diagnostic.span or Span(0, 0)
