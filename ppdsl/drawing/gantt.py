"""A timed schedule in a terminal: one row a rank, one column a slice of time. All in ASCII, so that every terminal shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ppdsl.drawing.axes import choose_ticks, say_time
from ppdsl.drawing.colors import KINDS, NAMES
from ppdsl.drawing.shares import share_columns

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ppdsl.schedules.actions import Action, Schedule
    from ppdsl.schedules.timing import Timing

    Cell = tuple[str, str]  # a character, and the letter whose colour it has or nothing

IDLE = "."
# black on the 256 colours nearest to those of the other pictures
_FILLS = {"F": 111, "f": 68, "B": 215, "b": 172, "I": 210, "i": 167, "W": 222, "w": 178}
_RESET = "\x1b[0m"
_FEWEST_COLUMNS = 10
_COLUMNS_FOR_A_TICK = 9
_ENOUGH = 0.9
_NOTHING = 1e-9


def draw_gantt(schedule: Schedule, timing: Timing, width: int, *, color: bool = False, most_ranks: int = 64) -> str:
    """Draw a timed schedule as text.

    A rank's actions are written as a letter and the microbatch where they have room for it; the blanks behind belong to the action. Where
    most have not, each column has one letter, so that a row has as many of each as it takes time. A rank's chunks are written in upper and
    lower case in turn. A dot is idle time.

    Args:
        schedule: The actions of each rank.
        timing: When they happen, in ms.
        width: Columns to fill, the ranks' names included.
        color: Whether to paint the kinds with ANSI colours.
        most_ranks: How many ranks are drawn; of the others a line tells the number.
    """
    label = len(f"rank {schedule.pp - 1}") + 1
    columns = max(width - label, _FEWEST_COLUMNS)
    scale = columns / timing.makespan if timing.makespan else 0.0
    chunks = [schedule.stages_of(rank) for rank in range(schedule.pp)]
    lines = []
    named = False
    for rank in range(min(schedule.pp, most_ranks)):
        letters = {(stage, kind): kind.lower() if number % 2 else kind for number, stage in enumerate(chunks[rank]) for kind in KINDS}
        work = (schedule.ranks[rank], timing.starts[rank], timing.ends[rank])
        row = _name_actions(work, letters, columns, scale)
        named = named or row is not None
        lines.append(f"{f'rank {rank}':<{label}}" + _write(row or _weigh_columns(work, letters, columns, scale), color=color))
    if schedule.pp > most_ranks:
        more = schedule.pp - most_ranks
        lines.append(f"and {more} more rank{'s' if more > 1 else ''}")
    lines.append(" " * label + _draw_axis(timing.makespan, columns))
    kinds = {kind for actions in schedule.ranks for _, kind, _ in actions}
    lines += _wrap(_legend(kinds, named=named, chunks=max(map(len, chunks), default=0)), max(width, label + columns), color=color)
    return "\n".join(lines)


def _name_actions(
    work: tuple[Sequence[Action], Sequence[float], Sequence[float]], letters: dict[tuple[int, str], str], columns: int, scale: float
) -> list[Cell] | None:
    """Write each action with its microbatch, or give None if those with room for it take less than nine tenths of the busy time."""
    row: list[Cell] = [(IDLE, "")] * columns
    busy = fitting = 0.0
    for (stage, kind, batch), start, end in zip(*work, strict=True):
        first, behind = int(start * scale + 0.5), int(end * scale + 0.5)
        letter = letters[stage, kind]
        text = f"{letter}{batch}"
        busy += end - start
        if len(text) <= behind - first:
            fitting += end - start
        else:
            text = letter
        row[first:behind] = [(char, letter) for char in text.ljust(behind - first)[: behind - first]]
    return row if busy and fitting >= _ENOUGH * busy else None


def _weigh_columns(
    work: tuple[Sequence[Action], Sequence[float], Sequence[float]], letters: dict[tuple[int, str], str], columns: int, scale: float
) -> list[Cell]:
    """Fill each column with one kind of what happens in it, so that along the row each kind has as many columns as it takes time.

    Simply taking the largest share would hide the forwards wherever backwards take longer, and where shares are nearly equal it would show
    waves that are not there.
    """
    actions, starts, ends = work
    row: list[Cell] = []
    owed: dict[str, float] = {}
    owed_of_kind: dict[str, float] = {}
    for shares in share_columns((letters[stage, kind] for stage, kind, _ in actions), starts, ends, columns, scale):
        kinds = {IDLE: 1.0 - sum(shares.values())}
        for letter, share in shares.items():
            kinds[letter.upper()] = kinds.get(letter.upper(), 0.0) + share
        kind, owed = _spend(owed, kinds)
        if kind == IDLE:
            row.append((IDLE, ""))
        else:
            letter, owed_of_kind = _spend(owed_of_kind, {letter: share for letter, share in shares.items() if letter.upper() == kind})
            row.append((letter, letter))
    return row


def _spend(owed: dict[str, float], shares: dict[str, float]) -> tuple[str, dict[str, float]]:
    """Choose the share to which the most is owed, with what is owed from columns before; give what is owed then."""
    total = sum(shares.values())
    now = {name: round(owed.get(name, 0.0) + share / total, 9) for name, share in shares.items() if share > _NOTHING}
    chosen = max(now, key=lambda name: now[name])
    return chosen, {**now, chosen: now[chosen] - 1.0}


def _draw_axis(total: float, columns: int) -> str:
    """Write times where they are, from left to right, and the last one at the end."""
    end = f"{say_time(total)} ms"
    line = ""
    for time in choose_ticks(total, columns // _COLUMNS_FOR_A_TICK):
        text, column = say_time(time), int(time / total * columns + 0.5) if total else 0
        if column >= len(line) and column + len(text) + 2 <= columns - len(end):
            line = line.ljust(column) + text
    return line + end.rjust(columns - len(line))


def _legend(kinds: Iterable[str], *, named: bool, chunks: int) -> Iterator[list[Cell]]:
    for kind in sorted(kinds, key=KINDS.index):
        yield [(kind, kind), *((char, "") for char in f" {NAMES[kind]}")]
    for text in (f"{IDLE} idle", "number: microbatch" * named, "lower case: every second chunk" * (chunks > 1)):
        if text:
            yield [(char, "") for char in text]


def _wrap(parts: Iterable[list[Cell]], width: int, *, color: bool) -> list[str]:
    lines: list[list[Cell]] = []
    for part in parts:
        if lines and len(lines[-1]) + 3 + len(part) <= width:
            lines[-1] += [(" ", "")] * 3 + part
        else:
            lines.append(part)
    return [_write(line, color=color) for line in lines]


def _write(row: Sequence[Cell], *, color: bool) -> str:
    if not color:
        return "".join(char for char, _ in row)
    parts, before = [], ""
    for char, letter in row:
        if letter != before:
            parts.append((_RESET if before else "") + (f"\x1b[38;5;16;48;5;{_FILLS[letter]}m" if letter else ""))
            before = letter
        parts.append(char)
    return "".join(parts) + (_RESET if before else "")
