"""Pictures of a timed schedule: Chrome trace, SVG, HTML page, terminal."""

from __future__ import annotations

from ppdsl.drawing.gantt import draw_gantt
from ppdsl.drawing.pages import draw_page
from ppdsl.drawing.svg import draw_svg
from ppdsl.drawing.traces import chrome_trace

__all__ = ["chrome_trace", "draw_gantt", "draw_page", "draw_svg"]
