"""Which chunk keeps which waiting, between the fill and the drain of its rank."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ppdsl.schedules.actions import Schedule
    from ppdsl.schedules.timing import Timing


class Stall(NamedTuple):
    """How long a rank stands still, all in all, for what one chunk makes for another.

    Attributes:
        stage: The stage whose next action has to wait.
        rank: Its rank.
        source: The stage whose output it waits for.
        source_rank: The rank of that.
        time: How long, in ms; a message's time on its way is part of it.
        waits: How often.
    """

    stage: int
    rank: int
    source: int
    source_rank: int
    time: float
    waits: int

    def to_json(self) -> dict[str, object]:
        """Give it as data that ``json.dumps`` takes."""
        ends = {"stage": self.stage, "rank": self.rank, "source_stage": self.source, "source_rank": self.source_rank}
        return {**ends, "time_ms": self.time, "waits": self.waits}


def list_stalls(schedule: Schedule, timing: Timing) -> tuple[Stall, ...]:
    """Add up the waits that a report counts as imbalance or p2p, by who waits for whom; the longest first.

    Waits before a rank's first backward and behind its last forward are its fill and its drain, which no chunk is to blame for.
    """
    sums: dict[tuple[int, int], tuple[float, int]] = {}
    for actions, starts, ends in zip(schedule.ranks, timing.starts, timing.ends, strict=True):
        first = next((at for at, action in enumerate(actions) if action.kind in "BI"), len(actions))
        last = max((at for at, action in enumerate(actions) if action.kind == "F"), default=-1)
        for at in range(first + 1, last + 1):
            stage, kind, _ = actions[at]
            gap = starts[at] - ends[at - 1]
            if gap > 0:
                source = stage - 1 if kind == "F" else min(stage + 1, schedule.stages - 1)
                time, waits = sums.get((stage, source), (0.0, 0))
                sums[stage, source] = (time + gap, waits + 1)
    owners = schedule.owners
    stalls = (Stall(stage, owners[stage], source, owners[source], *found) for (stage, source), found in sums.items())
    return tuple(sorted(stalls, key=lambda stall: (-stall.time, stall.stage, stall.source)))
