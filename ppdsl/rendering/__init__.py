"""Diagnostics as text, as lines for tools, and as JSON: pure functions, data in and text out."""

from __future__ import annotations

from ppdsl.rendering.formats import diagnostic_as_json, render_concise, render_github
from ppdsl.rendering.reports import render_summary, render_text
from ppdsl.rendering.sarif_logs import sarif

__all__ = ["diagnostic_as_json", "render_concise", "render_github", "render_summary", "render_text", "sarif"]
