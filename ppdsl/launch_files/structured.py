"""Mappings, lists and scalars, as YAML, JSON and TOML files hold them: which of their keys set something."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ppdsl.launch_files.command_lines import LONGEST_PATH, Field, scan_words, switch_value
from ppdsl.launch_files.flags import find_flag, mentions_flag
from ppdsl.launch_files.occurrences import FormatError, Occurrence
from ppdsl.launch_files.shell import scan_string
from ppdsl.launch_files.texts import Text, Unknown, hole

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TypeAlias

    from ppdsl.launch_files.flags import Flag
    from ppdsl.launch_files.occurrences import Scope

_INTERPOLATION = re.compile(r"\$\{|\$\(|\{\{")
_MOST_ENTRIES = 1 << 20
_MOST_MERGED = 100_000
_DEEPEST_LIST = 20


@dataclass(frozen=True, slots=True, eq=False)
class Scalar:
    """A value that holds no others: its text, and what the format makes of it."""

    text: Text
    value: str | int | float | bool | None


@dataclass(frozen=True, slots=True, eq=False)
class Sequence:
    """A list, and its whole text."""

    items: list[Node] = field(default_factory=list)
    texts: list[Text] = field(default_factory=list)

    @property
    def text(self) -> Text:
        """The whole text, brackets included; empty while it is being read."""
        return self.texts[0]


@dataclass(frozen=True, slots=True, eq=False)
class Mapping:
    """Keys and values in the order of the file."""

    entries: list[tuple[Node, Node]] = field(default_factory=list)


Node: TypeAlias = "Scalar | Sequence | Mapping"


def scan_node(root: Node, scope: Scope) -> list[Occurrence]:
    """Find what a document sets. Nodes that stand in several places are looked at once.

    Args:
        root: The document.
        scope: Its scope.

    Returns:
        What its keys, and the command lines in it, set.

    Raises:
        FormatError: Merge keys bring in more entries than can be looked at.
    """
    return _Walk().scan(root, scope)


class _Walk:
    """The walk over one document, without recursion."""

    def __init__(self) -> None:
        self._seen: set[int] = set()
        self._known: dict[int, list[tuple[Scalar, Flag, Scalar | Sequence]]] = {}
        self._merging: dict[int, list[Node]] = {}
        self._left = _MOST_MERGED

    def scan(self, root: Node, scope: Scope) -> list[Occurrence]:
        found: list[Occurrence] = []
        waiting: list[tuple[Node, Scope]] = [(root, scope)]
        while waiting:
            node, around = waiting.pop()
            inside: list[Occurrence | tuple[Node, Scope]]
            if isinstance(node, Scalar):
                found += scan_string(node.text, around) if isinstance(node.value, str) else []
            elif id(node) not in self._seen:
                self._seen.add(id(node))
                inside = list(self._mapping(node, around) if isinstance(node, Mapping) else self._sequence(node, around))
                found += (one for one in inside if isinstance(one, Occurrence))
                waiting += reversed([one for one in inside if not isinstance(one, Occurrence)])
        return found

    def _sequence(self, node: Sequence, scope: Scope) -> Iterator[Occurrence | tuple[Node, Scope]]:
        words = [Field(item.text) if isinstance(item, Scalar) else None for item in node.items]
        if any(word is not None and mentions_flag(word.text.chars) for word in words):
            yield from scan_words(words, scope.child("arguments"))
        for index, (item, word) in enumerate(zip(node.items, words, strict=True)):
            if word is None or " " in word.text.chars:
                yield item, scope.child(index)

    def _mapping(self, node: Mapping, scope: Scope) -> Iterator[Occurrence | tuple[Node, Scope]]:
        for key, flag, value in [*self._merged(node), *self._flags(node)]:
            *path, last = key.text.chars.split(".")
            start = len(key.text.chars) - len(last)
            yield from _set(flag, key.text.cut(start, len(key.text.chars)), value, _inside(scope, path))
        for name, inner in node.entries:
            *path, last = name.text.chars.split(".") if isinstance(name, Scalar) else [""]
            if last != "<<" and (isinstance(inner, Mapping) or find_flag(last) is None):
                yield inner, _inside(scope, path).child(last)

    def _flags(self, node: Mapping) -> list[tuple[Scalar, Flag, Scalar | Sequence]]:
        """Give the entries of a mapping that set something."""
        if id(node) not in self._known:
            self._known[id(node)] = [
                (key, flag, value)
                for key, value in node.entries
                if isinstance(key, Scalar)
                and not isinstance(value, Mapping)
                and (flag := find_flag(key.text.chars.rpartition(".")[2])) is not None
            ]
        return self._known[id(node)]

    def _merged(self, node: Mapping) -> list[tuple[Scalar, Flag, Scalar | Sequence]]:
        """Give the entries that merge keys bring in and that set something; what counts more stands further behind."""
        found: list[list[tuple[Scalar, Flag, Scalar | Sequence]]] = []
        seen: set[int] = set()
        waiting = list(reversed(self._merged_nodes(node)))
        while waiting:
            merged = waiting.pop()
            if id(merged) in seen:
                continue
            seen.add(id(merged))
            self._left -= 1
            if isinstance(merged, Sequence):
                waiting += reversed(merged.items)
            if isinstance(merged, Mapping):
                waiting += reversed(self._merged_nodes(merged))
                found.append(self._flags(merged))
                self._left -= len(found[-1])
            if self._left < 0:
                raise FormatError("merge keys bring in too many entries")
        return [entry for entries in reversed(found) for entry in entries]

    def _merged_nodes(self, node: Mapping) -> list[Node]:
        if id(node) not in self._merging:
            self._merging[id(node)] = [value for key, value in node.entries if isinstance(key, Scalar) and key.text.chars == "<<"]
        return self._merging[id(node)]


def _inside(scope: Scope, path: list[str]) -> Scope:
    for part in path[-LONGEST_PATH:]:
        scope = scope.child(part)
    return scope


def _set(flag: Flag, key: Text, node: Scalar | Sequence, scope: Scope) -> Iterator[Occurrence]:
    if isinstance(node, Sequence):
        if flag.holds_layout:
            value, place = plain_list(node), node.text.span
            text = node.text if value is not None else hole(Unknown(place.start, place.end, "this list is too large to be written out"))
            yield Occurrence(flag, key, value or "", text, scope)
    elif node.value is None:
        yield Occurrence(flag, key, None, node.text, scope, remark="null here")
    elif isinstance(node.value, str) and (told := _INTERPOLATION.search(node.text.chars)):
        place = node.text.cut(told.start(), len(node.text.chars)).span
        yield Occurrence(flag, key, "", hole(Unknown(place.start, place.end, "this is filled in when the file is used")), scope)
    else:
        yield Occurrence(flag, key, switch_value(flag, node.value), node.text, scope)


class _TooLargeError(Exception):
    """A list is too large, or lists stand too deep inside one another."""


def plain_list(node: Sequence) -> list[object] | None:
    """Give a list of values, lists inside included, an empty dict for each mapping; None where it is too large or too deep."""
    left = _MOST_ENTRIES

    def convert(inner: Node, depth: int) -> object:
        nonlocal left
        if isinstance(inner, Scalar):
            return inner.value
        if isinstance(inner, Mapping):
            return {}
        left -= len(inner.items)
        if depth > _DEEPEST_LIST or left < 0:
            raise _TooLargeError
        return [convert(item, depth + 1) for item in inner.items]

    try:
        return [convert(item, 1) for item in node.items]
    except _TooLargeError:
        return None
