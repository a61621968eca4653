"""Plans with a schedule and its program: for executors, provers and simulators that must not fall over."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hypothesis import strategies as st

from ppdsl.compiling import compile_layout
from ppdsl.lowering import lower
from ppdsl.schedules import NAMES, find_obstacle, make_schedule
from ppdsl.strategies.cases import layouts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ppdsl.lowering import Program
    from ppdsl.planning import Plan
    from ppdsl.planning.plan import PlanPlacement
    from ppdsl.schedules import Schedule

_ONE_EACH = ("1f1b", "zb_h1", "zb_h2")
_MORE_THAN_PP = 3


@dataclass(frozen=True, slots=True)
class ScheduledPlan:
    """A plan, and what its ranks do in a step. It is made anew from what Hypothesis prints of it.

    Attributes:
        plan: The chunk-ownership table.
        name: The name of the schedule.
        microbatches: Number of microbatches in a step.
        group: The microbatch group that interleaved_1f1b goes by; None elsewhere.
        depth: How many actions ahead of its use a receive is posted.
        schedule: The actions of each rank, in order.
        program: The same with every send, receive and wait; ``ppdsl.proving.verify`` proves it.
    """

    plan: Plan
    name: str
    microbatches: int
    group: int | None
    depth: int
    schedule: Schedule = field(init=False, repr=False)
    program: Program = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "schedule", make_schedule(self.plan, self.name, self.microbatches, group=self.group))
        object.__setattr__(self, "program", lower(self.schedule, self.depth))


def scheduled_plans(
    *, names: Sequence[str] = NAMES, max_microbatches: int = 8, max_depth: int = 2, **bounds: int
) -> st.SearchStrategy[ScheduledPlan]:
    """Draw plans with a schedule that is legal for them, and its program.

    Args:
        names: The schedules to draw from, of ``ppdsl.schedules.NAMES``.
        max_microbatches: Most microbatches in a step; interleaved_1f1b has as many as ranks where that is more.
        max_depth: How many actions ahead of its use a receive is posted at most.
        bounds: ``min_pp``, ``max_pp``, ``min_vpp``, ``max_vpp``, ``max_layers`` and ``max_mtp_layers``, as ``layouts`` takes them. Those of
            vpp count only for the schedules that leave it open: gpipe, interleaved_1f1b and auto.
    """
    return st.sampled_from(names).flatmap(lambda name: _scheduled(name, max_microbatches, max_depth, bounds))


@st.composite
def _scheduled(draw: st.DrawFn, name: str, max_microbatches: int, max_depth: int, bounds: dict[str, int]) -> ScheduledPlan:
    plan = draw(_plans_for(name, bounds))
    microbatches, group = draw(st.integers(1, max_microbatches)), None
    if name == "interleaved_1f1b":
        microbatches, group = draw(_groups(plan.pp, max(max_microbatches, plan.pp)))
    return ScheduledPlan(plan, name, microbatches, group, draw(st.integers(0, max_depth)))


def _plans_for(name: str, bounds: dict[str, int]) -> st.SearchStrategy[Plan]:
    """Draw plans that a schedule is legal for."""
    placements: tuple[PlanPlacement, ...] = ("loop", "v", "owners")
    if name in _ONE_EACH:
        bounds = bounds | {"min_vpp": 1, "max_vpp": 1}
    elif name == "zb_v":
        placements, bounds = ("v",), bounds | {"min_vpp": 2, "max_vpp": 2}
    elif name == "interleaved_1f1b":
        placements = ("loop",)
    cases = layouts(placements=placements, **bounds)  # type: ignore[arg-type]  # the bounds that are not numbers keep their defaults
    return cases.map(lambda case: compile_layout(case.text, **case.sizes))


def _groups(pp: int, most: int) -> st.SearchStrategy[tuple[int, int]]:
    """Draw microbatches and their group, as interleaved_1f1b can have them."""
    groups = range(pp, pp + _MORE_THAN_PP)
    return st.sampled_from(
        [
            (count, group)
            for count in range(1, most + 1)
            for group in groups
            if find_obstacle("interleaved_1f1b", range(pp), pp, count, group) is None
        ]
    )
