"""The walk over a Python file: in which scope, with which names, and in which branch each node stands."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TypeAlias

    from ppdsl.launch_files.occurrences import Scope
    from ppdsl.launch_files.settings import Value
    from ppdsl.launch_files.texts import Branch, Text

    Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


@dataclass(frozen=True, slots=True)
class Evaluated:
    """A value, and the text that says it; the value means nothing where the text has holes.

    Attributes:
        value: The value.
        text: The text.
        size: How many characters or entries it has, those of lists inside included.
    """

    value: Value
    text: Text
    size: int = 1


class UnresolvedError(Exception):
    """An expression whose value cannot be told without running the file.

    Attributes:
        node: The part that cannot be told.
        reason: Why.
        stated: Whether part of the value stands here; if not, the expression only passes on what is said elsewhere.
    """

    def __init__(self, node: ast.expr, reason: str, *, stated: bool) -> None:
        self.node = node
        self.reason = reason
        self.stated = stated
        super().__init__(reason)


@dataclass(frozen=True, slots=True)
class Names:
    """What the names of a module or a function are bound to.

    Attributes:
        parent: The names around them.
        bound: For each name all the expressions that it is bound to, each with its branch; None for any other way of binding.
        known: What was found out about a name already.
    """

    parent: Names | None = None
    bound: dict[str, list[tuple[ast.expr | None, Branch]]] = field(default_factory=dict)
    known: dict[str, Evaluated | UnresolvedError] = field(default_factory=dict)

    def bind(self, name: str, value: ast.expr | None, branch: Branch) -> None:
        """Note that a name is bound."""
        self.bound.setdefault(name, []).append((value, branch))

    def find(self, name: str) -> Names | None:
        """Find the innermost place that binds a name; None where none does."""
        names: Names | None = self
        while names is not None and name not in names.bound:
            names = names.parent
        return names


@dataclass(frozen=True, slots=True)
class Place:
    """A node, and where it stands."""

    node: ast.AST
    scope: Scope
    names: Names
    branch: Branch

    def children(self, tables: dict[int, Names]) -> Iterator[Place]:
        """Give the places of the nodes inside, docstrings left out.

        Args:
            tables: The names of each function, by the id of its node; those of new ones are added.

        Yields:
            The places, in the order of the file.
        """
        node = self.node
        inside = self
        if isinstance(node, FUNCTIONS):
            names = tables.setdefault(id(node), Names(self.names))
            inside = replace(self, scope=self.scope.child(("function", node.lineno, node.col_offset)), names=names)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            return
        if isinstance(node, ast.If):
            yield replace(self, node=node.test)
            for way, statements in enumerate((node.body, node.orelse)):
                for statement in statements:
                    yield replace(self, node=statement, branch=(*self.branch, (id(node), way)))
            return
        for child in ast.iter_child_nodes(node):
            yield replace(inside, node=child)


def bind_names(module: ast.Module, scope: Scope) -> dict[int, Names]:
    """Find what the names of a module and of its functions are bound to.

    Args:
        module: The module.
        scope: Its scope.

    Returns:
        The names of the module, of each function and of each class, by the id of the node.
    """
    names = Names()
    tables = {id(module): names}
    waiting = [Place(module, scope, names, ())]
    while waiting:
        place = waiting.pop()
        node = place.node
        simple = _simple_target(node)
        if simple is not None:
            target, value = simple
            place.names.bind(target.id, value, place.branch)
            waiting.append(replace(place, node=value))
            continue
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            place.names.bind(node.id, None, place.branch)
        elif isinstance(node, ast.arg):
            place.names.bind(node.arg, None, place.branch)
        waiting += reversed(list(place.children(tables)))
    return tables


def _simple_target(node: ast.AST) -> tuple[ast.Name, ast.expr] | None:
    """Give the name and the expression of an assignment to one name."""
    if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
        return node.targets[0], node.value
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
        return node.target, node.value
    return None
