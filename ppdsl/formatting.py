"""The one canonical way to write a layout, and its other spellings: expanded, and as Megatron's list."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ppdsl.normal_form import NormalForm, Stage

_NAMES = {"E": "embedding", "t": "decoder", "m": "mtp", "L": "loss"}
_FEWEST_REPEATED = 3
MOST_COUNT = 999_999_999_999
"""The largest count that the language can write."""


def format_run(kind: str, count: int) -> str:
    """Write equal layers in a row: ``t``, ``tt``, and from three on ``t*3``."""
    return kind * count if count < _FEWEST_REPEATED else f"{kind}*{count}"


def format_stage(stage: Stage) -> str:
    """Write one stage in canonical form, without its bar."""
    text = "".join(format_run(kind, count) for kind, count in stage.runs)
    return text if stage.owner is None else f"{text}@{stage.owner}"


def format_canonical(form: NormalForm, limit: int) -> str | None:
    """Write a layout in canonical form.

    Args:
        form: The layout.
        limit: How many characters the text may have.

    Returns:
        The canonical text; None where it would be longer than ``limit``, or a count longer than 12 digits.
    """
    if form.order is None or any(count > MOST_COUNT for stage in form.stages for _, count in stage.runs):
        return None
    texts = [format_stage(stage) for stage in form.stages]
    return write_stages(((texts[index], count) for index, count in form.order), limit)


def write_stages(runs: Iterable[tuple[str, int]], limit: int) -> str | None:
    """Write stages in canonical form.

    Args:
        runs: (canonical text of a stage, how many of it in a row), in forward order.
        limit: How many characters the text may have.

    Returns:
        The canonical text; None where it would be longer than ``limit``, or a count longer than 12 digits.
    """
    merged: list[tuple[str, int]] = []
    for text, count in runs:
        if merged and merged[-1][0] == text:
            merged[-1] = (text, merged[-1][1] + count)
        elif len(merged) > limit:
            return None
        elif count:
            merged.append((text, count))
    parts: list[str] = []
    length = 0
    for at, (text, count) in enumerate(merged, start=1):
        grouped = count >= _FEWEST_REPEATED and at < len(merged)
        length += len(f"({text}|)*{count}") if grouped else (len(text) + 1) * count
        if length > limit + 1 or count > MOST_COUNT:
            return None
        parts.append(f"({text}|)*{count}" if grouped else f"{text}|" * count)
    canonical = "".join(parts).removesuffix("|")
    return canonical if len(canonical) <= limit else None


def format_expanded(form: NormalForm, limit: int) -> str | None:
    """Write a layout with no repeats at all; None where it would be longer than ``limit`` characters."""
    sizes = [sum(count for _, count in stage.runs) + (0 if stage.owner is None else len(f"@{stage.owner}")) for stage in form.stages]
    if form.order is None or sum((sizes[index] + 1) * count for index, count in form.order) - 1 > limit:
        return None
    stages = (_expand_stage(form.stages[index]) + "|" for index, count in form.order for _ in range(count))
    return "".join(stages).removesuffix("|")


def _expand_stage(stage: Stage) -> str:
    text = "".join(kind * count for kind, count in stage.runs)
    return text if stage.owner is None else f"{text}@{stage.owner}"


def layer_lists(form: NormalForm, most_layers: int) -> list[list[str]] | None:
    """Give Megatron's list form: one list of layer names a stage.

    Args:
        form: A layout without ``@``. An ``N`` is left out, since the list form implies it.
        most_layers: How many layers and stages may be listed.

    Returns:
        The list; None where it would be longer than that.
    """
    total = sum(form.tally.count(kind) for kind in "EtmL") + form.tally.stages
    if form.order is None or total > most_layers:
        return None
    stages = [[*chain.from_iterable([_NAMES[kind]] * count for kind, count in stage.runs if kind in _NAMES)] for stage in form.stages]
    return [stages[index].copy() for index, count in form.order for _ in range(count)]
