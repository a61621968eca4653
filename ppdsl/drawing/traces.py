"""Chrome trace JSON, which Perfetto and chrome://tracing open: slices by rank, arrows for transfers, counters for memory.

The format is Google's "Trace Event Format"; times are in microseconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ppdsl.drawing.colors import NAMES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ppdsl.schedules.actions import Schedule
    from ppdsl.simulation.timing import Timing

_US_PER_MS = 1000.0

Event = dict[str, object]


def chrome_trace(schedule: Schedule, timing: Timing, memory: Mapping[int, Sequence[tuple[float, float]]] | None = None) -> dict[str, object]:
    """Write a timed schedule as a Chrome trace.

    Args:
        schedule: The actions of each rank.
        timing: When they happen, in ms.
        memory: For each rank, (time in ms, bytes in use from then on), in the order of time.

    Returns:
        The trace, ready for ``json.dump``.
    """
    events: list[Event] = [{"ph": "M", "pid": 0, "name": "process_name", "args": {"name": f"{schedule.name}, predicted"}}]
    for rank in range(schedule.pp):
        events += [
            {"ph": "M", "pid": 0, "tid": rank, "name": "thread_name", "args": {"name": f"rank {rank}"}},
            {"ph": "M", "pid": 0, "tid": rank, "name": "thread_sort_index", "args": {"sort_index": rank}},
        ]
        events += _slices(schedule, timing, rank)
    events += _arrows(schedule, timing)
    for rank, steps in (memory or {}).items():
        events += [
            {"ph": "C", "pid": 0, "name": f"memory of rank {rank}", "ts": time * _US_PER_MS, "args": {"bytes": size}} for time, size in steps
        ]
    return {"displayTimeUnit": "ms", "traceEvents": events}


def _slices(schedule: Schedule, timing: Timing, rank: int) -> Iterator[Event]:
    for action, start, end in zip(schedule.ranks[rank], timing.starts[rank], timing.ends[rank], strict=True):
        stage, kind, batch = action
        yield {
            "ph": "X",
            "pid": 0,
            "tid": rank,
            "name": str(action),
            "cat": NAMES[kind],
            "ts": start * _US_PER_MS,
            "dur": (end - start) * _US_PER_MS,
            "args": {"stage": stage, "microbatch": batch},
        }


def _arrows(schedule: Schedule, timing: Timing) -> Iterator[Event]:
    """Give a flow from the end of each action whose output goes to another rank to the start of the action that uses it."""
    starts: dict[tuple[int, str, int], float] = {}
    for rank, actions in enumerate(schedule.ranks):
        for (stage, kind, batch), start in zip(actions, timing.starts[rank], strict=True):
            if kind != "W":
                starts[stage, "F" if kind == "F" else "B", batch] = start
    number = 0
    for rank, actions in enumerate(schedule.ranks):
        for (stage, kind, batch), end in zip(actions, timing.ends[rank], strict=True):
            after = stage + 1 if kind == "F" else stage - 1
            start = starts.get((after, "F" if kind == "F" else "B", batch))
            if kind == "W" or start is None or schedule.owners[after] == rank:
                continue
            number += 1
            flow: Event = {"pid": 0, "cat": "transfer", "name": "activation" if kind == "F" else "gradient", "id": number}
            yield {**flow, "ph": "s", "tid": rank, "ts": end * _US_PER_MS}
            yield {**flow, "ph": "f", "bp": "e", "tid": schedule.owners[after], "ts": start * _US_PER_MS}
