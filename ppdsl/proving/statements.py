"""Whether what a program says of itself fits together: before that its instructions cannot be judged."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ppdsl.proving.faults import ProgramFault

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ppdsl.lowering.program import Program

_COUNTS = ("forward_slots", "backward_slots", "in_flight", "send_slots")
"""The fields of a program that count something of each rank."""

_FEW = 1_000_000
"""So many cells (stages times microbatches) are looked at one by one, however few instructions there are."""


def find_misfits(program: Program) -> Iterator[ProgramFault]:
    """Find counts for other ranks than there are, owners that are none of them, and far more work than instructions."""
    ranks = f"{program.pp} rank{'s' if program.pp != 1 else ''}"
    for name in _COUNTS:
        count = len(getattr(program, name))
        if count != program.pp:
            yield ProgramFault("limit", f"{name} has {count} entr{'ies' if count != 1 else 'y'}, the program has {ranks}")
    for stage, owner in enumerate(program.owners):
        if not 0 <= owner < program.pp:
            yield ProgramFault("misplaced", f"stage {stage} belongs on rank {owner}, the program has {ranks}")
    if program.microbatches < 0:
        yield ProgramFault("missing", f"microbatches is {program.microbatches}, not an integer from 0")
    cells, instructions = len(program.owners) * program.microbatches, sum(map(len, program.ranks))
    if cells > max(instructions, _FEW):
        yield ProgramFault(
            "missing", f"{program.microbatches:,} microbatches of each stage are more than {instructions:,} instructions can do"
        )
