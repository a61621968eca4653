"""What an expression of a Python file is, where literals tell it. Nothing is executed."""

from __future__ import annotations

import ast
import re
from itertools import accumulate
from typing import TYPE_CHECKING

from ppdsl.launch_files.alignment import BACKSLASH, align
from ppdsl.launch_files.occurrences import implied
from ppdsl.launch_files.python_names import Evaluated, UnresolvedError
from ppdsl.launch_files.texts import Choice, Text, Unknown, hole, join

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ppdsl.launch_files.python_names import Names
    from ppdsl.launch_files.texts import Branch

_LITERAL = re.compile(r"([A-Za-z]*)('''|\"\"\"|'|\")")
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n|\Z)")
_EXPRESSION = re.compile(r"\{[^{}]*\}")
_DEEPEST = 50
_LONGEST_NUMBER = 256  # bits; Python refuses to write numbers of over 4,300 digits out
_LARGEST = 1 << 20


class Places:
    """Maps lines and columns, as the parser counts them, to offsets.

    Args:
        text: The file.
    """

    def __init__(self, text: Text) -> None:
        self.text = text
        self._lines = _LINE.findall(text.chars)
        self._starts = [0, *accumulate(map(len, self._lines))]

    def place(self, line: int | None, column: int | None) -> int | None:
        """Give the offset in the file of a line and a column in characters, both counted from 1; None where there is none such."""
        if not line or not column or line > len(self._lines):
            return None
        return self.text.at[min(self._starts[line - 1] + column - 1, len(self.text.chars))]

    def offset(self, line: int, column: int) -> int:
        """Give the offset of a line counted from 1 and a column in bytes of UTF-8."""
        content = self._lines[line - 1]
        return self._starts[line - 1] + (column if content.isascii() else len(content.encode()[:column].decode(errors="ignore")))

    def text_of(self, node: ast.expr | ast.keyword | ast.arg) -> Text:
        """Give the whole text of an expression."""
        start = self.offset(node.lineno, node.col_offset)
        end = self.offset(node.end_lineno or node.lineno, node.end_col_offset or node.col_offset)
        return self.text.cut(start, end)

    def string(self, node: ast.Constant, value: str) -> Text:
        """Give a string, each character with its place; of several literals in a row, each has its own."""
        raw = self.text_of(node)
        parts: list[Text] = []
        at = done = 0
        while done <= len(value) and (literal := _next_literal(raw.chars, at)) is not None:
            start, end, escapes, at = literal
            inside = raw.cut(start, end)
            length = len(value) - done if _next_literal(raw.chars, at) is None else _length(inside.chars, is_raw=escapes is None)
            parts.append(align(value[done : done + length], inside, escapes))
            done += length
        return join(parts) if parts else Text(value, [raw.at[0]] * (len(value) + 1))

    def pattern(self, node: ast.JoinedStr) -> Text:
        """Give an f-string with a hole for each of its expressions; escapes stay as they are written."""
        raw = self.text_of(node)
        parts: list[Text] = []
        at = 0
        while (literal := _next_literal(raw.chars, at)) is not None:
            start, end, _, at = literal
            for expression in _EXPRESSION.finditer(raw.chars, start, end):
                place = raw.cut(*expression.span()).span
                parts.append(raw.cut(start, expression.start()))
                parts.append(hole(Unknown(place.start, place.end, "this is told only by running the file", external=True)))
                start = expression.end()
            parts.append(raw.cut(start, end))
        return join(parts) if parts else raw


def _next_literal(chars: str, at: int) -> tuple[int, int, re.Pattern[str] | None, int] | None:
    opening = _LITERAL.search(chars, at)
    if opening is None:
        return None
    quote = opening[2]
    end = opening.end()
    while end < len(chars) and not chars.startswith(quote, end):
        end += 2 if chars[end] == "\\" else 1
    return opening.end(), min(end, len(chars)), None if "r" in opening[1].lower() else BACKSLASH, end + len(quote)


def _length(inside: str, *, is_raw: bool) -> int:
    """Count the characters that the inside of a literal stands for."""
    inside = inside.replace("\r\n", "\n")
    if is_raw or "\\" not in inside:
        return len(inside)
    return sum(not escape[0][1:].startswith("\n") for escape in re.finditer(rf"{BACKSLASH.pattern}|[^\\]", inside, re.DOTALL))


def evaluate(node: ast.expr, names: Names, places: Places, depth: int = 0) -> Evaluated:
    """Tell the value of an expression.

    Args:
        node: The expression.
        names: The names that can be seen where it stands.
        places: The file's places.
        depth: How many expressions it stands inside of.

    Returns:
        The value. Where a name has another value in each branch, the text is a hole with choices.

    Raises:
        UnresolvedError: The value cannot be told.
    """
    if depth > _DEEPEST:
        raise UnresolvedError(node, "this is not worked out: it is nested too deep", stated=True)
    reader = _READERS.get(type(node))
    if reader is None:
        raise UnresolvedError(node, "this is told only by running the file", stated=isinstance(node, ast.JoinedStr | ast.IfExp))
    return reader(node, names, places, depth)


def _constant(node: ast.Constant, _names: Names, places: Places, _depth: int) -> Evaluated:
    value = node.value
    if isinstance(value, str):
        return Evaluated(value, places.string(node, value), 1 + len(value))
    if value is None or isinstance(value, float) or (isinstance(value, int) and value.bit_length() <= _LONGEST_NUMBER):
        return Evaluated(value, places.text_of(node))
    raise UnresolvedError(node, "this is neither text nor a number of reasonable length", stated=True)


