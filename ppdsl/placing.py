"""Which rank owns which stage: the placements."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ppdsl.normal_form import NormalForm
    from ppdsl.options import Placement


def rank_cycle(pp: int, placement: Placement) -> tuple[int, ...]:
    """Give the ranks of the first stages, after which the placement repeats.

    Args:
        pp: Number of pipeline ranks.
        placement: ``loop``: stage k is on rank k mod pp. ``v``: the same, but every odd pass runs backwards.
    """
    forward = tuple(range(pp))
    return forward if placement == "loop" else (*forward, *reversed(forward))


def stage_of(rank: int, chunk: int, pp: int, placement: Placement) -> int:
    """Give the stage that is a rank's chunk of a number, both counted from 0."""
    return chunk * pp + (pp - 1 - rank if placement == "v" and chunk % 2 else rank)


def rank_of(stage: int, pp: int, placement: Placement) -> int:
    """Give the rank that owns a stage."""
    chunk, step = divmod(stage, pp)
    return pp - 1 - step if placement == "v" and chunk % 2 else step


def sum_by_rank(form: NormalForm, values: Iterable[int], pp: int, placement: Placement | None) -> list[int]:
    """Sum a value of the stages over each rank, without listing the stages.

    Args:
        form: A listed layout whose stages number a multiple of ``pp``.
        values: The value of each of ``form.stages``.
        pp: Number of pipeline ranks.
        placement: None where the stages have owners of their own, all of them below ``pp``.

    Returns:
        The sum for rank 0, 1, …
    """
    values = tuple(values)
    sums = [0] * pp
    if placement is None:
        for index, count in form.order or ():
            sums[form.stages[index].owner or 0] += values[index] * count
        return sums
    cycle = rank_cycle(pp, placement)
    length = len(cycle)
    twice = cycle + cycle
    everywhere = number = 0
    for index, count in form.order or ():
        value = values[index]
        if value:
            everywhere += count // length * value
            start = number % length
            for rank in twice[start : start + count % length]:
                sums[rank] += value
        number += count
    return [total + everywhere * (length // pp) for total in sums] if everywhere else sums
