"""What a check says of a layout, as files in ``expected`` have it: a call, and under it the whole report.

Of a file's own codes the reports are whole; the codes of all others stand in a last line. The arguments of a call are literals, so that it
hides nothing.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ppdsl import check_layout
from ppdsl.options import Limits
from ppdsl.rendering import render_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ppdsl.diagnostics import Rule

FOLDER = Path(__file__).parent / "expected"
PROMPT = "check("


@dataclass(frozen=True)
class Case:
    """A call and what it must say."""

    call: str
    expected: str

    def __str__(self) -> str:
        return self.call

    def report(self, rules: Iterable[Rule]) -> str:
        """Make the report. Each corrected layout in it is checked again, against the same sizes; an invalid one is named in a last line."""
        text, sizes = read_call(self.call)
        result = check_layout(text, **sizes)
        codes = {rule.code for rule in rules}
        own = [each for each in result.diagnostics if each.code in codes]
        others = [each.code for each in result.diagnostics if each.code not in codes]
        fixes = {each.fix for each in result.diagnostics if each.fix is not None}
        return (
            "\n\n".join(
                [
                    *([render_text(own, result.source)] if own else []),
                    *([f"also {' '.join(others)}"] if others else []),
                    *(f"invalid fix: {fix}" for fix in sorted(fixes) if not check_layout(fix, **sizes).valid),
                    *(f"untried: {each.proposals}" for each in result.diagnostics if each.proposals),
                ]
            )
            or "nothing"
        )


def read_cases(name: str) -> list[Case]:
    """Read a file of calls and reports; it must hold some."""
    text = (FOLDER / f"{name}.txt").read_text(encoding="utf-8")
    blocks = [block.partition("\n") for block in f"\n{text}".split(f"\n{PROMPT}")[1:]]
    if not blocks:
        raise ValueError(name)
    return [Case(PROMPT + call, expected.rstrip("\n")) for call, _, expected in blocks]


def read_call(call: str) -> tuple[str, dict[str, Any]]:
    """Read ``check("EtL", pp=2)``: the layout, and the sizes by name; ``max_stages`` and ``max_text`` make limits."""
    tree = ast.parse(call, mode="eval").body
    if not isinstance(tree, ast.Call):
        raise TypeError(call)
    (layout,) = tree.args
    sizes = {str(each.arg): ast.literal_eval(each.value) for each in tree.keywords}
    limits = {name: sizes.pop(f"max_{name}") for name in ("stages", "text") if f"max_{name}" in sizes}
    if limits:
        sizes["limits"] = Limits(**limits)
    return ast.literal_eval(layout), sizes