def _negated(node: ast.UnaryOp, _names: Names, places: Places, _depth: int) -> Evaluated:
    value = node.operand.value if isinstance(node.operand, ast.Constant) else None
    if not isinstance(node.op, ast.USub) or not isinstance(value, int | float) or value > _LARGEST:
        raise UnresolvedError(node, "this is not worked out", stated=isinstance(value, str))
    return Evaluated(-value, places.text_of(node))


def _member(node: ast.Attribute, _names: Names, places: Places, _depth: int) -> Evaluated:
    """Tell a member of Megatron's enumeration of layers, whose name is the layer's."""
    if isinstance(node.value, ast.Name) and node.value.id == "LayerType":
        return Evaluated(node.attr, places.text_of(node))
    raise UnresolvedError(node, "this is told only by running the file", stated=False)


def _part(node: ast.expr, names: Names, places: Places, depth: int, whole: ast.expr) -> Evaluated:
    """Evaluate a part of an expression of which another part is a literal, most likely."""
    try:
        return evaluate(node, names, places, depth + 1)
    except UnresolvedError as error:
        others = (part for part in ast.iter_child_nodes(whole) if part is not node)
        stated = error.stated or any(isinstance(part, ast.List | ast.JoinedStr) or _is_string(part) for part in others)
        raise UnresolvedError(error.node, error.reason, stated=stated) from None


def _list(node: ast.List | ast.Tuple, names: Names, places: Places, depth: int) -> Evaluated:
    items = [_part(item, names, places, depth, node) for item in node.elts]
    for item, part in zip(node.elts, items, strict=True):
        if part.text.holes:
            raise UnresolvedError(item, part.text.holes[0][1].reason, stated=True)
    return Evaluated([item.value for item in items], places.text_of(node), 1 + sum(item.size for item in items))


def _is_string(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _operation(node: ast.BinOp, names: Names, places: Places, depth: int) -> Evaluated:
    left = _part(node.left, names, places, depth, node)
    right = _part(node.right, names, places, depth, node)
    if isinstance(node.op, ast.Mult) and isinstance(left.value, int):
        left, right = right, left
    one, other = left.value, right.value
    if isinstance(node.op, ast.Add) and left.size + right.size <= _LARGEST:
        if isinstance(one, str) and isinstance(other, str):
            return Evaluated(one + other, join([left.text, right.text]), left.size + right.size)
        if isinstance(one, list) and isinstance(other, list):
            return Evaluated(one + other, places.text_of(node), left.size + right.size)
    if isinstance(node.op, ast.Mult) and isinstance(other, int) and left.size * other <= _LARGEST:
        if isinstance(one, list):
            return Evaluated(one * other, places.text_of(node), left.size * max(other, 0) + 1)
        if isinstance(one, str):
            repeated = join([left.text] * other) if other > 0 else left.text.cut(0, 0)
            return Evaluated(one * other, repeated, left.size * max(other, 0) + 1)
    raise UnresolvedError(node, "this is not worked out", stated=isinstance(one, str | list) or isinstance(other, str | list))


def _name(node: ast.Name, names: Names, places: Places, depth: int) -> Evaluated:
    owner = names.find(node.id)
    if owner is None:
        raise UnresolvedError(node, f"{node.id} is not bound in this file", stated=False)
    if node.id not in owner.known:
        owner.known[node.id] = UnresolvedError(node, f"{node.id} is bound to itself", stated=False)
        try:
            owner.known[node.id] = _bound(node, owner, places, depth)
        except UnresolvedError as error:
            owner.known[node.id] = error
    known = owner.known[node.id]
    if isinstance(known, UnresolvedError):
        raise UnresolvedError(node, known.reason, stated=known.stated)
    return known


def _bound(node: ast.Name, owner: Names, places: Places, depth: int) -> Evaluated:
    values: list[tuple[Evaluated, Branch]] = []
    for value, branch in owner.bound[node.id]:
        if value is None:
            raise UnresolvedError(node, f"{node.id} is known only when the file runs", stated=False)
        values = [kept for kept in values if not implied(branch, kept[1])]
        values.append((evaluate(value, owner, places, depth + 1), branch))
    return values[0][0] if len(values) == 1 else _choice(node, values, places)


def _choice(node: ast.Name, values: Sequence[tuple[Evaluated, Branch]], places: Places) -> Evaluated:
    said = [(one, branch) for one, branch in values if one.value is not None]
    if not all(isinstance(one.value, str | int) and not one.text.holes for one, _ in said):
        raise UnresolvedError(node, f"{node.id} is bound {len(values)} times", stated=True)
    span = places.text_of(node).span
    choices = tuple(Choice(branch, one.text) for one, branch in said)
    return Evaluated("", hole(Unknown(span.start, span.end, f"{node.id} depends on which branch runs", choices=choices)))


_READERS: dict[type[ast.expr], Callable[..., Evaluated]] = {
    ast.Attribute: _member,
    ast.BinOp: _operation,
    ast.Constant: _constant,
    ast.List: _list,
    ast.Name: _name,
    ast.Tuple: _list,
    ast.UnaryOp: _negated,
}
