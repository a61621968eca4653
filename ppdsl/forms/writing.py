"""Counts of layers to the canonical text of a layout, never listing what repeats."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from ppdsl import formatting
from ppdsl.formatting import format_run
from ppdsl.forms.values import Lowered, refuse
from ppdsl.parsing.rules import TOO_LONG
from ppdsl.validation.counts import TOO_MANY_STAGES
from ppdsl.validation.subject import plural

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ppdsl.options import Options

Stretch: TypeAlias = tuple[int, int | None, int]
"""Equal stages in a row: decoder layers of each, rank of each (None: as the placement says), how many there are."""

_MOST_TEXT = 2**26
"""Characters up to which a text that nobody typed is let through whatever the limit for typed ones."""


def write_layout(stages: int, stretches: Iterable[Stretch], options: Options) -> Lowered:
    """Write the layout that has these decoder layers: E before them; N, the MTP layers of the options and L behind them.

    Args:
        stages: How many stages there are, at least 1.
        stretches: The stages in forward order. Not read where there are more of them than the limit.
        options: What the layout is to be checked against.
    """
    if stages > options.limits.stages:
        message = f"layout has {plural(stages, 'stage')}, the limit is {options.limits.stages:,}"
        return refuse(options, TOO_MANY_STAGES.report(message, help="raise the limit with --max-stages if so many are meant"))
    # The first and the last stage hold more than decoder layers.
    counts = _cut_first([stretch for stretch in stretches if stretch[2]])
    counts = _cut_first(counts[::-1])[::-1]
    last = len(counts) - 1
    runs = []
    for index, (layers, owner, times) in enumerate(counts):
        text = format_run("t", layers)
        if index == 0:
            text = f"E{text}"
        if index == last:
            text += _tail(options)
        runs.append((text if owner is None else f"{text}@{owner}", times))
    return write_stages(runs, options)


def write_stages(runs: Iterable[tuple[str, int]], options: Options) -> Lowered:
    """Write a layout from the canonical texts of its stages.

    Args:
        runs: (text of a stage without its bar, how many of it in a row), in forward order.
        options: What the layout is to be checked against.
    """
    text = formatting.write_stages(runs, _MOST_TEXT)
    if text is None:
        return refuse(options, TOO_LONG.report(f"the layout would have over {_MOST_TEXT:,} characters"))
    if len(text) > options.limits.text:
        options = replace(options, limits=replace(options.limits, text=len(text)))
    return Lowered(text, options)


def _cut_first(counts: list[Stretch]) -> list[Stretch]:
    """Give the first stage a stretch of its own."""
    (layers, owner, times), *rest = counts
    return [(layers, owner, 1), *([(layers, owner, times - 1)] if times > 1 else []), *rest]


def _tail(options: Options) -> str:
    """Write what stands behind the last decoder layer. Megatron-LM and what is built on it imply the norm, and have no symbol for it."""
    norm = "" if options.target in {"megatron", "mindspeed"} else "N"
    return norm + format_run("m", options.mtp_num_layers or 0) + "L"
