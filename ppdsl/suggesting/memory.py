"""What the ranks hold under one choice, for any layout of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ppdsl.suggesting.stacks import SIZES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ppdsl.schedules.actions import Schedule
    from ppdsl.suggesting.choices import Choice
    from ppdsl.suggesting.problem import Problem
    from ppdsl.suggesting.stacks import Stack

_State = tuple[int, ...]
"""Which stage of a rank runs; for each of its stages, microbatches whose activations are whole; then, for each, those that are left in part
until their weight gradient."""


class Memory:
    """Measures layouts of one choice as ``schedules.memory`` does.

    What a rank holds at each of its actions is a few counts of microbatches, whatever the layout. Only the largest of them are kept.
    """

    __slots__ = ("_buffers", "_choice", "_limit", "_per_param", "_stack", "_states")

    def __init__(self, problem: Problem, choice: Choice, stack: Stack, schedule: Schedule, buffers: Sequence[float]) -> None:
        """Prepare to measure.

        Args:
            problem: The problem.
            choice: The choice.
            stack: The layers.
            schedule: The schedule of the choice.
            buffers: Bytes of each rank's buffers.
        """
        self._stack = stack
        self._choice = choice
        self._per_param = problem.costs.bytes_per_param
        self._limit = problem.costs.memory_limit_bytes
        self._buffers = buffers
        stages = [schedule.stages_of(rank) for rank in range(schedule.pp)]
        apart = stack.has_workspaces
        self._states = [(own, _largest_states(schedule, rank, own, apart=apart)) for rank, own in enumerate(stages)]

    def measure(self, counts: Sequence[int]) -> list[float]:
        """Give the most bytes that each rank holds at once."""
        params, whole, rest = (self._stack.list_stages(name, counts, self._choice.mtp_stage) for name in SIZES)
        workspaces = self._stack.list_workspaces(counts, self._choice.mtp_stage)
        peaks = []
        for (own, states), buffer in zip(self._states, self._buffers, strict=True):
            sizes = [*(whole[stage] for stage in own), *(rest[stage] for stage in own)]
            held = (workspaces[own[at]] + sum(count * size for count, size in zip(state, sizes, strict=True)) for at, *state in states)
            most = max(held, default=0.0)
            peaks.append(self._per_param * sum(params[stage] for stage in own) + most + buffer)
        return peaks

    def excess(self, counts: Sequence[int]) -> float:
        """Give by how many bytes the fullest rank is over the limit; 0 where none is, and where there is no limit."""
        if self._limit is None:
            return 0.0
        return max(0.0, max(map(round, self.measure(counts))) - self._limit)


def _largest_states(schedule: Schedule, rank: int, own: Sequence[int], *, apart: bool) -> list[_State]:
    """List what a rank holds at its actions; states that another one exceeds everywhere are dropped.

    Args:
        schedule: The schedule.
        rank: The rank.
        own: Its stages.
        apart: Whether it matters which stage runs; where it does not, what stands behind each forward and first half of a backward is all.
    """
    place = {stage: at for at, stage in enumerate(own)}
    held = [0] * (2 * len(own))
    states: dict[int, set[_State]] = {}
    for stage, kind, _ in schedule.ranks[rank]:
        at = place[stage]
        found = states.setdefault(at if apart else 0, set())
        if apart:
            found.add((at, *held))
        held[at] += 1 if kind == "F" else -(kind != "W")
        held[len(own) + at] += (kind == "I") - (kind == "W")
        # what is left until W may be more than what it replaces, so every I counts as well
        if kind in "FI":
            found.add((at if apart else 0, *held))
    return [state for found in states.values() for state in _keep_largest(found)]


def _keep_largest(states: Iterable[_State]) -> list[_State]:
    kept: list[_State] = []
    for state in sorted(states, reverse=True):
        if not any(all(a >= b for a, b in zip(other, state, strict=True)) for other in kept):
            kept.append(state)
    return kept
