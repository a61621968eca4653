"""A timed schedule as one HTML page that works offline: zoom, hover details per action, light and dark."""

from __future__ import annotations

import json
from pkgutil import get_data
from typing import TYPE_CHECKING

from ppdsl.drawing.svg import escape

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ppdsl.schedules.actions import Schedule
    from ppdsl.simulation.timing import Timing

_DIGITS = 4


def draw_page(  # noqa: PLR0913 -- the parts of a page, by name
    schedule: Schedule,
    timing: Timing,
    *,
    title: str,
    facts: str,
    columns: Sequence[str] = (),
    rows: Sequence[Sequence[str]] = (),
) -> str:
    """Draw a timed schedule as a page.

    Args:
        schedule: The actions of each rank.
        timing: When they happen, in ms.
        title: The heading.
        facts: The line below it.
        columns: The heads of a table under the picture.
        rows: Its rows, most often one a rank.
    """
    ranks = [
        {
            "stages": [action.stage for action in actions],
            "kinds": "".join(action.kind for action in actions),
            "batches": [action.microbatch for action in actions],
            "starts": [round(time, _DIGITS) for time in timing.starts[rank]],
            "ends": [round(time, _DIGITS) for time in timing.ends[rank]],
        }
        for rank, actions in enumerate(schedule.ranks)
    ]
    data = {
        "title": title,
        "facts": facts,
        "makespan": timing.makespan,
        "owners": schedule.owners,
        "kinds": "".join(sorted({kind for actions in schedule.ranks for _, kind, _ in actions})),
        "ranks": ranks,
        "columns": columns,
        "rows": rows,
    }
    # inside a script element only "<" could end the text early
    text = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
    template = (get_data("ppdsl.drawing", "viewer.html") or b"").decode()
    head, tail = template.split("__DATA__")
    return head.replace("__TITLE__", escape(title)) + text + tail
