"""Faults of syntax that the grammar cannot express: where owners stand (PP109), and what `*0` may not remove (PP112)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ppdsl.diagnostics import Proposal
from ppdsl.nodes import SEPARATORS, Group, Item, Owner, Run, fold
from ppdsl.parsing.edits import MOST_FAULTS
from ppdsl.parsing.rules import OWNER_PLACE, REMOVAL
from ppdsl.source import Span

if TYPE_CHECKING:
    from ppdsl.diagnostics import Diagnostic


def check_removals(text: str, items: tuple[Item, ...]) -> list[Diagnostic]:
    """Report each ``*0`` behind a group that holds a group, or apart from its symbol: there Megatron-LM removes something else."""
    faults: list[Diagnostic] = []
    stack = [*reversed(items)]
    while stack and len(faults) < MOST_FAULTS:
        item = stack.pop()
        if isinstance(item, Owner):
            continue
        if isinstance(item, Run):
            if item.repeat == 0 and (gap := _gap(text, item)) is not None:
                faults.append(_distant_removal(text, item, gap))
        elif item.repeat == 0 and any(isinstance(inner, Group) for inner in item.items):
            faults.append(_nested_removal(text, item))
        else:
            stack.extend(reversed(item.items))
    return faults


def _nested_removal(text: str, group: Group) -> Diagnostic:
    return REMOVAL.report(
        "`*0` on a group that holds a group",
        group.span,
        notes=["Megatron-LM removes another part of the text than this group"],
        help="delete the group",
        proposals=[Proposal("delete the group", text[: group.start] + text[group.end :])],
    )


def _gap(text: str, run: Run) -> Span | None:
    """Give the place of white space or a backslash right before a run's ``*``; None where there is none. Commas do not count."""
    star = text.rindex("*", run.start, run.end)
    start = star
    while text[start - 1] == ",":
        start -= 1
    if text[start - 1] not in " \t\r\n\\":
        return None
    while text[start - 1] in SEPARATORS or text[start - 1] == "\\":
        start -= 1
    return Span(start, star)


def _distant_removal(text: str, run: Run, gap: Span) -> Diagnostic:
    what = "backslash" if "\\" in text[gap.start : gap.end] else "white space"
    return REMOVAL.report(
        f"{what} before `*0`",
        Span(gap.start, run.end),
        notes=[f"Megatron-LM removes the {what} instead, and keeps `{run.kind}`"] if "\n" not in text[gap.start : gap.end] else [],
        help=f"write `{run.kind}*0`",
        proposals=[Proposal(f"write `{run.kind}*0`", text[: gap.start] + text[gap.end :])],
    )


class _Part(NamedTuple):
    """A part of one stage: what of it counts for owners."""

    filled: bool = False
    owner: Owner | None = None


_NOTHING = _Part()


class _Stretch(NamedTuple):
    """Items in a row: one part of a stage, or, where bars stand between, the first and the last part."""

    head: _Part
    tail: _Part | None = None


_BAR = _Stretch(_NOTHING, _NOTHING)
_LAYERS = _Stretch(_Part(filled=True))


class _OwnerCheck:
    """The fold over a layout that sees where owners stand; faults gather in ``misplaced``, whole stages in the rest."""

    def __init__(self) -> None:
        self.misplaced: dict[int, Diagnostic] = {}
        self.owned: Owner | None = None
        self.unowned = False

    def join(self, parts: list[Run | Owner | _Stretch]) -> _Stretch:
        whole = _Stretch(_NOTHING)
        for part in parts:
            whole = self._append(whole, part if isinstance(part, _Stretch) else self._leaf(part))
        return whole

    def _leaf(self, item: Run | Owner) -> _Stretch:
        if isinstance(item, Owner):
            return _Stretch(_Part(filled=True, owner=item))
        if item.kind == "|" and item.count:
            self.unowned |= item.count > 1
            return _BAR
        return _LAYERS if item.count else _Stretch(_NOTHING)

    def power(self, stretch: _Stretch, group: Group) -> _Stretch:
        if group.count == 0:
            return _Stretch(_NOTHING)
        return stretch if group.count == 1 else self._append(stretch, stretch)

    def end_stage(self, part: _Part) -> None:
        if part.owner is None:
            self.unowned = True
        elif self.owned is None or part.owner.start < self.owned.start:
            self.owned = part.owner

    def _append(self, before: _Stretch, after: _Stretch) -> _Stretch:
        if before.tail is None:
            return _Stretch(self._merge(before.head, after.head), after.tail)
        middle = self._merge(before.tail, after.head)
        if after.tail is None:
            return _Stretch(before.head, middle)
        self.end_stage(middle)
        return _Stretch(before.head, after.tail)

    def _merge(self, before: _Part, after: _Part) -> _Part:
        if before.owner is not None and after.filled:
            if after.owner is not None:
                fault = OWNER_PLACE.report("two owners in one stage", after.owner.span, help="keep one `@` in each stage")
            else:
                fault = OWNER_PLACE.report(
                    "an owner that is not at the end of its stage", before.owner.span, help="move it behind the last layer, before the bar"
                )
            if len(self.misplaced) < MOST_FAULTS:
                self.misplaced[before.owner.start] = fault
        return _Part(before.filled or after.filled, after.owner or before.owner)


def check_owners(items: tuple[Item, ...]) -> list[Diagnostic]:
    """Report owners that are not the last thing in their stage, twice in it, or on some stages only."""
    check = _OwnerCheck()
    whole = fold(items, check.join, check.power)
    check.end_stage(whole.head)
    if whole.tail is not None:
        check.end_stage(whole.tail)
    faults = [*check.misplaced.values()]
    if not faults and check.owned is not None and check.unowned:
        faults.append(
            OWNER_PLACE.report(
                "some stages have an owner and some have none",
                check.owned.span,
                help="give every stage an owner, or none",
            )
        )
    return faults
