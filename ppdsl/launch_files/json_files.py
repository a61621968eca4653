"""JSON files: checked by the standard library's reader, then scanned for where things stand."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from ppdsl.launch_files.alignment import BACKSLASH, align
from ppdsl.launch_files.occurrences import FormatError
from ppdsl.launch_files.structured import Mapping, Scalar, Sequence, scan_node

if TYPE_CHECKING:
    from ppdsl.launch_files.occurrences import Occurrence, Scope
    from ppdsl.launch_files.structured import Node
    from ppdsl.launch_files.texts import Text

_TOKEN = re.compile(r'"([^"\\]*(?:\\.[^"\\]*)*)"|[\[\]{}]|-?[0-9][-+.0-9eE]*|[A-Za-z]+')
_LONGEST_NUMBER = 18
_WORDS = {"true": True, "false": False, "null": None}


def scan_json(text: Text, scope: Scope) -> list[Occurrence]:
    """Find what a JSON file sets.

    Args:
        text: The file.
        scope: Its scope.

    Returns:
        What its keys, and the command lines in it, set.

    Raises:
        FormatError: The text is not JSON.
    """
    try:
        json.loads(text.chars, parse_int=float, parse_float=float)
    except json.JSONDecodeError as error:
        message = f"{error.msg[:1].lower()}{error.msg[1:]}"
        raise FormatError(f"the file is not valid JSON: {message}", text.at[min(error.pos, len(text.chars))]) from None
    except RecursionError:
        raise FormatError("the file is nested too deep") from None
    return scan_node(_root(text), scope)


def _root(text: Text) -> Node:
    """Build the nodes, without recursion. The text is known to be JSON, so that commas and colons tell nothing new."""
    top = Sequence()
    open_nodes: list[tuple[Mapping | Sequence, int]] = [(top, 0)]
    keys: list[Node | None] = [None]
    for token in _TOKEN.finditer(text.chars):
        if token[0] in {"]", "}"}:
            node, start = open_nodes.pop()
            keys.pop()
            if isinstance(node, Sequence):
                node.texts.append(text.cut(start, token.end()))
            continue
        made = Mapping() if token[0] == "{" else Sequence() if token[0] == "[" else _scalar(token, text)
        holder = open_nodes[-1][0]
        key = keys[-1]
        if isinstance(holder, Sequence):
            holder.items.append(made)
        elif key is None:
            keys[-1] = made
        else:
            holder.entries.append((key, made))
            keys[-1] = None
        if not isinstance(made, Scalar):
            open_nodes.append((made, token.start()))
            keys.append(None)
    return top.items[0]


def _scalar(token: re.Match[str], text: Text) -> Scalar:
    raw = text.cut(*token.span(1 if token[1] is not None else 0))
    if token[1] is not None:
        value = json.loads(token[0], strict=False) if "\\" in token[0] else token[1]
        return Scalar(align(value, raw, BACKSLASH), value)
    if token[0] in _WORDS:
        return Scalar(raw, _WORDS[token[0]])
    if len(token[0]) > _LONGEST_NUMBER or not token[0].lstrip("-").isdigit():
        return Scalar(raw, float(token[0]))
    return Scalar(raw, int(token[0]))
