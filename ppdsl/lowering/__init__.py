"""A schedule to a program: sends, receives, waits, receive buffers and gradient-reduction points."""

from __future__ import annotations

import gc
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ppdsl.lowering.completing import complete
from ppdsl.lowering.files import program_from_json, program_to_json
from ppdsl.lowering.listing import read_program_csv, write_program_csv
from ppdsl.lowering.program import Instruction, Program, read_instruction
from ppdsl.lowering.transfers import order_transfers
from ppdsl.lowering.wiring import Wiring
from ppdsl.lowering.writing import write_rows
from ppdsl.schedules.checks import check_count

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ppdsl.schedules.actions import Schedule

__all__ = [
    "Instruction",
    "Program",
    "lower",
    "program_from_json",
    "program_to_json",
    "read_instruction",
    "read_program_csv",
    "write_program_csv",
]


@contextmanager
def _no_collection() -> Iterator[None]:
    """Keep the cyclic garbage collector from looking through millions of new tuples again and again; none is in a cycle."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@_no_collection()
def lower(schedule: Schedule, depth: int = 1) -> Program:
    """Write out every send, receive and wait of a schedule.

    Args:
        schedule: The actions of each rank.
        depth: How many actions ahead of its use a receive is posted; 1 overlaps each transfer with one action.

    Returns:
        A program in which each rank issues its transfers in one common order, so that it cannot deadlock; ``verify`` proves it.

    Raises:
        ValueError: The depth is no integer from 0.
        StuckError: The schedule deadlocks by itself.
    """
    check_count("depth", depth, least=0)
    wiring = Wiring(schedule)
    transfers = order_transfers(schedule, wiring, depth)
    rows = write_rows(schedule, wiring, transfers)
    return complete(schedule, depth, rows)
