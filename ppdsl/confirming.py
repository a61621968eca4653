"""Remedies are tried before they are offered: a help shows a corrected layout only if ppdsl itself finds it valid."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ppdsl.diagnostics import Diagnostic

MOST_TRIED = 16_384
"""How many characters of corrected layouts are checked for one layout; what is left then is not offered."""

MOST_SHOWN = 400
"""How many characters of a corrected layout a help shows. A longer one is a fix for programs alone."""


def confirm_remedies(diagnostics: Iterable[Diagnostic], recheck: Callable[[str], tuple[Diagnostic, ...]]) -> tuple[Diagnostic, ...]:
    """Turn the proposals that hold into fixes, and drop the others.

    A diagnostic takes the first of its proposals that leaves no error. Where none does, since the layout has other faults too, all
    faults are mended one after the other, and each takes the result if that leaves no error.

    Args:
        diagnostics: What was found.
        recheck: Gives the diagnostics of a corrected layout, proposals included.
    """
    diagnostics = tuple(diagnostics)
    trial = _Trial(recheck, {diagnostic.code for diagnostic in diagnostics})
    alone = [_first_that_holds(diagnostic, trial) for diagnostic in diagnostics]
    return tuple(
        fixed if fixed.fix or not diagnostic.proposals else _mended(diagnostic, fixed, trial)
        for diagnostic, fixed in zip(diagnostics, alone, strict=True)
    )


class _Trial:
    """Checks of corrected layouts, each text once, within the limit."""

    def __init__(self, recheck: Callable[[str], tuple[Diagnostic, ...]], codes: set[str]) -> None:
        self._recheck = recheck
        self._codes = codes
        self._known: dict[str, list[Diagnostic] | None] = {}
        self._left = MOST_TRIED

    def errors(self, text: str) -> list[Diagnostic] | None:
        """Give the errors of a text; None where the limit is reached."""
        if text not in self._known:
            self._left -= len(text)
            found = self._recheck(text) if self._left >= 0 else None
            self._known[text] = None if found is None else [fault for fault in found if fault.severity == "error"]
        return self._known[text]

    def mend(self, text: str) -> str | None:
        """Mend the faults of a text one after the other; None where that brings a new kind of fault, or does not end."""
        seen: set[str] = set()
        while text not in seen:
            seen.add(text)
            errors = self.errors(text)
            if not errors:
                return text if errors is not None else None
            remedies = [fault.proposals[0].fix for fault in errors if fault.proposals]
            if not remedies or not self._codes.issuperset(fault.code for fault in errors):
                return None
            text = remedies[0]
        return None


def _first_that_holds(diagnostic: Diagnostic, trial: _Trial) -> Diagnostic:
    if not diagnostic.proposals:
        return diagnostic
    for proposal in diagnostic.proposals:
        if trial.errors(proposal.fix) == []:
            return _offered(diagnostic, proposal.help, proposal.fix)
    return replace(diagnostic, proposals=(), help=diagnostic.help or diagnostic.proposals[0].help)


def _mended(diagnostic: Diagnostic, fixed: Diagnostic, trial: _Trial) -> Diagnostic:
    text = trial.mend(diagnostic.proposals[0].fix)
    if text is None:
        return fixed
    return _offered(diagnostic, f"{diagnostic.proposals[0].help}; with every fault mended", text)


def _offered(diagnostic: Diagnostic, help_text: str, fix: str) -> Diagnostic:
    shown = f"{help_text}: {fix}" if len(fix) <= MOST_SHOWN else help_text
    return replace(diagnostic, proposals=(), help=shown, fix=fix)
