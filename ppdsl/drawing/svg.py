"""A timed schedule as an SVG picture that stands alone, in light and dark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ppdsl.drawing.colors import KINDS, NAMES, color_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ppdsl.schedules.actions import Schedule
    from ppdsl.simulation.timing import Timing

_LEFT, _TOP, _ROW, _GAP, _WIDTH = 64, 34, 22, 4, 1180
_SMALL_ROW, _MANY_RANKS = 12, 24
_ROOM_FOR_TEXT = 13
_TICKS = 8

_STYLE = """
text{font:11px system-ui,sans-serif;fill:#1f2328}
.n{fill:#16181c;font-size:10px;text-anchor:middle}
.t{text-anchor:middle;fill:#57606a}
.r{fill:#eaeef2}
.b{fill:#fff}
@media(prefers-color-scheme:dark){text{fill:#e6edf3}.t{fill:#9198a1}.r{fill:#262c36}.b{fill:#0d1117}.n{fill:#0d1117}}
"""


def draw_svg(schedule: Schedule, timing: Timing, title: str) -> str:
    """Draw a timed schedule as SVG.

    Args:
        schedule: The actions of each rank.
        timing: When they happen, in ms.
        title: What stands above; it is escaped.
    """
    row = _ROW if schedule.pp <= _MANY_RANKS else _SMALL_ROW
    height = _TOP + schedule.pp * (row + _GAP) + 30
    scale = (_WIDTH - _LEFT - 16) / timing.makespan if timing.makespan else 0.0
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}" role="img">',
        f"<title>{escape(title)}</title><style>{_STYLE}</style>",
        f'<rect class="b" width="{_WIDTH}" height="{height}"/>',
        f'<text x="{_LEFT}" y="20">{escape(title)}</text>',
        *_legend(schedule),
    ]
    for rank in range(schedule.pp):
        top = _TOP + rank * (row + _GAP)
        parts.append(f'<text x="8" y="{top + row / 2 + 4:g}">rank {rank}</text>')
        parts.append(f'<rect class="r" x="{_LEFT}" y="{top}" width="{timing.makespan * scale:.2f}" height="{row}"/>')
        parts += _bars(schedule, timing, rank, (top, row, scale))
    parts += _axis(timing.makespan, scale, height)
    return "\n".join([*parts, "</svg>", ""])


def escape(text: str) -> str:
    """Write a text so that XML and HTML show it as it is; what they cannot hold is replaced."""
    kept = "".join(char if char.isprintable() or char == "\n" else "\ufffd" for char in text)
    return kept.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")


def _legend(schedule: Schedule) -> Iterator[str]:
    used = {kind for actions in schedule.ranks for _, kind, _ in actions}
    x = _WIDTH - 16
    for kind in reversed([kind for kind in KINDS if kind in used]):
        x -= 24 + 6 * len(NAMES[kind])
        yield f'<rect x="{x}" y="11" width="11" height="11" rx="2" fill="{color_of(kind, 0, 1)}"/><text x="{x + 15}" y="20">{NAMES[kind]}</text>'


def _bars(schedule: Schedule, timing: Timing, rank: int, place: tuple[float, float, float]) -> Iterator[str]:
    top, row, scale = place
    chunks = {stage: number for number, stage in enumerate(schedule.stages_of(rank))}
    for action, start, end in zip(schedule.ranks[rank], timing.starts[rank], timing.ends[rank], strict=True):
        stage, kind, batch = action
        x, wide = _LEFT + start * scale, (end - start) * scale
        fill = color_of(kind, chunks[stage], len(chunks))
        tip = f"<title>{action}: {start:.4g} to {end:.4g} ms</title>"
        yield f'<rect x="{x:.2f}" y="{top}" width="{max(wide - 0.6, 0.2):.2f}" height="{row}" rx="1.5" fill="{fill}">{tip}</rect>'
        if wide > _ROOM_FOR_TEXT and row == _ROW:
            yield f'<text class="n" x="{x + wide / 2:.2f}" y="{top + row / 2 + 4:g}">{batch}</text>'


def _axis(total: float, scale: float, height: float) -> Iterator[str]:
    for tick in range(_TICKS + 1):
        time = total * tick / _TICKS
        yield f'<text class="t" x="{_LEFT + time * scale:.1f}" y="{height - 12}">{time:.4g}{" ms" if tick == _TICKS else ""}</text>'
