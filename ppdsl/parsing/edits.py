"""Faults found in the tokens, and the edits of the text that would mend them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ppdsl.diagnostics import Proposal

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ppdsl.diagnostics import Diagnostic, Rule
    from ppdsl.source import Span

MOST_FAULTS = 20
"""How many syntax faults are reported at most."""

MOST_WRITTEN = 65_536
"""How many characters of corrected layouts are written out for one layout. No one reads more, and each has to be tried."""

_MOST_QUOTED = 24


class Edit(NamedTuple):
    """Put ``text`` where ``[start, end)`` stands."""

    start: int
    end: int
    text: str


class Choice(NamedTuple):
    """One remedy: what the help says, and the edits that carry it out."""

    help: str
    edits: tuple[Edit, ...]


class Fault(NamedTuple):
    """A syntax fault, before its remedies are written out as whole layouts."""

    rule: Rule
    message: str
    span: Span
    choices: tuple[Choice, ...] = ()
    notes: tuple[str, ...] = ()
    help: str | None = None


def shorten(text: str) -> str:
    """Keep what a message can quote of a text."""
    return text if len(text) <= _MOST_QUOTED else f"{text[: _MOST_QUOTED - 1]}…"


def apply_edits(text: str, edits: Iterable[Edit]) -> str:
    """Apply edits to a text; an edit that overlaps an earlier one is left out."""
    parts, at = [], 0
    for edit in sorted(edits, key=lambda edit: (edit.start, edit.end)):
        if edit.start >= at:
            parts += [text[at : edit.start], edit.text]
            at = edit.end
    parts.append(text[at:])
    return "".join(parts)


def write_diagnostics(text: str, faults: Sequence[Fault]) -> list[Diagnostic]:
    """Turn faults into diagnostics, each with its remedies: its own edits alone, then together with all other faults' edits."""
    firsts = [fault.choices[0].edits for fault in faults if fault.choices]
    together = [edit for edits in firsts for edit in edits] if len(firsts) > 1 else []
    everything = apply_edits(text, together) if len(text) <= MOST_WRITTEN else ""
    left = MOST_WRITTEN - len(everything)
    diagnostics = []
    for fault in faults:
        proposals: list[Proposal] = []
        for choice in fault.choices:
            left -= len(text)
            if left >= 0:
                proposals.append(Proposal(choice.help, apply_edits(text, choice.edits)))
        if fault.choices and together and everything:
            proposals.append(Proposal(fault.choices[0].help, everything))
        help_text = fault.help or (fault.choices[0].help if fault.choices else None)
        diagnostics.append(fault.rule.report(fault.message, fault.span, notes=fault.notes, help=help_text, proposals=proposals))
    return diagnostics
