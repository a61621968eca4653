"""Faults of syntax that the grammar cannot express: where owners stand (PP109), and `*0` over nested groups (PP112)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ppdsl.nodes import Group, Item, Owner, Run, fold
from ppdsl.parsing.rules import NESTED_REMOVAL, OWNER_PLACE

if TYPE_CHECKING:
    from ppdsl.diagnostics import Diagnostic


def check_removals(items: tuple[Item, ...]) -> list[Diagnostic]:
    """Report each ``*0`` behind a group that holds a group."""
    faults = []
    stack = [*reversed(items)]
    while stack:
        item = stack.pop()
        if not isinstance(item, Group):
            continue
        if item.repeat == 0 and any(isinstance(inner, Group) for inner in item.items):
            faults.append(
                NESTED_REMOVAL.report(
                    "`*0` on a group that holds a group",
                    item.span,
                    notes=["Megatron-LM removes another part of the text than this group"],
                    help="delete the group",
                )
            )
        else:
            stack.extend(reversed(item.items))
    return faults


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of one stage: what of it counts for owners."""

    filled: bool = False
    owner: Owner | None = None


_NOTHING = _Part()


@dataclass(frozen=True, slots=True)
class _Stretch:
    """Items in a row: one part of a stage, or, where bars stand between, the first and the last part."""

    head: _Part
    tail: _Part | None = None


class _OwnerCheck:
    """The fold over a layout that sees where owners stand; faults gather in ``misplaced``, whole stages in the rest."""

    def __init__(self) -> None:
        self.misplaced: dict[int, Diagnostic] = {}
        self.owned: Owner | None = None
        self.unowned = False

    def leaf(self, item: Run | Owner) -> _Stretch:
        if isinstance(item, Owner):
            return _Stretch(_Part(filled=True, owner=item))
        if item.kind == "|" and item.count:
            if item.count > 1:
                self.unowned = True
            return _Stretch(_NOTHING, _NOTHING)
        return _Stretch(_Part(filled=item.count > 0))

    def join(self, stretches: list[_Stretch]) -> _Stretch:
        whole = _Stretch(_NOTHING)
        for stretch in stretches:
            whole = self._append(whole, stretch)
        return whole

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
            self.misplaced[before.owner.start] = fault
        return _Part(before.filled or after.filled, after.owner or before.owner)


def check_owners(items: tuple[Item, ...]) -> list[Diagnostic]:
    """Report owners that are not the last thing in their stage, twice in it, or on some stages only."""
    check = _OwnerCheck()
    whole = fold(items, check.leaf, check.join, check.power)
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
