"""From the places that a value may come from to the value, or to the reason why there is none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ppdsl.diagnostics import Label
from ppdsl.launch_files.occurrences import compatible
from ppdsl.launch_files.rules import UNRESOLVED
from ppdsl.launch_files.settings import Setting
from ppdsl.launch_files.texts import source_of
from ppdsl.source import Span

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ppdsl.diagnostics import Diagnostic, Severity
    from ppdsl.launch_files.occurrences import Occurrence
    from ppdsl.launch_files.texts import Branch, Text, Unknown
    from ppdsl.source import Source

_MOST_VALUES_TOLD = 4


@dataclass(frozen=True, slots=True)
class Alternative:
    """A value that a choice may have, and the branches that give it."""

    branch: Branch
    text: Text


@dataclass(frozen=True, slots=True)
class Resolution:
    """A setting, or nothing where the value is null, or what is to be said of it."""

    setting: Setting | None
    diagnostics: tuple[Diagnostic, ...] = ()


def pick(choice: Unknown, branch: Branch) -> tuple[Alternative, ...]:
    """Give the values that a choice can have where the given branches run.

    Branches that assign nothing, or assign what the script is given from outside, do not count beside those that do.

    Args:
        choice: Something unknown with choices.
        branch: The branches that the place stands in, which reads it.

    Returns:
        The values; empty where one of them is not known either.
    """
    texts = [Alternative(one.branch, one.text) for one in choice.choices if one.text is not None and compatible(one.branch, branch)]
    inside = [one for one in texts if not all(unknown.external for _, unknown in one.text.holes) or not one.text.holes]
    return () if any(one.text.holes for one in inside) else tuple(inside)


def resolve(candidates: Sequence[Occurrence], branch: Branch, file: Source) -> Resolution:
    """Find the one value of the places that may give it.

    Args:
        candidates: The places, at least one.
        branch: The branches that the layout stands in.
        file: The whole file.

    Returns:
        The setting, without diagnostics where all agree.
    """
    values: dict[str, tuple[Occurrence, Text]] = {}
    for one in candidates:
        texts = _texts(one, branch)
        if not texts:
            return Resolution(None, (_unknown(one),))
        values.update((f"{one.value}" if text is one.text else text.chars, (one, text)) for text in texts)
    if len(values) > 1:
        return Resolution(None, (_conflict(list(values.values())),))
    [(one, text)] = values.values()
    if one.value is None:
        return Resolution(None)
    return Resolution(Setting(one.flag.name, one.value if text is one.text else text.chars, source_of(text, file)))


def _texts(occurrence: Occurrence, branch: Branch) -> list[Text]:
    choice = occurrence.text.choice
    if choice is not None:
        return [one.text for one in pick(choice, branch)]
    return [] if occurrence.text.holes else [occurrence.text]


def _severity(occurrence: Occurrence) -> Severity:
    return "error" if occurrence.flag.holds_layout else "warning"


def _unknown(occurrence: Occurrence) -> Diagnostic:
    unknown = occurrence.text.holes[0][1]
    span = occurrence.text.span if occurrence.text.choice else Span(unknown.start, max(unknown.start, unknown.end))
    sets = [one.text for one in unknown.choices if one.text is not None]
    return UNRESOLVED.report(
        f"the value of {occurrence.key.chars} cannot be resolved",
        span,
        severity=_severity(occurrence),
        label=unknown.reason,
        labels=[Label(text.span, f"here it is {text.chars}") for text in sets if not text.holes][:_MOST_VALUES_TOLD],
        notes=() if occurrence.flag.holds_layout else (f"{occurrence.flag.name} is not checked",),
        help="write the layout itself into the file, in quotes" if occurrence.flag.holds_layout else None,
    )


def _conflict(values: Sequence[tuple[Occurrence, Text]]) -> Diagnostic:
    last, text = values[-1]
    branches = all(one is last for one, _ in values)
    message = "depends on which branch runs" if branches else f"has {len(values)} values, equally near to the layout"
    return UNRESOLVED.report(
        f"{last.key.chars} {message}",
        text.span,
        severity=_severity(last),
        label=f"{text.chars} here",
        labels=[Label(other.span, f"{other.chars} here") for _, other in values[:-1]][:_MOST_VALUES_TOLD],
        notes=(f"{last.flag.name} is not checked",),
        help=None if branches else "write it beside the layout",
    )
