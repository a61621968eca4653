"""Times that no layout beats, as linear functions of what its stages weigh."""

from __future__ import annotations

from operator import mul
from typing import TYPE_CHECKING, NamedTuple

from ppdsl.suggesting.stacks import TIMES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ppdsl.suggesting.choices import Choice
    from ppdsl.suggesting.problem import Problem
    from ppdsl.suggesting.stacks import Stack


class Cut(NamedTuple):
    """A time that no layout of a choice beats, as a linear function of the amounts of its stages: a path through the schedule's graph.

    Attributes:
        base: What the path takes whatever the amounts.
        slopes: What each of a stage's amount adds.
    """

    base: float
    slopes: tuple[float, ...]

    def bound(self, amounts: Sequence[float]) -> float:
        """Give the bound for the amounts of the stages."""
        variable: float = sum(map(mul, self.slopes, amounts))
        return self.base + variable


def list_works(problem: Problem, choice: Choice, stack: Stack) -> list[Cut]:
    """Give the time that each rank works, by rank, under any schedule."""
    passes = _Passes(choice, stack)
    cuts = []
    for rank in range(problem.pp):
        own = [stage for stage, owner in enumerate(choice.owners) if owner == rank]
        slopes = [0.0] * len(choice.owners)
        for stage in own:
            slopes[stage] = problem.microbatches * passes.slope
        cuts.append(Cut(problem.microbatches * sum(passes.fixed[stage] for stage in own), tuple(slopes)))
    return cuts


def weigh_units(problem: Problem, choice: Choice, stack: Stack) -> list[float]:
    """Give the time that each unit takes of its rank in a step, under any schedule."""
    return [problem.microbatches * _add(choice, *times) for times in stack.time_units()]


def list_ways(problem: Problem, choice: Choice, stack: Stack) -> list[Cut]:
    """Give the time that each rank's work and the way there and back take, by rank, under any schedule.

    A rank waits for its first input and then has all its work to do. Behind the last of it, its gradient has to go back to stage 0; but
    behind a weight gradient, where the backward may be split, nothing has to follow.
    """
    works = list_works(problem, choice, stack)
    if problem.objective == "span" and choice.split:
        return works
    passes = _Passes(choice, stack)
    delay, busy = describe_link(problem, choice)
    base, slopes = 0.0, [0.0] * len(choice.owners)
    seen: set[int] = set()
    for stage, owner in enumerate(choice.owners):
        if owner not in seen:
            seen.add(owner)
            work = works[owner]
            works[owner] = Cut(base + work.base, tuple(a + b for a, b in zip(slopes, work.slopes, strict=True)))
        base += passes.around[stage]
        slopes[stage] = passes.around_slope
        if stage + 1 < len(choice.owners) and choice.owners[stage + 1] != owner:
            base += (1 if choice.split else 2) * (delay + (busy[stage] if busy else 0.0))
    return works


class _Passes:
    """What one microbatch takes.

    Attributes:
        fixed: Forward and backward of what is no decoder layer, by stage.
        slope: The same of one of the amount.
        around: What has to pass a stage before a rank behind it begins, and after it has ended.
        around_slope: The same of one of the amount.
    """

    __slots__ = ("around", "around_slope", "fixed", "slope")

    def __init__(self, choice: Choice, stack: Stack) -> None:
        stages = len(choice.owners)
        times = stack.time_others(stages, choice.mtp_stage)
        rows = [times[at * stages : (at + 1) * stages] for at in range(len(TIMES))]
        self.fixed = [_add(choice, *column) for column in zip(*rows, strict=True)]
        self.slope = _add(choice, *stack.profile)
        self.around = rows[0] if choice.split else [forward + backward for forward, backward in zip(rows[0], rows[1], strict=True)]
        self.around_slope = stack.profile[0] if choice.split else stack.profile[0] + stack.profile[1]


def _add(choice: Choice, forward: float, backward: float, input_grad: float, weight_grad: float) -> float:
    halves = input_grad + weight_grad
    return forward + (min(backward, halves) if choice.split else backward)


def describe_link(problem: Problem, choice: Choice) -> tuple[float, list[float]]:
    """Give the delay of a message, and how long it takes up each edge's link; the latter is empty where it does not."""
    costs = problem.costs
    if costs.link is None:
        return float(costs.p2p_ms), []
    sending = costs.link.sending_ms
    edges = range(len(choice.owners) - 1)
    carried = [1 + (problem.mtp_num_layers if stage >= choice.mtp_stage else 0) for stage in edges]
    return costs.link.latency_us / 1e3, [sending * count for count in carried] if sending else []
