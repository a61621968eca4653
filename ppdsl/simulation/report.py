"""What a simulation found, as data; times in ms, sizes in bytes."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ppdsl.schedules.actions import Action
    from ppdsl.schedules.timing import Timing

SCHEMA_VERSION = "1.0"


@dataclass(frozen=True, slots=True)
class IdleTime:
    """The time of a rank without work, from 0 to the makespan, by cause.

    Attributes:
        fill: Before its first B or I.
        drain: After its last F.
        imbalance: The rest of the waits between them.
        p2p: Of each wait between them, the part for which the awaited message is on its way.
    """

    fill: float
    drain: float
    imbalance: float
    p2p: float


@dataclass(frozen=True, slots=True)
class RankReport:
    """What a rank does and holds.

    Attributes:
        busy: Time with work.
        idle: Time without; with ``busy`` it makes up the makespan.
        peak_in_flight: The most microbatches, counted over its chunks, whose F is done and whose B or I is not.
        peak_memory: The most bytes that it holds at once.
    """

    busy: float
    idle: IdleTime
    peak_in_flight: int
    peak_memory: int


class PathStep(NamedTuple):
    """One step of the critical path.

    Attributes:
        action: The action; of a transfer, the one that made what is sent.
        rank: The rank that acts or sends.
        receiver: The rank that a transfer goes to; None for an action.
        start: When it begins, which is the end of the step before.
        end: When it is done.
    """

    action: Action
    rank: int
    receiver: int | None
    start: float
    end: float

    def to_json(self) -> dict[str, object]:
        """Give it as data that ``json.dumps`` takes."""
        times = {"start_ms": float(self.start), "end_ms": float(self.end)}
        if self.receiver is None:
            return {"action": str(self.action), "rank": self.rank, **times}
        return {"transfer": str(self.action), "rank": self.rank, "to_rank": self.receiver, **times}


@dataclass(frozen=True, slots=True)
class SimulationReport:
    """What a schedule of a layout costs.

    Attributes:
        layout: The canonical layout.
        schedule: The name of the schedule.
        microbatches: Number of microbatches in a step.
        makespan: End of the last action.
        span: The largest over ranks of last end minus own first start.
        bubble_ratio: (span - mean busy time of the ranks) / span.
        bubble_ratio_makespan: The same with the makespan.
        ranks: Each rank.
        critical_path: Actions and transfers that follow each other without a gap from 0 to the makespan, and so decide it.
        timing: When each action happens.
    """

    layout: str
    schedule: str
    microbatches: int
    makespan: float
    span: float
    bubble_ratio: float
    bubble_ratio_makespan: float
    ranks: tuple[RankReport, ...]
    critical_path: tuple[PathStep, ...]
    timing: Timing = field(repr=False, compare=False)

    def to_json(self) -> dict[str, object]:
        """Give the report as data that ``json.dumps`` takes; ``SCHEMA`` describes it."""
        return {
            "schema_version": SCHEMA_VERSION,
            "layout": self.layout,
            "schedule": self.schedule,
            "microbatches": self.microbatches,
            "makespan_ms": self.makespan,
            "span_ms": self.span,
            "bubble_ratio": self.bubble_ratio,
            "bubble_ratio_makespan": self.bubble_ratio_makespan,
            "ranks": [
                {
                    "busy_ms": rank.busy,
                    "idle_ms": asdict(rank.idle),
                    "peak_in_flight": rank.peak_in_flight,
                    "peak_memory_bytes": rank.peak_memory,
                }
                for rank in self.ranks
            ],
            "critical_path": [step.to_json() for step in self.critical_path],
        }
