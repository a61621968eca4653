"""The named orders with whole backwards: gpipe, 1f1b, and Megatron-LM's interleaved 1f1b."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ppdsl.schedules.actions import Action, Schedule

if TYPE_CHECKING:
    from collections.abc import Sequence


def _split_by_rank(owners: Sequence[int], pp: int) -> list[list[int]]:
    stages: list[list[int]] = [[] for _ in range(pp)]
    for stage, owner in enumerate(owners):
        stages[owner].append(stage)
    return stages


def gpipe(owners: Sequence[int], pp: int, microbatches: int) -> Schedule:
    """All forwards, then all backwards, chunk by chunk (arXiv 1811.06965). Legal for any placement and any number of microbatches.

    Args:
        owners: The rank of each stage.
        pp: Number of ranks.
        microbatches: Number of microbatches in a step.
    """
    ranks = []
    for stages in _split_by_rank(owners, pp):
        forward = [Action(stage, "F", batch) for stage in stages for batch in range(microbatches)]
        backward = [Action(stage, "B", batch) for stage in reversed(stages) for batch in range(microbatches)]
        ranks.append((*forward, *backward))
    return Schedule("gpipe", tuple(owners), microbatches, tuple(ranks))


def one_forward_one_backward(owners: Sequence[int], pp: int, microbatches: int) -> Schedule:
    """1F1B (arXiv 2104.04473): stage r does p-1-r forwards first, then one forward and one backward in turn.

    Raises:
        ValueError: A rank does not own exactly one stage.
    """
    if sorted(owners) != [*range(pp)]:
        message = "1f1b needs one stage on each rank"
        raise ValueError(message)
    ranks: list[tuple[Action, ...]] = [()] * pp
    for stage, owner in enumerate(owners):
        warm_up = min(pp - 1 - stage, microbatches)
        ranks[owner] = _alternate(
            [Action(stage, "F", n) for n in range(microbatches)], [Action(stage, "B", n) for n in range(microbatches)], warm_up
        )
    return Schedule("1f1b", tuple(owners), microbatches, tuple(ranks))


def _alternate(forward: list[Action], backward: list[Action], warm_up: int) -> tuple[Action, ...]:
    """Do ``warm_up`` forwards, then a forward and a backward in turn, then the backwards that are left."""
    actions = forward[:warm_up]
    steady = len(forward) - warm_up
    for ahead, back in zip(forward[warm_up:], backward[:steady], strict=True):
        actions += (ahead, back)
    return (*actions, *backward[steady:])


def interleaved(owners: Sequence[int], pp: int, microbatches: int, group: int) -> Schedule:
    """Megatron-LM's interleaved 1F1B, its order exactly (get_schedule_table and get_pp_rank_microbatches of megatron-core 0.16.1).

    Args:
        owners: The rank of each stage; a loop.
        pp: Number of ranks.
        microbatches: Number of microbatches in a step.
        group: Microbatches that a chunk works through before the next takes its turn.

    Raises:
        ValueError: The placement is not a loop.
    """
    chunks, rest = divmod(len(owners), pp)
    if rest or tuple(owners) != tuple(range(pp)) * chunks:
        message = "interleaved_1f1b needs the loop placement"
        raise ValueError(message)
    table = [
        (batch, chunk)
        for start in range(0, microbatches, group)
        for chunk in range(chunks)
        for batch in range(start, min(start + group, microbatches))
    ]
    ranks = []
    for rank in range(pp):
        forward = [Action(chunk * pp + rank, "F", batch) for batch, chunk in table]
        backward = [Action((chunks - 1 - chunk) * pp + rank, "B", batch) for batch, chunk in table]
        warm_up = (pp - rank - 1) * 2 + (chunks - 1) * group if chunks > 1 else pp - rank - 1
        ranks.append(_alternate(forward, backward, min(warm_up, len(table))))
    return Schedule("interleaved_1f1b", tuple(owners), microbatches, tuple(ranks))
