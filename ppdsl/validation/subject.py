"""What the rules of meaning look at: a layout in normal form, and what it is checked against."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ppdsl.source import Span

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ppdsl.nodes import Item, Run
    from ppdsl.normal_form import NormalForm, Stage
    from ppdsl.options import Options, Placement


@dataclass(frozen=True, slots=True)
class Subject:
    """A layout under examination.

    Attributes:
        text: The text of the layout, which spans count in.
        items: Its nodes.
        form: Its normal form.
        options: What it is checked against.
        pp: Number of pipeline ranks: as given, or as the owners imply; None where neither is known.
        placement: None where the stages have owners of their own.
        dealt_pp: The same as ``pp`` where the stages are listed and can be dealt to the ranks; else None, and rules about ranks say nothing.
        vpp: The largest number of chunks on a rank; None where ``dealt_pp`` is.
    """

    text: str
    items: tuple[Item, ...]
    form: NormalForm
    options: Options
    pp: int | None
    placement: Placement | None
    dealt_pp: int | None
    vpp: int | None

    @property
    def whole(self) -> Span:
        """The place of the whole layout: from its first item to its last."""
        return Span(self.items[0].start, self.items[-1].end)

    @property
    def stages(self) -> int:
        """How many stages there are."""
        return self.form.tally.stages

    def stages_with(self, kind: str) -> list[tuple[int, Stage, int]]:
        """Give the runs of stages that hold a kind of layer: number of the first, the stage, how many."""
        return [(number, stage, count) for number, stage, count in self.form.runs() if stage.count(kind)]


def examine(text: str, items: tuple[Item, ...], form: NormalForm, options: Options) -> Subject:
    """Derive what the rules need to know of a layout.

    Args:
        text: The text of the layout.
        items: Its nodes.
        form: Its normal form.
        options: What it is checked against.
    """
    owned = any(stage.owner is not None for stage in form.stages)
    if not owned:
        pp = options.pp
        dealt = pp is not None and form.order is not None and form.tally.stages % pp == 0
        vpp = form.tally.stages // pp if dealt and pp is not None else None
        return Subject(text, items, form, options, pp, options.placement or "loop", pp if dealt else None, vpp)
    chunks: dict[int, int] = {}
    for _, stage, count in form.runs():
        chunks[stage.owner or 0] = chunks.get(stage.owner or 0, 0) + count
    pp = options.pp or max(stage.owner or 0 for stage in form.stages) + 1
    dealt = form.order is not None and max(chunks) < pp
    return Subject(text, items, form, options, pp, None, pp if dealt else None, max(chunks.values()) if dealt else None)


def plural(count: int, what: str) -> str:
    """Write a count with its noun: ``1 decoder layer``, ``12 decoder layers``; a count too large to read is not written out."""
    shown = f"{count:,}" if count <= 10**15 else "over 10^15"
    return f"{shown} {what}" if count == 1 else f"{shown} {what}s"


def pieces_of(stage: Stage, kind: str) -> list[Run]:
    """Give the runs of the text that bring a kind of layer into a stage."""
    return [piece for piece in stage.pieces if piece.kind == kind]


def join_words(words: Iterable[object]) -> str:
    """Write a list in words: ``0``, ``0 and 1``, ``0, 1 and 2``; of more than eight, the first eight are written."""
    texts = [str(word) for word in words]
    most = 8
    if len(texts) > most:
        return ", ".join(texts[:most]) + f" and {len(texts) - most:,} more"
    return " and ".join([", ".join(texts[:-1]), texts[-1]] if len(texts) > 1 else texts)
