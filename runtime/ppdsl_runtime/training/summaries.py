"""What is told at the end of a run: where its time went."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ppdsl.schedules.timing import Durations
    from ppdsl_runtime.training.timelines import Measured


class Load(NamedTuple):
    """Where the time of a step went.

    Attributes:
        busy: Each rank's time with work, in ms.
        imbalance: 1 - mean / bottleneck, over the ranks' work.
        fill_and_drain: The share of all ranks' time before their first backward and behind their last forward in which they do not work.
    """

    busy: tuple[float, ...]
    imbalance: float
    fill_and_drain: float

    @property
    def bottleneck(self) -> int:
        """The rank with the most work."""
        return max(range(len(self.busy)), key=self.busy.__getitem__)


def analyse_load(step: Measured) -> Load:
    """Say where the time of a measured or a predicted step went."""
    schedule, timing = step.schedule, step.timing
    makespan = timing.makespan
    busy, waiting = [], 0.0
    for actions, starts, ends in zip(schedule.ranks, timing.starts, timing.ends, strict=True):
        work = [end - start for start, end in zip(starts, ends, strict=True)]
        busy.append(sum(work))
        first = next((at for at, action in enumerate(actions) if action.kind in "BI"), len(actions))
        last = max((at for at, action in enumerate(actions) if action.kind == "F"), default=-1)
        filling = (starts[first] if first < len(actions) else makespan) - sum(work[:first])
        draining = makespan - (ends[last] if last >= 0 else 0.0) - sum(work[last + 1 :])
        waiting += min(makespan - sum(work), max(0.0, filling) + max(0.0, draining))  # a gap may be part of both
    most = max(busy)
    imbalance = max(0.0, 1 - sum(busy) / len(busy) / most) if most else 0.0
    return Load(tuple(busy), imbalance, waiting / (makespan * len(busy)) if makespan else 0.0)


def tell_load(step: Measured, durations: Durations) -> Iterator[str]:
    """Tell each stage's measured times, the bottleneck, and the shares of imbalance and of fill and drain; whole lines."""
    load, owners = analyse_load(step), step.schedule.owners
    yield f"{'stage':>5} {'rank':>5} {'forward ms':>11} {'backward ms':>12}\n"
    for stage, owner in enumerate(owners):
        yield f"{stage:>5} {owner:>5} {durations.forward[stage]:>11.3f} {durations.backward[stage]:>12.3f}\n"
    yield f"bottleneck: rank {load.bottleneck}, {load.busy[load.bottleneck]:.3f} ms of work in a step of {step.timing.makespan:.3f} ms\n"
    yield f"imbalance {load.imbalance:.1%}, fill and drain {load.fill_and_drain:.1%}\n"
