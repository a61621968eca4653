"""Programs as torch's schedule CSV with communication, both ways: one line a rank, one cell an instruction.

It has the actions, the sends, the receives and the reductions of a program. Its waits and buffers it leaves to the runtime: torch's waits
for a receive right before the action that uses it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ppdsl.lowering.completing import complete
from ppdsl.lowering.program import COMPUTE, RECEIVES, REDUCE, SENDS, WAITS, Program, read_instruction
from ppdsl.schedules.actions import Action, Schedule, count_microbatches, find_owners, read_cells
from ppdsl.schedules.checks import quote

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ppdsl.lowering.writing import Row

_SHARDING = re.compile(r"(0|[1-9][0-9]{0,8})(UNSHARD|RESHARD)")
"""When a stage's parameters are gathered and given up again, which changes nothing in what is sent."""


def write_program_csv(program: Program) -> str:
    """Write a program as torch's schedule CSV with communication (``format="compute_comms"``)."""
    lines = []
    for instructions in program.ranks:
        cells = [str(instruction._replace(slot=-1)) for instruction in instructions if instruction.kind not in WAITS]
        lines.append(",".join(cells) + "\n")
    return "".join(lines)


def read_program_csv(text: str, owners: Sequence[int] | None = None) -> Program:
    """Read torch's schedule CSV with communication, whoever made it, as a program that ``verify`` can judge.

    Waits are put right before the actions that use what is received, buffers are given from a pool; reductions are put behind the last
    backward of each stage where the text has none at all. The depth is the one found.

    Args:
        text: The CSV.
        owners: The rank of each stage; by default the one that does its actions.

    Raises:
        ValueError: A cell is no instruction (the line and the cell are named), a stage is nowhere, or belongs to a rank without a line.
    """
    cells = [tuple(row for row in cell if row is not None) for cell in read_cells(text, _read_cell)]
    found = find_owners(cells) if owners is None else tuple(owners)
    _refuse_strangers(cells, found)
    actions = tuple(tuple(Action(*row) for row in rows if row[1] in COMPUTE) for rows in cells)  # type: ignore[arg-type]  # a kind of action
    schedule = Schedule("csv", found, count_microbatches(cells), actions)
    rows = [[*_with_waits(found, rank, rank_cells)] for rank, rank_cells in enumerate(cells)]
    reduces = not any(row[1] == REDUCE for rank_rows in rows for row in rank_rows)
    return complete(schedule, max(map(_depth, rows), default=0), rows, reduces=reduces)


def _read_cell(text: str) -> Row | None:
    if _SHARDING.fullmatch(text):
        return None
    stage, kind, batch, slot = read_instruction(text)
    if kind in WAITS or slot >= 0:
        message = f"invalid instruction {quote(text)}: a schedule CSV has no waits and no buffers"
        raise ValueError(message)
    return stage, kind, batch


def _refuse_strangers(ranks: Sequence[Sequence[Row]], owners: Sequence[int]) -> None:
    highest = max((stage for rows in ranks for stage, _, _ in rows), default=-1)
    if highest >= len(owners):
        message = f"stage {highest} has no owner"
        raise ValueError(message)
    for stage, owner in enumerate(owners):
        if not 0 <= owner < len(ranks):
            message = f"stage {stage} belongs on rank {owner}, which has no line"
            raise ValueError(message)


def _with_waits(owners: Sequence[int], rank: int, rows: Sequence[Row]) -> Iterator[Row]:
    """Put the wait for each remote input before the action that uses it."""
    before = [owner != rank for owner in (rank, *owners[:-1])]
    behind = [owner != rank for owner in (*owners[1:], rank)]
    for row in rows:
        stage, kind, batch = row
        if owners[stage] == rank:
            if kind == "F" and before[stage]:
                yield stage, "WAIT_F", batch
            elif kind in ("B", "I") and behind[stage]:
                yield stage, "WAIT_B", batch
        yield row


def _depth(rows: Sequence[Row]) -> int:
    """Give the most actions that stand between a receive and its wait."""
    posted: dict[tuple[int, str, int], int] = {}
    done = depth = 0
    for stage, kind, batch in rows:
        if kind in RECEIVES:
            posted[stage, kind[-1], batch] = done
        elif kind in WAITS:
            depth = max(depth, done - posted.get((stage, kind[-1], batch), done))
        elif kind not in SENDS and kind != REDUCE:
            done += 1
    return depth
