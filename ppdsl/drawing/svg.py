"""A timed schedule as an SVG picture that stands alone, in light and dark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ppdsl.drawing.axes import choose_ticks, say_time
from ppdsl.drawing.colors import INK, KINDS, NAMES, color_of
from ppdsl.drawing.shares import share_columns
from ppdsl.rendering.characters import cells, visible

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ppdsl.schedules.actions import Action, Schedule
    from ppdsl.schedules.timing import Timing

_LEFT, _TOP, _WIDTH, _RIGHT, _BOTTOM = 64, 56, 1180, 16, 30
_PLOT = _WIDTH - _LEFT - _RIGHT
_ROW, _GAP, _SMALL_ROW, _SMALL_GAP, _MANY_RANKS = 22, 4, 11, 2, 24
_DIGIT, _MARGIN = 6.2, 3.0
_LONGEST_TITLE = 170
_MOST_SHADES = 6

_MOST_BARS = 16_000
"""Above it, and in a row where they would be too thin, shares of time are drawn in place of actions, so that a file stays below 2 MB."""
_THINNEST = 1.5
_COLUMNS = 550

_STYLE = f"""
text{{font:11px system-ui,sans-serif;fill:#1f2328}}
.page{{fill:#fff}}.lane{{fill:#eaeef2}}.dim{{fill:#59636e}}.on{{fill:{INK};font-size:10px;text-anchor:middle}}
@media(prefers-color-scheme:dark){{text{{fill:#e6edf3}}.page{{fill:#0d1117}}.lane{{fill:#262c36}}.dim{{fill:#9198a1}}.on{{fill:{INK}}}}}
"""


def draw_svg(schedule: Schedule, timing: Timing, title: str) -> str:
    """Draw a timed schedule as SVG. An action shows its microbatch where there is room, and all about itself as a tool tip.

    Args:
        schedule: The actions of each rank.
        timing: When they happen, in ms.
        title: What stands above; it is escaped.
    """
    row, gap = (_ROW, _GAP) if schedule.pp <= _MANY_RANKS else (_SMALL_ROW, _SMALL_GAP)
    height = _TOP + schedule.pp * (row + gap) + _BOTTOM
    heading = cells(visible(title))
    short = "".join(heading[:_LONGEST_TITLE]) + "…" * (len(heading) > _LONGEST_TITLE)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}" role="img">',
        f"<title>{escape(title)}</title><style>{_STYLE}{''.join(_fills(schedule))}</style>",
        f'<rect class="page" width="{_WIDTH}" height="{height}"/>',
        f'<text x="8" y="20">{escape(short)}</text>',
        *_legend(schedule),
    ]
    scale = _PLOT / timing.makespan if timing.makespan else 0.0
    many = sum(map(len, schedule.ranks)) > _MOST_BARS
    for rank, actions in enumerate(schedule.ranks):
        top = _TOP + rank * (row + gap)
        parts.append(f'<text class="dim" x="8" y="{top + row / 2 + 4:g}">rank {rank}</text>')
        parts.append(f'<g transform="translate({_LEFT} {top})"><rect class="lane" width="{_PLOT}" height="{row}"/>')
        draw = _areas if many or len(actions) * _THINNEST > _PLOT else _bars
        parts += draw(schedule, timing, rank, row, scale)
        parts.append("</g>")
    parts += _axis(timing.makespan, scale, height - _BOTTOM + 16)
    return "\n".join([*parts, "</svg>", ""])


def escape(text: str) -> str:
    """Write a text so that XML and HTML show it as it is, with what cannot be seen spelled out."""
    return visible(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;").replace("'", "&#39;")


def _used_kinds(ranks: Iterable[Sequence[Action]]) -> list[str]:
    used = {kind for actions in ranks for _, kind, _ in actions}
    return [kind for kind in KINDS if kind in used]


def _fills(schedule: Schedule) -> Iterator[str]:
    """Give a class for each colour in use: ``F0-2`` is the forward of the first chunk of two."""
    kinds = _used_kinds(schedule.ranks)
    for chunks in sorted({len(schedule.stages_of(rank)) for rank in range(schedule.pp)} | {1}):
        for kind in kinds:
            yield from (f".{kind}{chunk}-{chunks}{{fill:{color_of(kind, chunk, chunks)}}}" for chunk in range(chunks))


def _legend(schedule: Schedule) -> Iterator[str]:
    most = max((len(schedule.stages_of(rank)) for rank in range(schedule.pp)), default=1)
    shades, x = min(max(most, 1), _MOST_SHADES), 8.0
    for kind in _used_kinds(schedule.ranks):
        for shade in range(shades):
            yield f'<rect x="{x:g}" y="33" width="11" height="11" fill="{color_of(kind, shade, shades)}"/>'
            x += 11
        yield f'<text class="dim" x="{x + 5:g}" y="42">{NAMES[kind]}</text>'
        x += 22 + len(NAMES[kind]) * _DIGIT
    if shades > 1:
        yield f'<text class="dim" x="{x:g}" y="42">light to dark: first to last chunk of a rank</text>'


def _bars(schedule: Schedule, timing: Timing, rank: int, row: int, scale: float) -> Iterator[str]:
    stages = schedule.stages_of(rank)
    chunks = {stage: f"{number}-{len(stages)}" for number, stage in enumerate(stages)}
    # for any microbatch, so that either all of a stage's actions have a number or none
    room = len(str(schedule.microbatches - 1)) * _DIGIT + _MARGIN
    for action, start, end in zip(schedule.ranks[rank], timing.starts[rank], timing.ends[rank], strict=True):
        stage, kind, batch = action
        x, wide = start * scale, (end - start) * scale
        shown = max(wide - 0.6, 0.3) if wide > _THINNEST else max(wide, 0.3)
        tip = f"<title>{action}: {say_time(start)} to {say_time(end)} ms</title>"
        yield f'<rect class="{kind}{chunks[stage]}" x="{x:.5g}" width="{shown:.3g}" height="{row}">{tip}</rect>'
        if wide > room and row == _ROW:
            yield f'<text class="on" x="{x + shown / 2:.5g}" y="{row / 2 + 3.5:g}">{batch}</text>'


def _areas(schedule: Schedule, timing: Timing, rank: int, row: int, scale: float) -> Iterator[str]:
    """Draw the shares of time that the kinds of work take, one upon the other; each lies in front of those above it."""
    actions = schedule.ranks[rank]
    kinds = _used_kinds([actions])
    starts, ends = timing.starts[rank], timing.ends[rank]
    work: list[str] = [kind for _, kind, _ in actions]
    shares = share_columns(work, starts, ends, _COLUMNS, scale * _COLUMNS / _PLOT)
    busy = sum(end - start for start, end in zip(starts, ends, strict=True)) / timing.makespan if timing.makespan else 0.0
    yield f"<title>rank {rank}: {len(actions)} actions, busy {busy:.1%} of the time; the height is the share of time</title>"
    for count in range(len(kinds), 0, -1):
        heights = [min(sum(share.get(kind, 0.0) for kind in kinds[:count]), 1.0) * row for share in shares]
        yield f'<path class="{kinds[count - 1]}0-1" d="{_outline(heights, row)}"/>'


def _outline(heights: Sequence[float], row: int) -> str:
    """Write the outline of columns that stand on the bottom of a row; equal ones are one step."""
    wide = _PLOT / len(heights)
    steps, level = [f"M0 {row}"], 0.0
    for column, height in enumerate([*heights, 0.0]):
        if round(height, 1) != level:
            level = round(height, 1)
            steps.append(f"H{column * wide:.5g}V{row - level:.3g}")
    return "".join(steps) + "z"


def _axis(total: float, scale: float, y: float) -> Iterator[str]:
    end = f"{say_time(total)} ms"
    for tick in choose_ticks(total, 12):
        x, text = _LEFT + tick * scale, say_time(tick)
        if x + len(text) * _DIGIT / 2 + 10 < _WIDTH - _RIGHT - len(end) * _DIGIT:
            yield f'<text class="dim" text-anchor="middle" x="{x:.5g}" y="{y:g}">{text}</text>'
    yield f'<text class="dim" text-anchor="end" x="{_WIDTH - _RIGHT}" y="{y:g}">{end}</text>'
