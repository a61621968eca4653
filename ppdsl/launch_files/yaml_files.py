"""YAML files, by PyYAML's events: no tag is built, and an alias is not expanded but points at the node that it names."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import yaml

from ppdsl.launch_files.alignment import BACKSLASH, DOUBLED_QUOTE, align
from ppdsl.launch_files.occurrences import FormatError
from ppdsl.launch_files.structured import Mapping, Scalar, Sequence, scan_node

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ppdsl.launch_files.occurrences import Occurrence, Scope
    from ppdsl.launch_files.structured import Node
    from ppdsl.launch_files.texts import Text

_DEEPEST = 500
_PROPERTIES = re.compile(r"(?:[&!][^\s,\[\]{}]*\s*)*")
_BLOCK_HEADER = re.compile(r"[|>][^\n]*\n?")
_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_TRUTH = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
_INTEGER = re.compile(r"[-+]?[0-9][0-9_]{0,17}\Z", re.ASCII)
_DECIMAL = re.compile(r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?\Z", re.ASCII)


def scan_yaml(text: Text, scope: Scope) -> list[Occurrence]:
    """Find what a YAML file sets.

    Args:
        text: The file.
        scope: Its scope; each document has one inside.

    Returns:
        What its keys, and the command lines in it, set.

    Raises:
        FormatError: The text is not YAML.
    """
    found: list[Occurrence] = []
    try:
        for index, document in enumerate(_documents(text)):
            found += scan_node(document, scope.child(index))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise FormatError(f"the file is not valid YAML: {error.problem or error.context}", text.at[mark.index] if mark else None) from None
    except yaml.YAMLError as error:  # a character that YAML does not allow
        place = getattr(error, "position", None)
        start = text.at[place] if isinstance(place, int) and place <= len(text.chars) else None
        raise FormatError("the file is not valid YAML: it holds a character that YAML does not allow", start) from None
    return found


def _documents(text: Text) -> Iterator[Node]:
    """Build the nodes of each document, without recursion."""
    builder = _Builder(text)
    for event in yaml.parse(text.chars, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
        if isinstance(event, yaml.DocumentStartEvent):
            builder = _Builder(text)
        elif isinstance(event, yaml.DocumentEndEvent) and builder.root is not None:
            yield builder.root
        elif isinstance(event, yaml.NodeEvent):
            builder.add(event)
        elif isinstance(event, yaml.CollectionEndEvent):
            builder.close(event)


class _Builder:
    """The nodes of one document, while its events come in."""

    def __init__(self, text: Text) -> None:
        self.root: Node | None = None
        self._text = text
        self._anchors: dict[str, Node] = {}
        self._open: list[tuple[Mapping | Sequence, int]] = []
        self._keys: list[Node | None] = []

    def add(self, event: yaml.NodeEvent) -> None:
        start = _index(event.start_mark)
        if isinstance(event, yaml.AliasEvent):
            if event.anchor not in self._anchors:
                raise FormatError(f"the file is not valid YAML: found undefined alias {event.anchor!r}", self._text.at[start])
            self._put(self._anchors[event.anchor])
            return
        node: Node
        if isinstance(event, yaml.ScalarEvent):
            node = _scalar(event, self._text)
        else:
            node = Mapping() if isinstance(event, yaml.MappingStartEvent) else Sequence()
        if event.anchor:
            self._anchors[event.anchor] = node
        self._put(node)
        if not isinstance(node, Scalar):
            if len(self._open) >= _DEEPEST:
                raise FormatError(f"the file is nested over {_DEEPEST} deep", self._text.at[start])
            self._open.append((node, start))
            self._keys.append(None)

    def close(self, event: yaml.CollectionEndEvent) -> None:
        node, start = self._open.pop()
        self._keys.pop()
        if isinstance(node, Sequence):
            end = start + len(self._text.chars[start : _index(event.end_mark)].rstrip())
            node.texts.append(self._text.cut(start, end))

    def _put(self, node: Node) -> None:
        if not self._open:
            self.root = node
            return
        holder, key = self._open[-1][0], self._keys[-1]
        if isinstance(holder, Sequence):
            holder.items.append(node)
        elif key is None:
            self._keys[-1] = node
        else:
            holder.entries.append((key, node))
            self._keys[-1] = None


def _index(mark: object) -> int:
    index: int = getattr(mark, "index", 0)  # the marks of PyYAML's two parsers have no type in common
    return index


def _scalar(event: yaml.ScalarEvent, text: Text) -> Scalar:
    start, end = _index(event.start_mark), _index(event.end_mark)
    if event.anchor or event.tag:
        properties = _PROPERTIES.match(text.chars, start, end)
        start = properties.end() if properties else start
    style = event.style or ""
    if style in {"|", ">"}:
        header = _BLOCK_HEADER.match(text.chars, start, end)
        return Scalar(align(event.value, text.cut(header.end() if header else start, end)), event.value)
    if style:
        return Scalar(align(event.value, text.cut(start + 1, end - 1), BACKSLASH if style == '"' else DOUBLED_QUOTE), event.value)
    return Scalar(align(event.value, text.cut(start, end)), _plain_value(event.value))


def _plain_value(value: str) -> str | int | float | bool | None:
    if value in _NULLS:
        return None
    if _INTEGER.match(value):
        return int(value.replace("_", ""))
    if _DECIMAL.match(value):
        return float(value)
    return _TRUTH.get(value.lower(), value)
