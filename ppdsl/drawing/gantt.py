"""A timed schedule in a terminal: one row a rank, one column a slice of time."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ppdsl.schedules.actions import Action, Schedule
    from ppdsl.simulation.timing import Timing

IDLE = "·"
_ANSI = {"F": "\x1b[44;97m", "B": "\x1b[43;30m", "I": "\x1b[41;97m", "W": "\x1b[42;30m"}
_RESET = "\x1b[0m"
_FEWEST_COLUMNS = 10


def draw_gantt(schedule: Schedule, timing: Timing, width: int, *, color: bool = False, most_ranks: int = 64) -> str:
    """Draw a timed schedule as text.

    Each column is filled with the kind of work that takes the most of its time: F, B, I or W; where there is room, an action shows its
    microbatch behind the letter. A dot is idle time.

    Args:
        schedule: The actions of each rank.
        timing: When they happen.
        width: Columns to fill, the ranks' names included.
        color: Whether to paint the kinds with ANSI colours.
        most_ranks: How many ranks are drawn; of the others a line tells the number.
    """
    label = len(f"rank {schedule.pp - 1}") + 1
    columns = max(width - label, _FEWEST_COLUMNS)
    total = timing.makespan
    lines = []
    for rank in range(min(schedule.pp, most_ranks)):
        row = _draw_row(schedule.ranks[rank], timing.starts[rank], timing.ends[rank], columns, total)
        lines.append(f"{f'rank {rank}':<{label}}" + (_paint(row) if color else "".join(char for char, _ in row)))
    if schedule.pp > most_ranks:
        lines.append(f"… {schedule.pp - most_ranks} more ranks")
    left, right = "0", f"{total:.4g} ms"
    lines.append(" " * label + left + right.rjust(columns - len(left)))
    return "\n".join(lines)


def _draw_row(actions: Sequence[Action], starts: Sequence[float], ends: Sequence[float], columns: int, total: float) -> list[tuple[str, str]]:
    """Give each column's character and the kind that fills it, or a blank kind."""
    shares: list[dict[int, float]] = [{} for _ in range(columns)]
    scale = columns / total if total else 0.0
    for number, (start, end) in enumerate(zip(starts, ends, strict=True)):
        first, last = start * scale, end * scale
        for column in range(int(first), min(int(last) + 1, columns)):
            share = min(last, column + 1) - max(first, column)
            if share > 0:
                shares[column][number] = share
    filled = [max(share, key=lambda number: share[number]) if sum(share.values()) >= 0.5 else None for share in shares]  # noqa: PLR2004 -- half
    row = []
    at = 0
    while at < columns:
        number, behind = filled[at], at
        while behind < columns and filled[behind] == number:
            behind += 1
        if number is None:
            row += [(IDLE, "")] * (behind - at)
        else:
            _, kind, batch = actions[number]
            text = f"{kind}{batch}"
            text = text if len(text) < behind - at else kind
            row += [(char, kind) for char in text.ljust(behind - at, kind if len(text) == 1 else " ")]
        at = behind
    return row


def _paint(row: list[tuple[str, str]]) -> str:
    parts, before = [], ""
    for char, kind in row:
        if kind != before:
            parts.append((_RESET if before else "") + _ANSI.get(kind, ""))
            before = kind
        parts.append(char)
    return "".join(parts) + (_RESET if before else "")
