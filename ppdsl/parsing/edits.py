"""Faults found in the tokens, and the edits of the text that would mend them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ppdsl.diagnostics import Proposal

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ppdsl.diagnostics import Diagnostic, Rule
    from ppdsl.source import Span


@dataclass(frozen=True, slots=True)
class Edit:
    """Put ``text`` where ``[start, end)`` stands."""

    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class Choice:
    """One remedy: what the help says, and the edits that carry it out."""

    help: str
    edits: tuple[Edit, ...]


@dataclass(frozen=True, slots=True)
class Fault:
    """A syntax fault, before its remedies are written out as whole layouts."""

    rule: Rule
    message: str
    span: Span
    choices: tuple[Choice, ...] = ()
    notes: tuple[str, ...] = ()
    help: str | None = None


def apply_edits(text: str, edits: Iterable[Edit]) -> str:
    """Apply edits to a text; an edit that overlaps an earlier one is left out."""
    parts, at = [], 0
    for edit in sorted(edits, key=lambda edit: (edit.start, edit.end)):
        if edit.start >= at:
            parts += [text[at : edit.start], edit.text]
            at = edit.end
    parts.append(text[at:])
    return "".join(parts)


def write_diagnostics(text: str, faults: Iterable[Fault]) -> list[Diagnostic]:
    """Turn faults into diagnostics, the edits of each remedy carried out on the text."""
    diagnostics = []
    for fault in faults:
        proposals = [Proposal(choice.help, apply_edits(text, choice.edits)) for choice in fault.choices]
        help_text = fault.help or (fault.choices[0].help if fault.choices else None)
        diagnostics.append(fault.rule.report(fault.message, fault.span, notes=fault.notes, help=help_text, proposals=proposals))
    return diagnostics
