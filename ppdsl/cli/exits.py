"""What the exit codes of ``ppdsl`` mean."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ppdsl.diagnostics import Diagnostic

DONE = 0
"""The layout is valid, warnings allowed."""
INVALID = 1
"""The layout is invalid; or two differ, or one is not in canonical form, where that was the question."""
USAGE = 2
"""Wrong usage, or input that cannot be read."""
INFEASIBLE = 3
"""No answer fits what was asked for."""
FAULT = 70
"""A fault of ppdsl itself."""
INTERRUPTED = 130
"""Stopped with Ctrl-C."""

_USAGE_CODES = frozenset({"PP201", "PP202", "PP203", "PP204", "PP205", "PP206"})


def exit_code(diagnostics: Iterable[Diagnostic], *, warn_error: bool = False) -> int:
    """Give the exit code for what was found.

    Args:
        diagnostics: All of it.
        warn_error: Whether a warning counts like an error.
    """
    code = DONE
    for diagnostic in diagnostics:
        if diagnostic.severity == "error":
            code = max(code, USAGE if diagnostic.code in _USAGE_CODES else INVALID)
        elif diagnostic.severity == "warning" and warn_error:
            code = max(code, INVALID)
    return code
