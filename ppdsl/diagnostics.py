"""Faults as data: a diagnostic is a code, a message, a span and a remedy; rendering it is another module's work."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ppdsl.source import Source, Span

Severity = Literal["error", "warning", "info"]


class Label(NamedTuple):
    """A secondary place that a diagnostic points at, underlined with ``---``, and what is said of it."""

    span: Span
    text: str = ""


class Proposal(NamedTuple):
    """A remedy that has not been tried yet: the text of the help, and the whole layout that it would give.

    Attributes:
        help: What the help says. When ``fix`` is confirmed, the help reads ``{help}: {fix}``.
        fix: The corrected layout, whole.
    """

    help: str
    fix: str


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One fault, or one piece of advice.

    Attributes:
        code: ``PPnnn``, stable for ever.
        severity: ``error``, ``warning`` or ``info``.
        message: What is wrong; lower case, no full stop, no remedy.
        span: The characters at fault, in the source's text; None where there is no text.
        label: What stands behind the carets under ``span``; may be empty.
        labels: Other places, in the same source.
        notes: Facts that help to understand, one line each.
        help: What to do about it, the corrected layout included; None where nothing is known to help.
        fix: The corrected layout, checked by ppdsl itself; None where there is none.
        proposals: Remedies still to be tried, best first. Empty in everything that a user gets to see.
    """

    code: str
    severity: Severity
    message: str
    span: Span | None = None
    label: str = ""
    labels: tuple[Label, ...] = ()
    notes: tuple[str, ...] = ()
    help: str | None = None
    fix: str | None = None
    proposals: tuple[Proposal, ...] = ()


class Rule(NamedTuple):
    """What ``ppdsl explain CODE`` says of a code. It stands beside the code that reports it.

    Attributes:
        code: ``PPnnn``.
        severity: The severity that it is reported with unless a condition of the rule changes it.
        title: One line: what is wrong.
        text: A paragraph: why it matters, what the peers do, what to do.
        wrong: Arguments of ``ppdsl`` that report this code, as typed in a shell: ``check 'E3*tL'``.
        right: Arguments that do not, and that are valid.
        files: Name and content of the files that the two examples read; they are made in an empty folder.
        stdin: What the two examples read from standard input.
    """

    code: str
    severity: Severity
    title: str
    text: str
    wrong: str
    right: str
    files: Mapping[str, str] | None = None
    stdin: str | None = None

    def report(  # noqa: PLR0913 -- a diagnostic has that many parts, all but the first two by name
        self,
        message: str,
        span: Span | None = None,
        *,
        severity: Severity | None = None,
        label: str = "",
        labels: Iterable[Label] = (),
        notes: Iterable[str] = (),
        help: str | None = None,  # noqa: A002 -- the field's own name
        proposals: Iterable[Proposal] = (),
    ) -> Diagnostic:
        """Make a diagnostic of this rule."""
        return Diagnostic(
            self.code,
            severity or self.severity,
            message,
            span,
            label,
            tuple(labels),
            tuple(notes),
            help,
            None,
            tuple(proposals),
        )


class LayoutError(ValueError):
    """A layout is invalid. ``str()`` renders every diagnostic with its carets.

    Attributes:
        diagnostics: All that was found, warnings and infos included, in the order of the text.
        source: The text that the spans count in; None where the layout was given in another form.
    """

    def __init__(self, diagnostics: Iterable[Diagnostic], source: Source | None = None) -> None:
        self.diagnostics = tuple(diagnostics)
        self.source = source
        super().__init__(self.diagnostics, source)

    def __str__(self) -> str:
        from ppdsl.rendering import render_text  # noqa: PLC0415 -- rendering is needed only when someone looks

        return render_text(self.diagnostics, self.source)
