"""Conditionals and loops of a shell script: what the variables may be behind them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ppdsl.launch_files.shell_values import merge

if TYPE_CHECKING:
    from ppdsl.launch_files.shell_values import Binding, Environment
    from ppdsl.launch_files.texts import Branch

_DEEPEST = 12


@dataclass(slots=True)
class _Conditional:
    """One that is open.

    Attributes:
        kind: ``if``, ``case``, ``loop`` or ``group``.
        number: Which one of the script.
        flat: Whether its branches are read as if they all ran.
        way: Number of the branch that is being read.
        exhaustive: Whether one of its branches surely runs.
        ended: Whether the branch ends the script.
        ends: What each branch read before has set.
    """

    kind: str
    number: int
    flat: bool
    way: int = 0
    exhaustive: bool = False
    ended: bool = False
    ends: list[tuple[Branch, dict[str, Binding | None]]] = field(default_factory=list)


class Flow:
    """The conditionals that are open where the reading of a script stands."""

    def __init__(self, variables: Environment) -> None:
        self._variables = variables
        self._open: list[_Conditional] = []
        self._number = 0

    def __len__(self) -> int:
        return len(self._open)

    @property
    def kind(self) -> str:
        """The kind of the innermost one; empty where none is open."""
        return self._open[-1].kind if self._open else ""

    @property
    def next_number(self) -> int:
        """The number that the next one will have."""
        return self._number + 1

    def open(self, kind: str, *, flat: bool = False) -> None:
        """Begin a conditional, and its first branch."""
        self._number += 1
        flat = flat or len(self._open) >= _DEEPEST
        self._open.append(_Conditional(kind, self._number, flat))
        if not flat:
            self._variables.layers.append({})

    def turn(self, *, exhaustive: bool = False) -> None:
        """End a branch of the innermost conditional and begin the next.

        Args:
            exhaustive: Whether the next one runs wherever none before it does.
        """
        if not self._open or self._open[-1].flat:
            return
        one = self._open[-1]
        self._keep(one)
        one.way += 1
        one.exhaustive |= exhaustive
        self._variables.layers.append({})

    def end_script(self) -> None:
        """Note that the branch ends the script: what it sets holds nowhere else."""
        if self._open:
            self._open[-1].ended = True

    def close(self) -> None:
        """End the innermost conditional, where there is one."""
        if not self._open:
            return
        one = self._open.pop()
        if one.flat:
            return
        self._keep(one)
        for name in dict.fromkeys(name for _, layer in one.ends for name in layer):
            base = self._variables.get(name)
            ways = [(branch, layer.get(name, base)) for branch, layer in one.ends]
            self._variables.spend_on_binding(base)
            if not one.exhaustive:
                ways.append((((one.number, one.way + 1),), base))
            self._variables.set(name, merge(base, ways))

    def _keep(self, one: _Conditional) -> None:
        layer = self._variables.layers.pop()
        if not one.ended:
            one.ends.append((((one.number, one.way),), layer))
        one.ended = False
