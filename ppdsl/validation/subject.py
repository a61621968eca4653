"""What the rules of meaning look at: a layout in normal form, and what it is checked against."""

from __future__ import annotations

from itertools import chain, islice
from typing import TYPE_CHECKING, NamedTuple

from ppdsl.source import Span

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ppdsl.nodes import Item, Run
    from ppdsl.normal_form import NormalForm, Stage
    from ppdsl.options import Options, Placement

MOST_REPORTED = 20
"""How many diagnostics of one code are given at most."""

_MOST_WORDS = 8
_MOST_SHOWN = 10**15


class Subject(NamedTuple):
    """A layout under examination.

    Attributes:
        text: The text of the layout, which spans count in.
        items: Its nodes.
        form: Its normal form.
        options: What it is checked against.
        pp: Number of pipeline ranks: as given, or as the owners imply; None where neither is known.
        placement: None where the stages have owners of their own.
        dealt_pp: The same as ``pp`` where the stages are listed, and each rank gets at least one and, without owners, as many as every
            other; else None, and rules about the load of ranks say nothing.
        vpp: The largest number of chunks on a rank; None where ``dealt_pp`` is.
        listed: Whether there are no more stages than the limit. Rules about single stages say nothing of a layout that has more.
        mtp_runs: Of a listed layout the runs of equal stages that hold MTP layers: number of the first stage, the stage, how many.
    """

    text: str
    items: tuple[Item, ...]
    form: NormalForm
    options: Options
    pp: int | None
    placement: Placement | None
    dealt_pp: int | None
    vpp: int | None
    listed: bool
    mtp_runs: tuple[tuple[int, Stage, int], ...]

    @property
    def whole(self) -> Span:
        """The place of the whole layout: from its first item to its last."""
        return Span(self.items[0].start, self.items[-1].end)

    @property
    def stages(self) -> int:
        """How many stages there are."""
        return self.form.tally.stages


def examine(text: str, items: tuple[Item, ...], form: NormalForm, options: Options) -> Subject:
    """Derive what the rules need to know of a layout.

    Args:
        text: The text of the layout.
        items: Its nodes.
        form: Its normal form.
        options: What it is checked against.
    """
    stages, order, pp = form.tally.stages, form.order, options.pp
    listed = order is not None and stages <= options.limits.stages
    # All stages have an owner or none has, so the first tells; of a layout that is too long to list, the text does.
    owned = "@" in text if order is None else form.stages[order[0][0]].owner is not None
    vpp = None
    if owned:
        chunks = count_chunks(form)
        if pp is None and chunks:
            pp = max(chunks) + 1
        if listed and len(chunks) == pp == max(chunks) + 1:
            vpp = max(chunks.values())
    elif listed and pp is not None and stages % pp == 0:
        vpp = stages // pp
    placement = None if owned else options.placement or "loop"
    dealt_pp = None if vpp is None else pp
    mtp_runs = runs_with(form, "m") if listed else ()
    return Subject(text, items, form, options, pp, placement, dealt_pp, vpp, listed, mtp_runs)


def count_chunks(form: NormalForm) -> dict[int, int]:
    """Give the number of stages of each owner, in the order in which the owners first occur; empty where the stages are not listed."""
    chunks: dict[int, int] = {}
    for _, stage, count in form.runs():
        owner = stage.owner or 0
        chunks[owner] = chunks.get(owner, 0) + count
    return chunks


def runs_with(form: NormalForm, kind: str) -> tuple[tuple[int, Stage, int], ...]:
    """Give the runs of equal stages that hold a kind of layer: number of the first stage, the stage, how many."""
    if not form.tally.count(kind):
        return ()
    having = {index for index, stage in enumerate(form.stages) if stage.count(kind)}
    found = []
    number = 0
    for index, count in form.order or ():
        if index in having:
            found.append((number, form.stages[index], count))
        number += count
    return tuple(found)


def plural(count: int, what: str) -> str:
    """Write a count with its noun: ``1 decoder layer``, ``12 decoder layers``; a count too large to read is not written out."""
    shown = f"{count:,}" if count <= _MOST_SHOWN else "over 10^15"
    return f"{shown} {what}" if count == 1 else f"{shown} {what}s"


def pieces_of(stage: Stage, kind: str) -> list[Run]:
    """Give the runs of the text that bring a kind of layer into a stage."""
    return [piece for piece in stage.pieces if piece.kind == kind]


def join_words(words: Iterable[object], total: int | None = None) -> str:
    """Write a list in words: ``0``, ``0 and 1``, ``0, 1 and 2``; of more than eight, the first eight are written.

    Args:
        words: What to write. Where ``total`` is given, the first eight are enough.
        total: How many there are.
    """
    if total is None:
        words = [*words]
        total = len(words)
    texts = [str(word) for word in islice(words, _MOST_WORDS)]
    if total > _MOST_WORDS:
        return f"{', '.join(texts)} and {total - _MOST_WORDS:,} more"
    return " and ".join([", ".join(texts[:-1]), texts[-1]] if len(texts) > 1 else texts)


def name_stages(runs: Iterable[tuple[int, int]]) -> str:
    """Write the numbers of stages: ``stage 3``, ``stages 3 and 4``.

    Args:
        runs: (number of the first stage, how many follow one another).
    """
    runs = [*runs]
    total = sum(count for _, count in runs)
    numbers = chain.from_iterable(range(number, number + count) for number, count in runs)
    return f"stage{'s' * (total > 1)} {join_words(numbers, total)}"
