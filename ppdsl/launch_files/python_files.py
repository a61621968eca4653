"""Python files: keywords, attributes, names and dictionary keys that set something, and command lines in strings and lists of strings.

The file is parsed, never executed. Names that are bound to literals are followed; ``+`` and ``*`` of strings and lists are worked out.
"""

from __future__ import annotations

import ast
import warnings
from dataclasses import replace
from typing import TYPE_CHECKING

from ppdsl.launch_files.command_lines import Field, scan_words, switch_value
from ppdsl.launch_files.flags import find_flag, mentions_flag
from ppdsl.launch_files.occurrences import FormatError, Occurrence
from ppdsl.launch_files.python_names import Place, UnresolvedError, bind_names
from ppdsl.launch_files.python_values import Places, evaluate
from ppdsl.launch_files.shell import scan_string
from ppdsl.launch_files.texts import Unknown, hole

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ppdsl.launch_files.occurrences import Scope
    from ppdsl.launch_files.texts import Text

_PRINTING = frozenset({"print", "debug", "info", "warning", "error", "exception", "critical", "log"})
_PASSED_ON = "passed on here"


def scan_python(text: Text, scope: Scope) -> list[Occurrence]:
    """Find what a Python file sets.

    Args:
        text: The file.
        scope: Its scope.

    Returns:
        What stands in it, in the order of the file.

    Raises:
        FormatError: The text is not Python, or is nested too deep.
    """
    places = Places(text)
    reader = _Reader(_parse(text, places), places, scope)
    return list(reader.read())


def _parse(text: Text, places: Places) -> ast.Module:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what the file's author wrote is not ours to warn of
            return ast.parse(text.chars)
    except SyntaxError as error:
        message = f"the file is not valid Python: {error.msg[:1].lower()}{error.msg[1:]}"
        raise FormatError(message, places.place(error.lineno, error.offset)) from None
    except (RecursionError, MemoryError):
        raise FormatError("the file is nested too deep") from None


