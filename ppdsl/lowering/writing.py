"""A rank's rows: its actions, the wait for each input, and the transfers where they are issued."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ppdsl.lowering.transfers import Transfers
    from ppdsl.lowering.wiring import Wiring
    from ppdsl.schedules.actions import Action, Schedule

Row = tuple[int, str, int]
"""An instruction without its buffer: stage, kind, microbatch."""

_WAITS = {"F": "WAIT_F", "B": "WAIT_B", "I": "WAIT_B"}


def write_rows(schedule: Schedule, wiring: Wiring, transfers: Transfers) -> Iterator[list[Row]]:
    """Give each rank's rows in turn."""
    stages, batches = range(schedule.stages), schedule.microbatches
    names = [(stage, kind) for kind in ("SEND_F", "SEND_B") for stage in stages]
    names += [(stage + step, kind) for kind, step in (("RECV_F", 1), ("RECV_B", -1)) for stage in stages]
    numbers = [*range(batches)]  # one object for each microbatch, not one for each row
    issued_at = [*transfers.sent_at, *transfers.posted_at]
    for actions, ends in zip(schedule.ranks, _share_out(schedule, wiring, transfers), strict=True):
        rows = [(*names[end // batches], numbers[end % batches]) for end in ends]
        yield _merge(actions, wiring, rows, [issued_at[end] for end in ends])


def _share_out(schedule: Schedule, wiring: Wiring, transfers: Transfers) -> list[array[int]]:
    """Give each rank its ends of the transfers, in their total order.

    Returns:
        The number of each message that a rank sends, and of one that it receives that plus the number of all messages.
    """
    owners, batches, messages = schedule.owners, wiring.batches, wiring.messages
    ranks = [array("q") for _ in schedule.ranks]
    # by the block of a message; the last stage sends no activation, the first no gradient
    send = [ranks[owner].append for owner in owners * 2]
    receive = [ranks[owner].append for owner in (*owners[1:], *owners[:1], *owners[-1:], *owners[:-1])]
    for message in transfers.order:
        block = message // batches
        send[block](message)
        receive[block](message + messages)
    return ranks


def _merge(actions: Sequence[Action], wiring: Wiring, transfers: Sequence[Row], issued_at: Sequence[int]) -> list[Row]:
    """Put a rank's transfers between its actions: each from its step on, when those before it are issued."""
    incoming, steps = wiring.incoming, [*issued_at, 2 * len(actions)]
    rows: list[Row] = []
    done = 0
    for at, action in enumerate(actions):
        stage, kind, batch = action
        while steps[done] <= 2 * at:
            rows.append(transfers[done])
            done += 1
        if incoming[kind][stage] is not None:
            rows.append((stage, _WAITS[kind], batch))
        while steps[done] <= 2 * at + 1:
            rows.append(transfers[done])
            done += 1
        rows.append(action)
    rows += transfers[done:]
    return rows
