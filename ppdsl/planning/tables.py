"""The rank x vpp table of a plan: as text, as cells for others to draw, and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ppdsl.planning.writing import chunk_as_json, write_chunk

if TYPE_CHECKING:
    from ppdsl.planning.plan import Chunk, Plan

MOST_ROWS = 64
"""Ranks that a table shows before it says how many more there are."""
MOST_COLUMNS = 12
"""Chunks of a rank that a table shows before it says the same."""


def draw_table(plan: Plan) -> str:
    """Draw the table as plain text: a heading, then a line a rank; no line ends with blanks or a newline.

    ::

        rank  vpp 0          vpp 1
           0  0: Et*3 [0-2]  2: t*3 [3-5]
           1  1: (empty)     3: t*6NL [6-11]
    """
    rows = table_rows(plan)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for rank, *cells in rows:
        padded = [cell.ljust(width) for cell, width in zip(cells, widths[1:], strict=True)]
        lines.append("  ".join([rank.rjust(widths[0]), *padded]).rstrip())
    return "\n".join(lines)


def table_rows(plan: Plan) -> list[list[str]]:
    """Give the cells of the table.

    Returns:
        The heading, then a row a rank, in order: the rank, and a cell a chunk, as ``2: t*3 [3-5]``: the stage, what it holds (the final
        norm as ``N`` also where it is only implied), and the numbers of its first and last decoder layer. All rows are of one length;
        what is left free, since a rank has fewer chunks, is "". Behind the first 64 ranks and 12 chunks stands how many more there are.
    """
    shown = min(plan.vpp, MOST_COLUMNS)
    rows = [["rank", *(f"vpp {number}" for number in range(shown))]]
    for rank in range(min(plan.pp, MOST_ROWS)):
        chunks = plan.chunks_of(rank)
        cells = [_write_cell(chunk) for chunk in chunks[:shown]]
        if len(chunks) > shown:
            cells.append(f"… {len(chunks) - shown} more")
        rows.append([str(rank), *cells])
    if plan.pp > MOST_ROWS:
        rows.append(["…", f"{plan.pp - MOST_ROWS} more"])
    width = max(map(len, rows))
    return [row + [""] * (width - len(row)) for row in rows]


def table_as_json(plan: Plan) -> list[list[dict[str, object]]]:
    """Give the whole table as data that ``json.dumps`` takes: a list a rank, and in it an object a chunk.

    Each has the fields of the chunk, and as ``text`` what it holds; the final norm is ``N`` there also where it is only implied.
    """
    return [[_cell_as_json(chunk) for chunk in plan.chunks_of(rank)] for rank in range(plan.pp)]


def _cell_as_json(chunk: Chunk) -> dict[str, object]:
    return {"stage": chunk.stage, "text": write_chunk(chunk), **chunk_as_json(chunk)}


def _write_cell(chunk: Chunk) -> str:
    first, stop = chunk.layers
    numbers = "" if first == stop else f" [{first}]" if stop - first == 1 else f" [{first}-{stop - 1}]"
    return f"{chunk.stage}: {write_chunk(chunk) or '(empty)'}{numbers}"