class _Reader:
    """Walks over a module, without recursion."""

    def __init__(self, module: ast.Module, places: Places, scope: Scope) -> None:
        self._places = places
        self._tables = bind_names(module, scope)
        self._layout_names = {
            target.id
            for node in ast.walk(module)
            if isinstance(node, ast.Assign)
            and any(isinstance(part, ast.Constant) and isinstance(part.value, str) and "|" in part.value for part in ast.walk(node.value))
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        self._start = Place(module, scope, self._tables[id(module)], ())

    def read(self) -> Iterator[Occurrence]:
        """Give what is set, in the order of the file."""
        waiting = [self._start]
        while waiting:
            inside: list[Place] = []
            for one in self._visit(waiting.pop()):
                if isinstance(one, Place):
                    inside.append(one)
                else:
                    yield one
            waiting += reversed(inside)

    def _visit(self, place: Place) -> Iterator[Occurrence | Place]:
        visit = _VISITS.get(type(place.node))
        if visit is not None:
            yield from visit(self, place.node, place)
        else:
            yield from place.children(self._tables)

    def _assignment(self, node: ast.Assign | ast.AnnAssign, place: Place) -> Iterator[Occurrence | Place]:
        if node.value is None:
            return
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            *path, name = _chain(target)
            scope = place.scope
            for part in path:
                scope = scope.child(part)
            end = self._places.text_of(target)
            start = end.chars.rfind(name)
            yield from self._set(name, end.cut(start, start + len(name)), node.value, replace(place, scope=scope))
        yield replace(place, node=node.value)

    def _call(self, node: ast.Call, place: Place) -> Iterator[Occurrence | Place]:
        if _chain(node.func)[-1] in _PRINTING:
            return
        inside = replace(place, scope=place.scope.child(("call", node.lineno, node.col_offset, node.end_col_offset)))
        yield replace(place, node=node.func)
        for argument in node.args:
            yield replace(inside, node=argument)
        for keyword in node.keywords:
            if keyword.arg:
                key = self._places.text_of(keyword)
                yield from self._set(keyword.arg, key.cut(0, len(keyword.arg)), keyword.value, inside)
            if keyword.arg != "help":
                yield replace(inside, node=keyword.value)

    def _dict(self, node: ast.Dict, place: Place) -> Iterator[Occurrence | Place]:
        inside = replace(place, scope=place.scope.child(("dict", node.lineno, node.col_offset)))
        for key, value in zip(node.keys, node.values, strict=True):
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                yield from self._set(key.value, self._places.string(key, key.value), value, inside)
            yield replace(inside, node=value)

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, place: Place) -> Iterator[Occurrence | Place]:
        inside = list(place.children(self._tables))
        arguments = [*node.args.posonlyargs, *node.args.args]
        first = len(arguments) - len(node.args.defaults)
        pairs = [*zip(arguments[first:], node.args.defaults, strict=True), *zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)]
        for argument, default in pairs:
            if default is not None and inside:
                yield from self._set(argument.arg, self._places.text_of(argument).cut(0, len(argument.arg)), default, inside[0])
        yield from inside

    def _list(self, node: ast.List | ast.Tuple, place: Place) -> Iterator[Occurrence | Place]:
        fields = [self._field(item, place) for item in node.elts]
        flagged = any(mentions_flag(field.text.chars) for field in fields)
        if flagged:
            yield from self._in_branch(scan_words(fields, place.scope.child(("list", node.lineno, node.col_offset)), loose=True), place)
        for item, field in zip(node.elts, fields, strict=True):
            if not flagged or field.text.holes or " " in field.text.chars:
                yield replace(place, node=item)

    def _field(self, item: ast.expr, place: Place) -> Field:
        try:
            known = evaluate(item, place.names, self._places)
        except UnresolvedError as error:
            span = self._places.text_of(item).span
            return Field(hole(Unknown(span.start, span.end, error.reason, external=True)))
        return Field(known.text)

    def _constant(self, node: ast.Constant, place: Place) -> Iterator[Occurrence | Place]:
        if isinstance(node.value, str) and mentions_flag(node.value):
            yield from self._in_branch(scan_string(self._places.string(node, node.value), place.scope), place)

    def _pattern(self, node: ast.JoinedStr, place: Place) -> Iterator[Occurrence | Place]:
        yield from self._in_branch(scan_string(self._places.pattern(node), place.scope), place)

    def _in_branch(self, found: Iterable[Occurrence], place: Place) -> Iterator[Occurrence]:
        for one in found:
            branch = place.branch + one.branch
            if one.flag.holds_layout and one.text.holes and len(one.text.chars) == 1 and one.text.choice is None:
                yield replace(one, branch=branch, value=None, remark=_PASSED_ON)
            else:
                yield replace(one, branch=branch)

    def _states_layout(self, node: ast.expr) -> bool:
        """Tell whether an expression makes a layout of what stands in this file: of text with bars, of numbers, or of names bound to those.

        Names and attributes alone only pass on what is said elsewhere; ``layouts[pp, vpp]`` or ``build(8)`` do not.
        """
        for part in ast.walk(node):
            if isinstance(part, ast.Constant):
                number = isinstance(part.value, int | float) and not isinstance(part.value, bool)
                if number or (isinstance(part.value, str) and "|" in part.value):
                    return True
            if isinstance(part, ast.Name) and part is not node and part.id in self._layout_names:
                return True
        return False

    def _set(self, name: str, key: Text, node: ast.expr, place: Place) -> Iterator[Occurrence]:
        flag = find_flag(name)
        if flag is None or isinstance(node, ast.Dict):
            return
        try:
            known = evaluate(node, place.names, self._places)
        except UnresolvedError as error:
            if flag.holds_layout and not error.stated and not self._states_layout(node):
                yield Occurrence(flag, key, None, self._places.text_of(node), place.scope, place.branch, _PASSED_ON)
                return
            span = self._places.text_of(error.node).span
            text = hole(Unknown(span.start, span.end, error.reason))
            yield Occurrence(flag, key, "", text, place.scope, place.branch)
            return
        if isinstance(known.value, list) and not flag.holds_layout:
            return
        remark = "None here" if known.value is None else ""
        yield Occurrence(flag, key, switch_value(flag, known.value), known.text, place.scope, place.branch, remark)


def _chain(node: ast.expr) -> list[str]:
    """Give the names of an attribute or a subscript with a string, outermost first; one that is empty for anything else."""
    names: list[str] = []
    while not isinstance(node, ast.Name):
        if isinstance(node, ast.Attribute):
            names.append(node.attr)
            node = node.value
        elif isinstance(node, ast.Subscript):
            names.append(node.slice.value if isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str) else "")
            node = node.value
        elif isinstance(node, ast.Call) and names:
            node = node.func
        else:
            return [*reversed(names)] or [""]
    return [node.id, *reversed(names)]


_VISITS: dict[type[ast.AST], Callable[..., Iterator[Occurrence | Place]]] = {
    ast.Assign: _Reader._assignment,  # noqa: SLF001 -- the class's own methods, by the node that they visit
    ast.AnnAssign: _Reader._assignment,  # noqa: SLF001 -- the same
    ast.Call: _Reader._call,  # noqa: SLF001 -- the same
    ast.Dict: _Reader._dict,  # noqa: SLF001 -- the same
    ast.FunctionDef: _Reader._function,  # noqa: SLF001 -- the same
    ast.AsyncFunctionDef: _Reader._function,  # noqa: SLF001 -- the same
    ast.Lambda: _Reader._function,  # noqa: SLF001 -- the same
    ast.List: _Reader._list,  # noqa: SLF001 -- the same
    ast.Tuple: _Reader._list,  # noqa: SLF001 -- the same
    ast.Constant: _Reader._constant,  # noqa: SLF001 -- the same
    ast.JoinedStr: _Reader._pattern,  # noqa: SLF001 -- the same
}
