"""TOML files: checked by the standard library's reader, then scanned for where things stand."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

from ppdsl.launch_files.alignment import BACKSLASH, align
from ppdsl.launch_files.occurrences import FormatError
from ppdsl.launch_files.structured import Mapping, Scalar, Sequence, scan_node
from ppdsl.launch_files.texts import Text

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from ppdsl.launch_files.occurrences import Occurrence, Scope
    from ppdsl.launch_files.structured import Node

_BLANKS = re.compile(r"(?:[\s,]|#[^\n]*)*")
_HEADER = re.compile(r"(\[\[?)([^\n]*?)\]\]?[ \t\r]*(?:#[^\n]*)?(?=\n|\Z)")
_KEY = re.compile(r"""((?:"[^"\\\n]*(?:\\.[^"\\\n]*)*"|'[^'\n]*'|[^='"\n])*)=\s*""")
_VALUE = re.compile(
    r'''"""(?:\r?\n)?(?P<long>[^"\\]*(?:(?:\\.|"{1,2}(?!"))[^"\\]*)*)"{3,5}'''
    r"""|'''(?:\r?\n)?(?P<raw_long>[^']*(?:'{1,2}(?!')[^']*)*)'{3,5}"""
    r"""|"(?P<short>[^"\\\n]*(?:\\.[^"\\\n]*)*)"|'(?P<raw_short>[^'\n]*)'"""
    r"|(?P<bare>[^\s,\[\]{}#\"']+)|(?P<sign>[\[\]{}])",
    re.DOTALL,
)
# The standard library's reader takes time and memory that grow with the square of such a key's length.
_ENDLESS_KEY = re.compile(r"(?<![\w\"'-])(?:[\w\"'-]+[ \t]*\.[ \t]*){200}")
_PLACE = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)\Z")
_INTEGER = re.compile(r"[-+]?[0-9][0-9_]{0,17}\Z", re.ASCII)
_TRUTH = {"true": True, "false": False}


def scan_toml(text: Text, scope: Scope) -> list[Occurrence]:
    """Find what a TOML file sets.

    Args:
        text: The file.
        scope: Its scope.

    Returns:
        What its keys, and the command lines in it, set.

    Raises:
        FormatError: The text is not TOML.
    """
    endless = _ENDLESS_KEY.search(text.chars)
    if endless:
        raise FormatError("a key has over 200 parts", text.at[endless.start()])
    try:
        tomllib.loads(text.chars)
    except tomllib.TOMLDecodeError as error:
        raise _format_error(f"{error}", text) from None
    except RecursionError:
        raise FormatError("the file is nested too deep") from None
    except ValueError:  # a number of more digits than Python reads
        raise FormatError("the file holds a number that is too long") from None
    return scan_node(_root(text), scope)


def _format_error(message: str, text: Text) -> FormatError:
    place = _PLACE.search(message)
    start = len(text.chars)
    if place and place[1]:
        lines = text.chars.splitlines(keepends=True)
        start = min(start, sum(map(len, lines[: int(place[1]) - 1])) + int(place[2]) - 1)
    message = message[: place.start()] if place else message
    return FormatError(f"the file is not valid TOML: {message[:1].lower()}{message[1:]}", text.at[start])


def _root(text: Text) -> Mapping:
    """Build the nodes. The text is known to be TOML. A table's key is the whole path to it, with a number for each table of an array."""
    root = Mapping()
    table = root
    counts: dict[str, int] = {}
    at = _skip(text, 0)
    while at < len(text.chars):
        header = _HEADER.match(text.chars, at)
        if header:
            name = _numbered(header[2], counts, is_array=header[1] == "[[")
            table = Mapping()
            root.entries.append((Scalar(Text(name, [text.at[at]] * (len(name) + 1)), name), table))
            at = header.end()
        else:
            key, at = _key(text, at)
            value, at = _value(text, at)
            table.entries.append((key, value))
        at = _skip(text, at)
    return root


def _skip(text: Text, at: int) -> int:
    blanks = _BLANKS.match(text.chars, at)
    return blanks.end() if blanks else at


def _numbered(header: str, counts: dict[str, int], *, is_array: bool) -> str:
    """Give a table's path, with the number of the table that each array of tables in it stands at."""
    path = ""
    parts = re.sub(r"[\s\"']", "", header).split(".")
    for index, part in enumerate(parts):
        path = f"{path}.{part}" if path else part
        if is_array and index == len(parts) - 1:
            counts[path] = counts.get(path, 0) + 1
        if path in counts:
            path = f"{path}#{counts[path]}"
    return path


def _key(text: Text, at: int) -> tuple[Scalar, int]:
    key = _KEY.match(text.chars, at)
    if key is None:  # not in valid TOML
        return Scalar(text.cut(at, at), ""), len(text.chars)
    name = key[1].strip()
    start = at + len(key[1]) - len(key[1].lstrip())
    raw = text.cut(start, start + len(name))
    if name[:1] in {'"', "'"} and name.find(name[0], 1) == len(name) - 1:
        raw = raw.cut(1, len(name) - 1)
    return Scalar(raw, raw.chars), key.end()


def _value(text: Text, at: int) -> tuple[Node, int]:
    """Read one value, without recursion, and give the offset behind it."""
    top = Sequence()
    holders: list[tuple[Mapping | Sequence, int]] = [(top, at)]
    while not top.items or len(holders) > 1:
        at = _skip(text, at)
        holder, start = holders[-1]
        if text.chars.startswith(("]", "}"), at):
            holders.pop()
            at += 1
            if isinstance(holder, Sequence):
                holder.texts.append(text.cut(start, at))
            continue
        key = Scalar(text.cut(at, at), "")
        if isinstance(holder, Mapping):
            key, at = _key(text, at)
        token = _VALUE.match(text.chars, at)
        if token is None:  # not in valid TOML
            return Scalar(text.cut(at, at), None), len(text.chars)
        node = Mapping() if token["sign"] == "{" else Sequence() if token["sign"] == "[" else _scalar(token, text)
        if isinstance(holder, Sequence):
            holder.items.append(node)
        else:
            holder.entries.append((key, node))
        if not isinstance(node, Scalar):
            holders.append((node, at))
        at = token.end()
    return top.items[0], at


def _scalar(token: re.Match[str], text: Text) -> Scalar:
    kind = token.lastgroup or "bare"
    raw = text.cut(*token.span(kind))
    if kind == "bare":
        chars = raw.chars
        return Scalar(raw, _TRUTH[chars] if chars in _TRUTH else int(chars.replace("_", "")) if _INTEGER.match(chars) else chars)
    if kind in {"long", "short"} and "\\" in raw.chars:
        value = tomllib.loads(f"value = {token[0]}")["value"]
        return Scalar(align(value, raw, BACKSLASH), value)
    return Scalar(raw, raw.chars)
