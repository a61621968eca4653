"""What checking found, in the format that was asked for."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from ppdsl.cli.inputs import place_on_page
from ppdsl.compiling import check
from ppdsl.validation.subject import join_words, plural

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ppdsl.cli.inputs import Entry, Inputs
    from ppdsl.cli.output import Look
    from ppdsl.compiling import CheckResult
    from ppdsl.diagnostics import Diagnostic
    from ppdsl.options import Options
    from ppdsl.source import Source
    from ppdsl.validation import Subject

_MOST_PAIRS = 16
_MOST_TEXT = 72
_GREEN, _RED = "1;32", "1;31"


class Report(NamedTuple):
    """One layout of the input, and what was found.

    Attributes:
        entry: The layout, with what was found while reading it.
        result: What checking it gave; None where there was nothing to check.
    """

    entry: Entry
    result: CheckResult | None

    @property
    def groups(self) -> list[tuple[Source | None, tuple[Diagnostic, ...]]]:
        """All that was found, with what its spans count in."""
        found = [(self.entry.page, self.entry.diagnostics)]
        if self.result is not None and self.result.source is None and self.entry.page is not None and self.entry.written is not None:
            place = place_on_page(self.entry.written)
            found.append((self.entry.page, tuple(replace(each, span=place) for each in self.result.diagnostics)))
        elif self.result is not None:
            found.append((self.result.source, self.result.diagnostics))
        return found

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """All that was found."""
        return tuple(diagnostic for _, diagnostics in self.groups for diagnostic in diagnostics)

    @property
    def valid(self) -> bool:
        """Whether no error was found."""
        return all(diagnostic.severity != "error" for diagnostic in self.diagnostics)

    def with_faults(self, faults: Iterable[Diagnostic]) -> Report:
        """Give the same with more faults, that have no place in the layout."""
        return self._replace(entry=self.entry._replace(diagnostics=(*self.entry.diagnostics, *faults)))


def check_entry(entry: Entry) -> Report:
    """Check one layout of the input."""
    return Report(entry, None if entry.layout is None else check(entry.layout, entry.options))


def format_reports(reports: Sequence[Report], inputs: Inputs, output_format: str, look: Look, *, verbose: bool) -> str:
    """Write what was found.

    Args:
        reports: One for each layout.
        inputs: Where they come from.
        output_format: One of ``options.FORMATS``.
        look: How text looks where it goes.
        verbose: Whether to show infos in the formats for people.

    Returns:
        Whole lines.
    """
    if output_format in {"json", "sarif"}:
        from ppdsl.cli import documents  # noqa: PLC0415 -- json is loaded for those who ask for it

        return documents.dump(documents.log_of(reports) if output_format == "sarif" else documents.document_of(reports, many=inputs.many))
    if output_format == "text":
        return _format_text(reports, look, many=inputs.many, verbose=verbose)
    return format_diagnostics(reports, output_format, look, verbose=verbose)


def format_diagnostics(reports: Iterable[Report], output_format: str, look: Look, *, verbose: bool) -> str:
    """Write the diagnostics alone, as text, in the concise format, or as GitHub's workflow commands; whole lines."""
    blocks = []
    for report in reports:
        for source, diagnostics in report.groups:
            wanted = [each for each in diagnostics if verbose or each.severity != "info"]
            if not wanted:
                continue
            from ppdsl.rendering import render_concise, render_github, render_text  # noqa: PLC0415 -- most layouts are without a fault

            if output_format == "text":
                blocks.append(render_text(wanted, source, width=look.width, color=look.color) + "\n")
            else:
                blocks.append((render_github if output_format == "github" else render_concise)(wanted, source) + "\n")
    return ("\n" if output_format == "text" else "").join(blocks)


def _format_text(reports: Sequence[Report], look: Look, *, many: bool, verbose: bool) -> str:
    blocks = [_format_one(report, look, many=many, verbose=verbose) for report in reports]
    if len(reports) > 1:
        valid = sum(report.valid for report in reports)
        blocks.append(f"in all: {valid:,} valid, {len(reports) - valid:,} invalid\n")
    return "\n".join(blocks)


def _format_one(report: Report, look: Look, *, many: bool, verbose: bool) -> str:
    head = head_of(report) if many else []
    parts = ["\n".join(head) + "\n"] if head else []
    found = format_diagnostics([report], "text", look, verbose=verbose)
    if found:
        parts.append(found)
    closing = _sum_up(report, look)
    if report.result is not None and report.result.valid and report.result.subject is not None:
        closing = _overview(report.result, report.result.subject, report.entry.options, look) + closing
    return "\n".join([*parts, closing])


def head_of(report: Report) -> list[str]:
    """Say in lines which layout of many this is, and where its sizes come from."""
    from ppdsl.rendering.characters import visible  # noqa: PLC0415 -- a layout alone needs no head

    written = report.entry.written
    lines = []
    if written is not None:
        text = visible(written.text)
        text = text if len(text) <= _MOST_TEXT else f"{text[:_MOST_TEXT]}..."
        lines.append(f"{visible(written.name)}:{written.line_column(0)[0]}: {text}")
    if report.entry.origins:
        named = (f"{each.name}{'' if each.value is None else f' {each.value}'} from {each.place}" for each in report.entry.origins)
        lines.append(visible(", ".join(named)))
    return lines


def _sum_up(report: Report, look: Look) -> str:
    line = "valid"
    if any(each.severity != "info" for each in report.diagnostics):
        from ppdsl.rendering import render_summary  # noqa: PLC0415 -- most layouts are without a fault

        line = render_summary(report.diagnostics)
    if look.color:
        verdict, colon, rest = line.partition(":")
        line = f"\x1b[{_GREEN if report.valid else _RED}m{verdict}\x1b[0m{colon}{rest}"
    return f"{line}\n"


def _overview(result: CheckResult, subject: Subject, given: Options, look: Look) -> str:
    """Draw the table of a valid layout, and say what was implied rather than given."""
    layers = [plural(subject.form.tally.count("t"), "decoder layer")]
    if subject.form.tally.count("m"):
        layers.append(plural(subject.form.tally.count("m"), "MTP layer"))
    facts = plural(subject.stages, "stage")
    plan = result.plan
    if plan is None:
        lines = [", ".join([facts, *layers])]
        pairs = [f"{pp} x {vpp}" for pp, vpp in result.fitting_sizes()]
        if pairs:
            more = f" and {len(pairs) - _MOST_PAIRS} more" if len(pairs) > _MOST_PAIRS else ""
            lines.append(f"pp x vpp that fit: {', '.join(pairs[:_MOST_PAIRS])}{more}")
        return "".join(f"{line}\n" for line in lines)
    from ppdsl.cli.tables import draw  # noqa: PLC0415 -- without pp there is no table

    unsaid = [name for name, value in (("pp", given.pp), ("vpp", given.vpp)) if value is None]
    implied = f" ({' and '.join(unsaid)} implied)" if unsaid else ""
    caption = ", ".join([facts, f"pp {plan.pp:,} x vpp {plan.vpp:,}{implied}", *layers, f"placement {plan.placement}"])
    if given.tied_embeddings is not None:
        ranks = plan.embedding_ranks(tied=given.tied_embeddings)
        caption += f", word embedding on rank{'s' if len(ranks) > 1 else ''} {join_words(ranks)}"
    return f"{draw(plan, look)}{caption}\n"
