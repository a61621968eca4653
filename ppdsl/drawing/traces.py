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

    from ppdsl.schedules.actions import Action, Schedule
    from ppdsl.schedules.timing import Timing

    _Result = tuple[int, bool, int]  # a stage's output or gradient: the stage, whether it is the output, the microbatch

_NS_PER_MS = 1_000_000
_NS_PER_US = 1000

_PROCESS = 1  # in Perfetto the numbers 0 of a process and of a thread mean the idle one
_FIRST_THREAD = 1

Event = dict[str, object]


def chrome_trace(
    schedule: Schedule,
    timing: Timing,
    memory: Mapping[int, Sequence[tuple[float, float]]] | None = None,
    *,
    origin: str = "predicted",
) -> dict[str, object]:
    """Write a timed schedule as a Chrome trace.

    Args:
        schedule: The actions of each rank.
        timing: When they happen, in ms.
        memory: For each rank, (time in ms, bytes in use from then on), in the order of time.
        origin: Where the times come from: ``predicted`` or ``measured``.

    Returns:
        The trace, ready for ``json.dumps``.
    """
    events: list[Event] = [{"ph": "M", "pid": _PROCESS, "name": "process_name", "args": {"name": f"{visible(schedule.name)}, {origin}"}}]
    for rank in range(schedule.pp):
        thread: Event = {"ph": "M", "pid": _PROCESS, "tid": _FIRST_THREAD + rank}
        events += [
            {**thread, "name": "thread_name", "args": {"name": f"rank {rank}"}},
            {**thread, "name": "thread_sort_index", "args": {"sort_index": rank}},
        ]
    events += _slices(schedule, timing)
    for rank, steps in (memory or {}).items():
        counter: Event = {"ph": "C", "pid": _PROCESS, "name": f"memory of rank {rank}"}
        events += [{**counter, "ts": _microseconds(round(time * _NS_PER_MS)), "args": {"bytes": size}} for time, size in steps]
    return {"displayTimeUnit": "ms", "traceEvents": events}


def _slices(schedule: Schedule, timing: Timing) -> Iterator[Event]:
    """Give the slices, and behind each the ends of its arrows.

    A reader puts events in order by time and leaves those of one time as they come. An end belongs to the last slice that began on its
    thread, so it stands behind that slice and, where the slice lasts long enough, inside. The tail of an arrow stands before its head.
    """
    arrows = _Arrows(schedule)
    for rank, at in _follow_inputs(schedule):
        stage, kind, batch = action = schedule.ranks[rank][at]
        first, behind = round(timing.starts[rank][at] * _NS_PER_MS), round(timing.ends[rank][at] * _NS_PER_MS)
        inside = min(1, behind - first)
        here: Event = {"pid": _PROCESS, "tid": _FIRST_THREAD + rank}
        yield {
            **here,
            "ph": "X",
            "name": str(action),
            "cat": NAMES[kind],
            "ts": _microseconds(first),
            "dur": _microseconds(behind - first),
            "args": {"stage": stage, "microbatch": batch},
        }
        transfer: Event = {**here, "cat": "transfer", "name": "activation" if kind == "F" else "gradient"}
        number = arrows.number_into(action)
        if number:
            yield {**transfer, "ph": "f", "bp": "e", "id": number, "ts": _microseconds(first + inside)}
        number = arrows.number_out_of(action)
        if number:
            yield {**transfer, "ph": "s", "id": number, "ts": _microseconds(behind - inside)}


def _follow_inputs(schedule: Schedule) -> Iterator[tuple[int, int]]:
    """Give the place of each action, a rank and a number there, in an order in which its input is made before it."""
    made: set[_Result] = set()
    waiting: dict[_Result, int] = {}
    position = [0] * schedule.pp
    moving = [*range(schedule.pp)]
    while moving:
        rank = moving.pop()
        actions = schedule.ranks[rank]
        while position[rank] < len(actions):
            action = actions[position[rank]]
            need = _input_of(action, schedule.stages - 1)
            if need is not None and need not in made:
                waiting[need] = rank
                break
            yield rank, position[rank]
            position[rank] += 1
            if action.kind != "W":
                result = (action.stage, action.kind == "F", action.microbatch)
                made.add(result)
                if result in waiting:
                    moving.append(waiting.pop(result))


def _input_of(action: Action, last: int) -> _Result | None:
    """Give what an action needs of another stage, or a backward of the last stage of its forward; what a W needs its own rank has made."""
    stage, kind, batch = action
    if kind == "W" or (kind == "F" and not stage):
        return None
    if kind == "F":
        return stage - 1, True, batch
    return (stage, True, batch) if stage == last else (stage + 1, False, batch)


class _Arrows:
    """The numbers of the transfers between ranks, from 1; only of those with both ends in the schedule."""

    def __init__(self, schedule: Schedule) -> None:
        self._owners = schedule.owners
        self._microbatches = schedule.microbatches
        # a whole backward takes and makes the same as an input gradient
        self._done = {(stage, kind == "F", batch) for actions in schedule.ranks for stage, kind, batch in actions if kind != "W"}

    def number_into(self, action: Action) -> int:
        """Give the number of the transfer that an action needs, or 0."""
        stage, kind, _ = action
        return self._number(stage - 1 if kind == "F" else stage + 1, stage, action)

    def number_out_of(self, action: Action) -> int:
        """Give the number of the transfer of what an action makes, or 0."""
        stage, kind, _ = action
        return self._number(stage, stage + 1 if kind == "F" else stage - 1, action)

    def _number(self, sender: int, receiver: int, action: Action) -> int:
        owners, forward, batch = self._owners, action.kind == "F", action.microbatch
        if action.kind == "W" or not self._done.issuperset(((sender, forward, batch), (receiver, forward, batch))):
            return 0
        if owners[sender] == owners[receiver]:
            return 0
        return 1 + (sender if forward else len(owners) + sender) * self._microbatches + batch


def _microseconds(nanoseconds: int) -> float:
    """Give a number of microseconds that is the same number of nanoseconds again, whether a reader rounds or, as older ones do, cuts."""
    whole, rest = divmod(nanoseconds, _NS_PER_US)
    if not rest:
        return whole
    time = nanoseconds / _NS_PER_US
    return time if int(time * _NS_PER_US) == nanoseconds else nextafter(time, inf)
