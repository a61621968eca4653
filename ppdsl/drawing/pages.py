"""A timed schedule as one HTML page that works offline: zoom, hover details per action, light and dark."""

from __future__ import annotations

from itertools import pairwise
from math import ceil, log10
from typing import TYPE_CHECKING

from ppdsl.drawing.colors import KINDS, color_of
from ppdsl.drawing.svg import escape
from ppdsl.rendering.characters import visible

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ppdsl.schedules.actions import Schedule
    from ppdsl.schedules.timing import Timing

_FINEST = 1e-8
"""The part of the makespan down to which times are kept."""


def draw_page(  # noqa: PLR0913 -- the parts of a page, by name
    schedule: Schedule,
    timing: Timing,
    *,
    title: str,
    facts: str,
    columns: Sequence[str] = (),
    rows: Sequence[Sequence[str]] = (),
) -> str:
    """Draw a timed schedule as a page. Every text is escaped.

    With ``#hover=RANK,NUMBER`` behind its address the page shows the details of that action of that rank.

    Args:
        schedule: The actions of each rank.
        timing: When they happen, in ms.
        title: The heading.
        facts: The line below it.
        columns: The heads of a table under the picture.
        rows: Its rows, most often one a rank.
    """
    import json  # noqa: PLC0415 -- the other pictures, which are loaded with this one, need neither
    from pkgutil import get_data  # noqa: PLC0415 -- the same

    data = {
        "title": visible(title),
        "facts": visible(facts),
        **_pack(schedule, timing),
        "columns": [*map(visible, columns)],
        "rows": [[*map(visible, cells)] for cells in rows],
    }
    # inside a script element only "<" could end the text early
    text = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
    template = (get_data("ppdsl.drawing", "viewer.html") or b"").decode()
    head, tail = template.split("__DATA__")
    return head.replace("__TITLE__", escape(title)) + text + tail


def _pack(schedule: Schedule, timing: Timing) -> dict[str, object]:
    """Write what the picture is drawn from."""
    digits = ceil(-log10(timing.makespan * _FINEST)) if timing.makespan else 0
    return {
        "makespan": float(timing.makespan),
        "digits": digits,
        "owners": schedule.owners,
        "fills": _list_fills(schedule),
        "ranks": [_pack_rank(schedule, timing, rank, 10.0**digits) for rank in range(schedule.pp)],
    }


def _list_fills(schedule: Schedule) -> dict[str, list[str]]:
    """Give for each kind in use the colour of each stage, and behind them that of the kind as a whole."""
    used = {kind for actions in schedule.ranks for _, kind, _ in actions}
    places = [(0, 1)] * (schedule.stages + 1)
    for rank in range(schedule.pp):
        stages = schedule.stages_of(rank)
        for number, stage in enumerate(stages):
            places[stage] = (number, len(stages))
    return {kind: [color_of(kind, *place) for place in places] for kind in KINDS if kind in used}


def _pack_rank(schedule: Schedule, timing: Timing, rank: int, unit: float) -> dict[str, object]:
    """Write a rank's actions as columns: sorts of work, of which there are few, and times as whole numbers, the waits and the lengths."""
    actions = schedule.ranks[rank]
    marks = [0, *(round(time * unit) for times in zip(timing.starts[rank], timing.ends[rank], strict=True) for time in times)]
    steps = [behind - mark for mark, behind in pairwise(marks)]
    sorts: dict[tuple[int, str, int], int] = {}
    work = [sorts.setdefault((stage, kind, length), len(sorts)) for (stage, kind, _), length in zip(actions, steps[1::2], strict=True)]
    return {"sorts": [*sorts], "work": work, "batches": [batch for _, _, batch in actions], "waits": steps[::2]}
