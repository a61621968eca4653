"""Chrome trace JSON, which Perfetto and chrome://tracing open: slices by rank, arrows for transfers, counters for memory.

The format is Google's "Trace Event Format". Its times are in microseconds; here each is a whole number of nanoseconds, since that is what
Perfetto makes of it, and rounding there must not make slices overlap.
"""

from __future__ import annotations

from math import inf, nextafter
from typing import TYPE_CHECKING

from ppdsl.drawing.colors import NAMES
from ppdsl.rendering.characters import visible

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ppdsl.schedules.actions import Schedule
    from ppdsl.schedules.timing import Timing

_NS_PER_MS = 1_000_000
_NS_PER_US = 1000

_PROCESS = 1  # in Perfetto the numbers 0 of a process and of a thread mean the idle one
_FIRST_THREAD = 1

Event = dict[str, object]


def chrome_trace(schedule: Schedule, timing: Timing, memory: Mapping[int, Sequence[tuple[float, float]]] | None = None) -> dict[str, object]:
    """Write a timed schedule as a Chrome trace.

    Args:
        schedule: The actions of each rank.
        timing: When they happen, in ms.
        memory: For each rank, (time in ms, bytes in use from then on), in the order of time.

    Returns:
        The trace, ready for ``json.dumps``.
    """
    arrows = _Arrows(schedule)
    events: list[Event] = [{"ph": "M", "pid": _PROCESS, "name": "process_name", "args": {"name": f"{visible(schedule.name)}, predicted"}}]
    for rank in range(schedule.pp):
        thread: Event = {"ph": "M", "pid": _PROCESS, "tid": _FIRST_THREAD + rank}
        events += [
            {**thread, "name": "thread_name", "args": {"name": f"rank {rank}"}},
            {**thread, "name": "thread_sort_index", "args": {"sort_index": rank}},
        ]
        events += _slices(schedule, timing, rank, arrows)
    for rank, steps in (memory or {}).items():
        counter: Event = {"ph": "C", "pid": _PROCESS, "name": f"memory of rank {rank}"}
        events += [{**counter, "ts": _microseconds(round(time * _NS_PER_MS)), "args": {"bytes": size}} for time, size in steps]
    return {"displayTimeUnit": "ms", "traceEvents": events}


def _slices(schedule: Schedule, timing: Timing, rank: int, arrows: _Arrows) -> Iterator[Event]:
    """Give a rank's slices, and behind each the ends of its arrows.

    An end belongs to the last slice of its thread that began before it, so it has to stand behind that slice and, where the slice lasts long
    enough, inside.
    """
    here: Event = {"pid": _PROCESS, "tid": _FIRST_THREAD + rank}
    for action, start, end in zip(schedule.ranks[rank], timing.starts[rank], timing.ends[rank], strict=True):
        stage, kind, batch = action
        first, behind = round(start * _NS_PER_MS), round(end * _NS_PER_MS)
        inside = min(1, behind - first)
        yield {
            **here,
            "ph": "X",
            "name": str(action),
            "cat": NAMES[kind],
            "ts": _microseconds(first),
            "dur": _microseconds(behind - first),
            "args": {"stage": stage, "microbatch": batch},
        }
        if kind == "W":
            continue
        came, goes = arrows.into(stage, kind, batch), arrows.out_of(stage, kind, batch)
        transfer: Event = {**here, "cat": "transfer", "name": "activation" if kind == "F" else "gradient"}
        if came:
            yield {**transfer, "ph": "f", "bp": "e", "id": came, "ts": _microseconds(first + inside)}
        if goes:
            yield {**transfer, "ph": "s", "id": goes, "ts": _microseconds(behind - inside)}


class _Arrows:
    """The numbers of the transfers between ranks, from 1; only of those with both ends in the schedule."""

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule
        # a whole backward takes and makes the same as an input gradient
        self._done = {(stage, kind == "F", batch) for actions in schedule.ranks for stage, kind, batch in actions if kind != "W"}

    def into(self, stage: int, kind: str, batch: int) -> int:
        """Give the number of the transfer that an action needs, or 0."""
        return self._number(stage - 1 if kind == "F" else stage + 1, stage, kind, batch)

    def out_of(self, stage: int, kind: str, batch: int) -> int:
        """Give the number of the transfer that an action makes, or 0."""
        return self._number(stage, stage + 1 if kind == "F" else stage - 1, kind, batch)

    def _number(self, sender: int, receiver: int, kind: str, batch: int) -> int:
        owners, forward = self._schedule.owners, kind == "F"
        if not (0 <= sender < len(owners) and 0 <= receiver < len(owners)) or owners[sender] == owners[receiver]:
            return 0
        if (sender, forward, batch) not in self._done or (receiver, forward, batch) not in self._done:
            return 0
        return 1 + (sender if forward else len(owners) + sender) * self._schedule.microbatches + batch


def _microseconds(nanoseconds: int) -> float:
    """Give a number of microseconds that is the same number of nanoseconds again, whether a reader rounds or, as older ones do, cuts."""
    whole, rest = divmod(nanoseconds, _NS_PER_US)
    if not rest:
        return whole
    time = nanoseconds / _NS_PER_US
    return time if int(time * _NS_PER_US) == nanoseconds else nextafter(time, inf)
