"""A rank's rows: its actions, the wait for each input, and the transfers where they are issued."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ppdsl.lowering.transfers import Transfers
    from ppdsl.lowering.wiring import Wiring
    from ppdsl.schedules.actions import Schedule

Row = tuple[int, str, int]
"""An instruction without its buffer: stage, kind, microbatch."""

_WAITS = {"F": "WAIT_F", "B": "WAIT_B", "I": "WAIT_B"}


class _Issued:
    """The transfers of one rank, in the order in which it issues them.

    Attributes:
        steps: The step of each, never falling; see ``Transfers``.
        rows: The sends and receives.
    """

    __slots__ = ("rows", "steps")

    def __init__(self) -> None:
        self.steps = [0]  # and one in front, for the first to be compared with
        self.rows: list[Row] = []


def write_rows(schedule: Schedule, wiring: Wiring, transfers: Transfers) -> Iterator[list[Row]]:
    """Give each rank's rows in turn."""
    for rank, issued in enumerate(_share_out(schedule, transfers)):
        yield _merge(schedule, rank, wiring, issued)


def _share_out(schedule: Schedule, transfers: Transfers) -> list[_Issued]:
    """Give each rank its ends of the transfers: in their total order, and none before it can be issued."""
    owners, stages, batches = schedule.owners, range(schedule.stages), schedule.microbatches
    ranks = [_Issued() for _ in schedule.ranks]
    # what the block of a message tells of its two ends; the last stage sends no activation, the first no gradient
    sends = [(stage, kind) for kind in ("SEND_F", "SEND_B") for stage in stages]
    receives = [((stage + step) % len(stages), kind) for kind, step in (("RECV_F", 1), ("RECV_B", -1)) for stage in stages]
    ends = [(ranks[owners[send[0]]], send, ranks[owners[receive[0]]], receive) for send, receive in zip(sends, receives, strict=True)]
    sent_at, posted_at = transfers.sent_at, transfers.posted_at
    for message in transfers.order:
        block, batch = divmod(message, batches)
        sender, (stage, kind), receiver, (next_stage, receive) = ends[block]
        sender.steps.append(max(sent_at[message], sender.steps[-1]))
        sender.rows.append((stage, kind, batch))
        receiver.steps.append(max(posted_at[message], receiver.steps[-1]))
        receiver.rows.append((next_stage, receive, batch))
    return ranks


def _merge(schedule: Schedule, rank: int, wiring: Wiring, issued: _Issued) -> list[Row]:
    """Put a rank's transfers between its actions, behind or before the waits."""
    actions, incoming = schedule.ranks[rank], wiring.incoming
    steps, rows, transfers = [*issued.steps[1:], 2 * len(actions)], [], issued.rows
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
    return rows + transfers[done:]
