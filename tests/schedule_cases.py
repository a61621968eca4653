"""Schedules to test with: the named orders, and the naive ways to add communication to a schedule."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ppdsl.schedules.orders import gpipe, interleaved, one_forward_one_backward
from ppdsl.schedules.zero_bubble import zb_h1, zb_h2, zb_v

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ppdsl.schedules.actions import Schedule


def loop(pp: int, vpp: int = 1) -> tuple[int, ...]:
    """The owners of the placement ``loop``."""
    return tuple(range(pp)) * vpp


def vee(pp: int) -> tuple[int, ...]:
    """The owners of the placement ``v`` with two chunks a rank."""
    return (*range(pp), *reversed(range(pp)))


def groups(pp: int, microbatches: int) -> list[int]:
    """The microbatch groups that the interleaved order can be carried out with (PP315)."""
    return [group for group in range(pp, microbatches + 1) if microbatches % group == 0 or microbatches % group >= pp]


def named_schedules(sizes: tuple[int, ...], counts: tuple[int, ...]) -> Iterator[Schedule]:
    """Every named order, where it is legal, for some numbers of ranks and of microbatches."""
    for pp in sizes:
        for microbatches in counts:
            for vpp in (1, 2, 3):
                yield gpipe(loop(pp, vpp), pp, microbatches)
            for order in (one_forward_one_backward, zb_h1, zb_h2):
                yield order(loop(pp), pp, microbatches)
            yield zb_v(vee(pp), pp, microbatches)
            for vpp in (2, 3):
                yield from (interleaved(loop(pp, vpp), pp, microbatches, group) for group in groups(pp, microbatches))


def write_naively(schedule: Schedule, ahead: int = 0) -> str:
    """A schedule CSV with communication as one first thinks of it: each send behind its action, each receive so many actions before it.

    Receives come in the order of their uses.
    """
    owners, lines = schedule.owners, []
    for rank, actions in enumerate(schedule.ranks):
        receives: list[list[str]] = [[] for _ in actions]
        for at, (stage, kind, batch) in enumerate(actions):
            if kind == "F" and stage and owners[stage - 1] != rank:
                receives[max(0, at - ahead)].append(f"{stage}RECV_F{batch}")
            if kind in ("B", "I") and stage < len(owners) - 1 and owners[stage + 1] != rank:
                receives[max(0, at - ahead)].append(f"{stage}RECV_B{batch}")
        cells = []
        for at, (stage, kind, batch) in enumerate(actions):
            cells += [*receives[at], str(actions[at])]
            if kind == "F" and stage < len(owners) - 1 and owners[stage + 1] != rank:
                cells.append(f"{stage}SEND_F{batch}")
            if kind in ("B", "I") and stage and owners[stage - 1] != rank:
                cells.append(f"{stage}SEND_B{batch}")
        lines.append(",".join(cells) + "\n")
    return "".join(lines)
