"""The whole way of a layout, in one place: text, nodes, normal form, validation, plan."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

from ppdsl.confirming import confirm_remedies
from ppdsl.diagnostics import Diagnostic, LayoutError
from ppdsl.formatting import format_canonical
from ppdsl.normal_form import normalize
from ppdsl.options import Options
from ppdsl.parsing import parse
from ppdsl.sizes import check_sizes, conflicting_forms, missing_sizes
from ppdsl.source import Source
from ppdsl.validation import Subject, examine, validate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Unpack

    from ppdsl.diagnostics import Severity
    from ppdsl.forms import Form
    from ppdsl.normal_form import NormalForm
    from ppdsl.options import Sizes
    from ppdsl.planning import Plan


@dataclass(frozen=True)
class CheckResult:
    """What checking a layout gave. It has no slots, since it keeps the plan that is made when it is first asked for.

    Attributes:
        source: The text that was checked, as it was given; None where the layout came in another form than text.
        options: What it was checked against; a form may have filled in sizes that were not given.
        diagnostics: All errors, warnings and infos, in the order of the text.
        subject: The layout in normal form, with what was derived; None when the syntax is at fault.
        canonical: The canonical text; None when the syntax is at fault, or when it would be longer than the text limit.
    """

    source: Source | None
    options: Options
    diagnostics: tuple[Diagnostic, ...]
    subject: Subject | None = None
    canonical: str | None = None

    @property
    def valid(self) -> bool:
        """Whether no error was found."""
        return all(diagnostic.severity != "error" for diagnostic in self.diagnostics)

    @cached_property
    def table(self) -> Plan | None:
        """The chunk-ownership table, also of an invalid layout; None when its stages cannot be listed or dealt to ranks."""
        subject = self.subject
        if subject is None or subject.dealt_pp is None or subject.stages > self.options.limits.stages:
            return None
        from ppdsl.planning import build_plan  # noqa: PLC0415 -- a check alone does not need it

        return build_plan(subject.form, self.canonical or subject.text, subject.dealt_pp, subject.placement)

    @property
    def plan(self) -> Plan | None:
        """The chunk-ownership table; None when there is an error, or pp is not known."""
        return self.table if self.valid else None

    @property
    def form(self) -> NormalForm | None:
        """The normal form; None when the syntax is at fault."""
        return None if self.subject is None else self.subject.form

    def count(self, severity: Severity) -> int:
        """How many diagnostics of a severity there are."""
        return sum(diagnostic.severity == severity for diagnostic in self.diagnostics)

    def fitting_sizes(self) -> list[tuple[int, int]]:
        """Give the (pp, vpp) pairs that the number of stages, and vpp where given, allow; none where stages are unlisted or owned."""
        if self.subject is None or self.subject.placement is None or not self.subject.listed:
            return []
        stages = self.subject.stages
        small = [pp for pp in range(1, int(stages**0.5) + 1) if stages % pp == 0]
        pairs = [(pp, stages // pp) for pp in sorted({*small, *(stages // pp for pp in small)})]
        return [(pp, vpp) for pp, vpp in pairs if self.options.vpp in {None, vpp}]


def check(layout: Source | Form, options: Options, *, confirm: bool = True) -> CheckResult:
    """Take a layout the whole way, and report all that is found.

    Args:
        layout: Its text, or another form of it.
        options: What to check it against.
        confirm: Whether remedies are tried, so that a help may offer a corrected layout.

    Returns:
        The result. Nothing is raised for a bad layout.
    """
    faults = check_sizes(options)
    if faults:
        return CheckResult(layout if isinstance(layout, Source) else None, options, tuple(faults))
    if isinstance(layout, Source):
        result = _check_text(layout, options)
        return _confirmed(result) if confirm else result
    from ppdsl.forms import lower  # noqa: PLC0415 -- most layouts are text

    lowered = lower(layout, options)
    if lowered.text is None:
        return CheckResult(None, options, lowered.diagnostics)
    result = _check_text(Source(lowered.text), lowered.options)
    kept = (each for each in result.diagnostics if each.code not in lowered.judged)
    return replace(result, source=None, diagnostics=(*lowered.diagnostics, *map(_without_place, kept)))


def _check_text(source: Source, options: Options) -> CheckResult:
    parsed = parse(source.text, options.limits)
    if parsed.items is None:
        return CheckResult(source, options, parsed.diagnostics)
    subject = examine(source.text, parsed.items, normalize(parsed.items, options.limits), options)
    diagnostics = validate(subject)
    if subject.placement is None:
        conflict = conflicting_forms(["@"], placement=options.placement is not None)
        diagnostics += [conflict] if conflict is not None else []
    return CheckResult(source, options, tuple(diagnostics), subject, format_canonical(subject.form, options.limits.text))


def _confirmed(result: CheckResult) -> CheckResult:
    if not any(diagnostic.proposals for diagnostic in result.diagnostics):
        return result

    def recheck(text: str) -> tuple[Diagnostic, ...]:
        return check(Source(text), result.options, confirm=False).diagnostics

    return replace(result, diagnostics=confirm_remedies(result.diagnostics, recheck))


def _without_place(diagnostic: Diagnostic) -> Diagnostic:
    """Drop what points into a text that nobody wrote."""
    return replace(diagnostic, span=None, label="", labels=(), proposals=())


def check_layout(layout: str | Sequence[Sequence[str]] | Form, **sizes: Unpack[Sizes]) -> CheckResult:
    """Check a layout, and return all that is found.

    Args:
        layout: Its text, Megatron's list of lists of layer names, or another form (``Uniform``, ``Partition``, …).
        sizes: What to check it against: the fields of ``Options``, by name.

    Returns:
        The result. Nothing is raised for a bad layout.

    Example:
        >>> check_layout("Et*3|t*3L", num_layers=7).diagnostics[0].message
        'layout has 6 decoder layers, --num-layers says 7'
    """
    options = Options.of(**sizes)
    given = _as_input(layout)
    return CheckResult(None, options, (given,)) if isinstance(given, Diagnostic) else check(given, options)


def compile_layout(layout: str | Sequence[Sequence[str]] | Form, **sizes: Unpack[Sizes]) -> Plan:
    """Compile a layout to its chunk-ownership table. What was compiled is remembered, so a trainer may call this anywhere.

    Args:
        layout: Its text, Megatron's list of lists of layer names, or another form (``Uniform``, ``Partition``, …).
        sizes: What to check it against: the fields of ``Options``, by name; ``pp`` among them, unless the stages have owners.

    Returns:
        The plan.

    Raises:
        LayoutError: The layout is invalid, or pp is not known; it carries every diagnostic, and ``str()`` renders them.

    Example:
        >>> compile_layout("Et*3||t*3|t*6NL", pp=2).layer_ranges(0)
        [(0, 3), (3, 6)]
    """
    given = _as_input(layout)
    if isinstance(given, Diagnostic):
        raise LayoutError([given])
    options = Options.of(**sizes)
    try:
        # True equals 1, and a plan that is remembered for the one must not be given for the other
        return _compile(given, options) if not check_sizes(options) else plan_of(check(given, options))
    except TypeError:  # something in it cannot be remembered, a list most often
        return plan_of(check(given, options))


@lru_cache(maxsize=256)
def _compile(layout: Source | Form, options: Options) -> Plan:
    return plan_of(check(layout, options))


def plan_of(result: CheckResult) -> Plan:
    """Give the plan of a checked layout.

    Raises:
        LayoutError: It has an error, or pp is not known.
    """
    if result.plan is not None:
        return result.plan
    diagnostics = result.diagnostics
    if result.valid:
        diagnostics = (*diagnostics, missing_sizes("a plan", pp=result.options.pp))
    raise LayoutError(diagnostics, result.source)


def _as_input(layout: str | Sequence[Sequence[str]] | Form) -> Source | Form | Diagnostic:
    if isinstance(layout, str):
        return Source(layout)
    from ppdsl.forms import Form, convert_layer_lists  # noqa: PLC0415 -- most layouts are text

    return layout if isinstance(layout, Form) else convert_layer_lists(layout)
