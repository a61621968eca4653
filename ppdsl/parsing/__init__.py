"""Text to nodes: all syntax faults at once, each with its place and, where one is known, its remedy."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, cast

from ppdsl.parsing import rules
from ppdsl.parsing.edits import MOST_FAULTS
from ppdsl.parsing.reading import layout_parser
from ppdsl.parsing.rules import RULES
from ppdsl.parsing.structure import check_owners, check_removals
from ppdsl.parsing.wrapping import is_hybrid_pattern, unwrap
from ppdsl.source import Span

if TYPE_CHECKING:
    from lark import TextSlice

    from ppdsl.diagnostics import Diagnostic
    from ppdsl.nodes import Item
    from ppdsl.options import Limits

__all__ = ["RULES", "Parsed", "parse"]


class Parsed(NamedTuple):
    """What reading a text gave.

    Attributes:
        items: The nodes; None when the syntax is at fault.
        diagnostics: Every syntax fault, at most 20.
    """

    items: tuple[Item, ...] | None
    diagnostics: tuple[Diagnostic, ...] = ()


def parse(text: str, limits: Limits) -> Parsed:
    """Read a layout.

    Args:
        text: The layout, perhaps wrapped in quotes or with shell backslashes; spans count in this text as it is.
        limits: How long and how deep it may be.

    Returns:
        The nodes, or the faults. Nothing is raised for any text.
    """
    start, end = unwrap(text)
    refused = _refuse_unread(text, start, end, limits)
    if refused is not None:
        return Parsed(None, (refused,))
    from lark import TextSlice, UnexpectedInput  # noqa: PLC0415 -- the package loads lark only when a layout is read

    part = TextSlice(text, start, end)
    faults: list[Diagnostic] = []
    try:
        items: tuple[Item, ...] | None = cast("tuple[Item, ...]", layout_parser().parse(part, start="layout"))
    except UnexpectedInput:
        items, faults = _recover(part)
    if items is not None:
        faults += _check_structure(text, items)
        faults.sort(key=_place)
    return Parsed(None if faults else items, tuple(faults[:MOST_FAULTS]))


def _refuse_unread(text: str, start: int, end: int, limits: Limits) -> Diagnostic | None:
    """Refuse a text that is not worth reading: too long, nothing at all, another language, or nested too deep."""
    if len(text) > limits.text:
        message = f"layout has {len(text):,} characters, the limit is {limits.text:,}"
        return rules.TOO_LONG.report(message, Span(limits.text, len(text)), help="raise the limit with --max-text if this is a layout")
    if start == end:
        return rules.NOTHING.report("the layout is empty", Span(start, end), help="write at least `EL`, or check that the variable is set")
    if is_hybrid_pattern(text[start:end]):
        return rules.HYBRID.report(
            "this is a hybrid-layer pattern, not a pipeline layout",
            Span(start, end),
            notes=["in it `E` is a MoE layer and `*` is attention"],
            help="pass it as --hybrid-layer-pattern; a layout is written with E, t, m, N and L",
        )
    if text.count("(") > limits.depth:
        return _check_depth(text, start, end, limits.depth)
    return None


def _check_depth(text: str, start: int, end: int, limit: int) -> Diagnostic | None:
    depth = 0
    for at in range(start, end):
        if text[at] == "(":
            depth += 1
            if depth > limit:
                return rules.TOO_DEEP.report(f"groups nested deeper than {limit}", Span(at, at + 1), help="unnest the groups")
        elif text[at] == ")":
            depth -= 1
    return None


def _recover(part: TextSlice[str]) -> tuple[tuple[Item, ...] | None, list[Diagnostic]]:
    from ppdsl.parsing.edits import write_diagnostics  # noqa: PLC0415 -- needed only for faulty layouts
    from ppdsl.parsing.recovery import Recovery  # noqa: PLC0415 -- the same

    recovery = Recovery(layout_parser(), part)
    items = recovery.run()
    return items, write_diagnostics(recovery.text, recovery.faults)


def _check_structure(text: str, items: tuple[Item, ...]) -> list[Diagnostic]:
    faults: list[Diagnostic] = []
    if "*" in text and "0" in text:
        faults += check_removals(text, items)
    if "@" in text:
        faults += check_owners(items)
    return faults


def _place(diagnostic: Diagnostic) -> Span:
    return diagnostic.span or Span(0, 0)
