"""The layers of a model in a row, summed up so that any stage's costs are a difference of two sums."""

from __future__ import annotations

from itertools import accumulate
from math import fsum
from operator import attrgetter
from typing import TYPE_CHECKING

from ppdsl.costs.values import FREE, LayerCosts

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ppdsl.suggesting.problem import Problem

TIMES = ("forward", "backward", "input_grad", "weight_grad")
"""The fields of ``LayerCosts`` that are times, in the order of ``graphs.KINDS``."""
SIZES = ("params", "activation_bytes", "activation_bytes_after_input_grad")
"""Those that are sizes and add up; a stage's workspace is that of one of its layers."""
_VALUES = attrgetter(*TIMES, *SIZES)


class Stack:
    """The decoder layers of a problem in units that are not parted, and the layers of other kinds.

    A unit's times are at least ``amount`` times the four times in ``profile``, and just that where all layers have times in one ratio. So a
    sum of amounts bounds a sum of times from below, with one number for each unit.

    Attributes:
        units: Number of units.
        alike: Whether all units cost the same.
        profile: What one of the amount takes at least, by time.
        amounts: Amount of each unit.
        reached: Amount of the first k units, for each k.
        embedding: What E costs.
        mtp: What all MTP layers cost.
        norm: What N costs.
        loss: What L costs.
        norm_is_last: Whether the final norm is in the last stage whatever the layout; else it is with the last decoder layer.
    """

    __slots__ = (
        "_sums",
        "_units",
        "_workspaces",
        "alike",
        "amounts",
        "embedding",
        "loss",
        "mtp",
        "norm",
        "norm_is_last",
        "profile",
        "reached",
        "units",
    )

    def __init__(self, problem: Problem) -> None:
        kinds, layers = problem.costs.kinds, problem.costs.layers
        common = kinds.get("t", FREE)
        units = _list_units([layers.get(layer, common) for layer in range(problem.num_layers)], problem.unit)
        self._units = units
        self.units = len(units)
        self.alike = len(set(units)) <= 1
        self._sums = [_sum_up([unit[at] for unit in units], alike=self.alike) for at in range(len((*TIMES, *SIZES)))]
        weights = {unit: sum(unit[: len(TIMES)]) for unit in {*units}}
        self.amounts = [weights[unit] for unit in units]
        self.reached = _sum_up(self.amounts, alike=self.alike)
        self.profile = _lowest_profile(weights)
        self.embedding, self.norm, self.loss = (kinds.get(kind, FREE) for kind in "ENL")
        own = kinds.get("m", FREE) if problem.mtp_num_layers else FREE
        sums = {name: problem.mtp_num_layers * getattr(own, name) for name in (*TIMES, *SIZES)}
        self.mtp = LayerCosts(**sums, workspace_bytes=own.workspace_bytes)
        spaces = [layers.get(layer, common).workspace_bytes for layer in range(problem.num_layers)]
        self._workspaces = [max(spaces[at : at + problem.unit]) for at in range(0, len(spaces), problem.unit)]
        self.norm_is_last = not (problem.mtp_num_layers and problem.num_layers)

    def time_units(self) -> list[tuple[float, ...]]:
        """Give the four times of each unit."""
        return [unit[: len(TIMES)] for unit in self._units]

    def list_stages(self, name: str, counts: Sequence[int], mtp_stage: int) -> list[float]:
        """Give what each stage costs.

        Args:
            name: One of ``TIMES`` or ``SIZES``.
            counts: Units of each stage.
            mtp_stage: The stage of the MTP layers.
        """
        sums = self._sums[(*TIMES, *SIZES).index(name)]
        costs, start = [], 0
        for count in counts:
            costs.append(sums[start + count] - sums[start])
            start += count
        for stage, layer in self.list_others(counts, mtp_stage):
            costs[stage] += getattr(layer, name)
        return costs

    @property
    def has_workspaces(self) -> bool:
        """Whether any layer has one."""
        return any(self._workspaces) or any(each.workspace_bytes for each in (self.embedding, self.mtp, self.norm, self.loss))

    def list_workspaces(self, counts: Sequence[int], mtp_stage: int) -> list[float]:
        """Give the workspace of each stage: the largest of its layers, in bytes.

        Args:
            counts: Units of each stage.
            mtp_stage: The stage of the MTP layers.
        """
        sizes, start = [], 0
        for count in counts:
            sizes.append(max(self._workspaces[start : start + count], default=0.0))
            start += count
        for stage, layer in self.list_others(counts, mtp_stage):
            sizes[stage] = max(sizes[stage], layer.workspace_bytes)
        return sizes

    def list_others(self, counts: Sequence[int], mtp_stage: int) -> list[tuple[int, LayerCosts]]:
        """Give the stage and the costs of what is no decoder layer."""
        last = len(counts) - 1
        norm = last if self.norm_is_last else max((stage for stage, count in enumerate(counts) if count), default=last)
        return [(0, self.embedding), (mtp_stage, self.mtp), (norm, self.norm), (last, self.loss)]

    def time_stages(self, counts: Sequence[int], mtp_stage: int) -> list[float]:
        """Give the durations of all stages as ``graphs.KINDS`` orders them."""
        return [time for name in TIMES for time in self.list_stages(name, counts, mtp_stage)]

    def time_others(self, stages: int, mtp_stage: int) -> list[float]:
        """Give the durations that stages have without decoder layers, ordered the same; a norm that moves with the layout is left out."""
        empty = [0] * stages
        fixed = [0.0] * (len(TIMES) * stages)
        for stage, layer in self.list_others(empty, mtp_stage):
            if layer is not self.norm or self.norm_is_last:
                for at, name in enumerate(TIMES):
                    fixed[at * stages + stage] += getattr(layer, name)
        return fixed


def _sum_up(values: Iterable[float], *, alike: bool) -> list[float]:
    """Give the sums of the first k values, for each k, with as little rounding as may be."""
    values = [*values]
    if alike:
        return [values[0] * count if count else 0.0 for count in range(len(values) + 1)]
    return [0.0, *accumulate(values)] if len(values) > _MOST_EXACT else [fsum(values[:count]) for count in range(len(values) + 1)]


_MOST_EXACT = 4096
"""Layers up to which each sum is rounded but once."""


def _list_units(layers: Sequence[LayerCosts], size: int) -> list[tuple[float, ...]]:
    """Give times and sizes of each unit; those that are made of the same layers are summed up once."""
    parts = [tuple(layers[at : at + size]) for at in range(0, len(layers), size)]
    names = [tuple(map(id, part)) for part in parts]
    known = {name: tuple(map(fsum, zip(*map(_VALUES, part), strict=True))) for name, part in dict(zip(names, parts, strict=True)).items()}
    return [known[name] for name in names]


def _lowest_profile(weights: Mapping[tuple[float, ...], float]) -> tuple[float, ...]:
    """Give, for each time, the smallest share that it has of a unit's amount.

    Args:
        weights: The amount of each kind of unit.
    """
    shares = [[time / amount for time in unit[: len(TIMES)]] for unit, amount in weights.items() if amount]
    return tuple(map(min, zip(*shares, strict=True))) if shares else (0.0,) * len(TIMES)
