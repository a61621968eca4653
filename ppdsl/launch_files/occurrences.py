"""Places in a launch file that set something, and the scopes that they stand in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Hashable

    from ppdsl.launch_files.flags import Flag
    from ppdsl.launch_files.settings import Value
    from ppdsl.launch_files.texts import Branch, Text


class FormatError(Exception):
    """A file is not what its format asks for.

    Attributes:
        message: What is wrong; lower case, no full stop.
        start: Offset in the file; None where it is not known.
    """

    def __init__(self, message: str, start: int | None = None) -> None:
        self.message = message
        self.start = start
        super().__init__(message)


class Scope:
    """A part of a file whose settings go together: a command, an array, a mapping, a call.

    Attributes:
        parent: The scope around it; None for the file.
    """

    __slots__ = ("_children", "parent")

    def __init__(self, parent: Scope | None = None) -> None:
        self.parent = parent
        self._children: dict[Hashable, Scope] = {}

    def child(self, label: Hashable) -> Scope:
        """Give the scope of that name inside this one; the same one each time."""
        if label not in self._children:
            self._children[label] = Scope(self)
        return self._children[label]


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One place that sets a flag.

    Attributes:
        flag: Which one.
        key: The flag's own text.
        value: Its value; None where the place says that it is not set. Of no meaning where the text has holes.
        text: The value's text.
        scope: Where it stands.
        branch: The branches that it stands in.
        remark: Why a layout that is named here is not one, to be told where the file has no other.
    """

    flag: Flag
    key: Text
    value: Value
    text: Text
    scope: Scope
    branch: Branch = ()
    remark: str = ""


def compatible(one: Branch, other: Branch) -> bool:
    """Tell whether two places can both be reached in one run."""
    ways = dict(one)
    return all(ways.get(conditional, way) == way for conditional, way in other)


def implied(one: Branch, other: Branch) -> bool:
    """Tell whether whoever reaches ``other`` has reached ``one``."""
    return other[: len(one)] == one
