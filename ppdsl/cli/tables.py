"""Tables by rank: plain text away from a terminal, drawn with rich on one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ppdsl.planning.tables import draw_table, table_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ppdsl.cli.output import Look
    from ppdsl.planning import Plan

_WIDTH = 100


def draw(plan: Plan, look: Look) -> str:
    """Draw the table of a plan; whole lines."""
    if not look.rich:
        return f"{draw_table(plan)}\n"
    return _draw_rich(table_rows(plan), look)


def draw_figures(rows: Sequence[Sequence[str]], look: Look) -> str:
    """Draw figures, the first row being the heading; whole lines."""
    if look.rich:
        return _draw_rich(rows, look, figures=True)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "".join("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) + "\n" for row in rows)


def _draw_rich(rows: Sequence[Sequence[str]], look: Look, *, figures: bool = False) -> str:
    from io import StringIO  # noqa: PLC0415 -- this and rich only for a terminal

    from rich import box  # noqa: PLC0415 -- the same
    from rich.console import Console  # noqa: PLC0415 -- the same
    from rich.table import Table  # noqa: PLC0415 -- the same
    from rich.text import Text  # noqa: PLC0415 -- the same

    table = Table(box=box.ASCII if look.ascii else box.ROUNDED, header_style="bold")
    heading, *cells = rows
    for number, title in enumerate(heading):
        table.add_column(title, justify="left" if number and not figures else "right", style="" if number else "cyan")
    for row in cells:
        table.add_row(*(Text(cell, style="dim" if cell.endswith("(empty)") else "") for cell in row))
    width = look.width or _WIDTH
    if figures:  # a figure that is cut off says nothing: a narrow terminal breaks the lines
        width = max(width, sum(max(map(len, column)) + 3 for column in zip(*rows, strict=True)) + 1)
    console = Console(
        file=StringIO(),
        width=width,
        force_terminal=True,
        color_system="standard" if look.color else None,
        no_color=not look.color,
        legacy_windows=False,
    )
    with console.capture() as captured:
        console.print(table)
    return captured.get()
