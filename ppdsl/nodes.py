"""The parsed layout: run-length items with their places in the text, and an iterative walk over them.

Nothing here recurses, so that a deep layout costs memory and no stack.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from ppdsl.source import Span

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

KINDS = "EtmNL"
"""The layer symbols, in the order in which a valid layout uses them."""

SEPARATORS = " \t\r\n,"
"""What may stand between any two tokens and means nothing."""


@dataclass(frozen=True, slots=True)
class Run:
    """Equal symbols in a row: ``tt``, ``t*3``, ``tt*3`` (a repeat binds to the last symbol), ``||``.

    Attributes:
        kind: One of ``E t m N L |``.
        count: How many symbols it stands for; may be 0.
        start: Offset of its first character.
        end: Offset behind its last character.
        repeat: The repeat count as written; None where none is.
    """

    kind: str
    count: int
    start: int
    end: int
    repeat: int | None = None

    @property
    def span(self) -> Span:
        """The characters of the run, its repeat included."""
        return Span(self.start, self.end)


@dataclass(frozen=True, slots=True)
class Owner:
    """``@rank``: the stage that it ends belongs to pipeline rank ``rank``."""

    rank: int
    start: int
    end: int

    @property
    def span(self) -> Span:
        """The characters of the owner."""
        return Span(self.start, self.end)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Group:
    """A pattern in parentheses, with its repeat.

    Attributes:
        items: What stands inside; never empty.
        repeat: The repeat count as written; None where none is (the pattern then stands once).
        start: Offset of the opening parenthesis.
        end: Offset behind the closing one, or behind the repeat.
    """

    items: tuple[Item, ...]
    repeat: int | None
    start: int
    end: int

    @property
    def count(self) -> int:
        """How many copies of the pattern stand here."""
        return 1 if self.repeat is None else self.repeat

    @property
    def span(self) -> Span:
        """The characters of the group, its repeat included."""
        return Span(self.start, self.end)


Item: TypeAlias = Run | Owner | Group

Value = TypeVar("Value")


def fold(
    items: tuple[Item, ...],
    join: Callable[[list[Run | Owner | Value]], Value],
    power: Callable[[Value, Group], Value],
) -> Value:
    """Compute a value of a layout from the values of its groups, without recursion. A group that ``*0`` removes is not entered.

    Args:
        items: The layout.
        join: The value of items that follow one another: runs and owners as they are, of groups their values.
        power: The value of a group, from the value of its pattern.

    Returns:
        ``join`` of the layout.
    """
    stack: list[tuple[Group | None, Iterator[Item], list[Run | Owner | Value]]] = []
    group: Group | None = None
    rest, parts = iter(items), list[Run | Owner | Value]()
    while True:
        for item in rest:
            if not isinstance(item, Group):
                parts.append(item)
            elif len(item.items) == 1 and isinstance(only := item.items[0], Run) and item.count:  # `(t)`, for speed
                parts.append(power(join([only]), item))
            else:
                stack.append((group, rest, parts))
                group, rest, parts = item, iter(item.items if item.count else ()), []
                break
        else:
            value = join(parts)
            if group is None:
                return value
            value = power(value, group)
            group, rest, parts = stack.pop()
            parts.append(value)
