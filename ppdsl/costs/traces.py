"""A trace of a run to costs: what each stage was seen to take, divided over its layers.

A trace has a slice for each action, named as a schedule names it (``3F0``: forward of microbatch 0 in stage 3), so it says what stages
take, not what layers do. The median over microbatches and steps of each stage's forward and backward, or of its two halves, is divided so:

1. Least squares over the kinds of layer, where the stages tell them apart: where some stage has nothing but decoder layers, for instance,
   that is what a decoder layer costs, and the embedding costs what the first stage takes beyond its own. Where MTP layers cannot be
   told apart, one is taken for a decoder layer. The final norm costs nothing: it nearly always stands beside what it cannot be told from.
2. Where the stages do not tell the kinds apart, each stage evenly over its layers of whatever kind, the final norm left out.
3. What remains of each stage goes evenly to its decoder layers, so that the stages of the layout that was traced take again what they
   took. A stage without decoder layers has its other layers scaled to that.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from math import fsum
from typing import TYPE_CHECKING, NamedTuple

from ppdsl.costs.numbers import show, take_number
from ppdsl.costs.values import Costs, LayerCosts

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ppdsl.planning.plan import Chunk, Plan

EVENTS_FIELD = "traceEvents"
MOST_LAYERS = 1_048_576
"""Decoder layers that are told apart."""

_ACTION = re.compile(r"([0-9]{1,9})([FBIW])[0-9]{1,12}")
_US_PER_MS = 1000
_BY_KIND = ("E", "t", "m", "L")
_DECODER, _MTP = 1, 2


class _Division(NamedTuple):
    """What stages take, divided over layers: the cost of one layer of each kind, and of a decoder layer of each stage."""

    kinds: dict[str, float]
    decoder: list[float]


def is_trace(data: object) -> bool:
    """Tell whether a JSON value is a trace: an object with its events, or the list of them alone."""
    if isinstance(data, list):
        return bool(data) and isinstance(data[0], Mapping) and "ph" in data[0]
    return isinstance(data, Mapping) and EVENTS_FIELD in data


def read_trace(data: object, plan: Plan) -> Costs:
    """Read a trace as ``ppdsl simulate --trace`` writes it, or a run that is recorded in the same format.

    A trace without any backward gives a backward of twice the forward; one with whole backwards gives halves of them, or all weight
    gradient for the embedding. Sizes and the time of transfers are not taken from it.

    Args:
        data: The trace: its JSON, decoded.
        plan: The layout that was traced.

    Raises:
        ValueError: It has no slices of actions, or not all those of the layout's stages; or it has some of other stages.
    """
    from statistics import median  # noqa: PLC0415 -- slow to load, and most costs are not measured

    medians = {key: median(times) for key, times in _collect_times(data, len(plan.chunks)).items()}
    if not medians:
        raise ValueError("the trace has no slice that is named like an action, 0F0")
    stages = [chunk.stage for chunk in plan.chunks if any(_count_kinds(chunk))]
    forward = [_take_stage(medians, stage, "F") for stage in stages]
    chunks = [plan.chunks[stage] for stage in stages]
    if all(kind == "F" for _, kind in medians):
        first, second = forward, forward
        split = False
    else:
        halves = [_take_halves(medians, stage) for stage in stages]
        first, second = [half[0] for half in halves], [half[1] for half in halves]
        split = all((stage, "I") in medians for stage in stages)
    divisions = [_divide(chunks, totals) for totals in (forward, first, second)]
    return _combine(plan, chunks, divisions, split=split)


def _collect_times(data: object, stages: int) -> dict[tuple[int, str], list[float]]:
    """Give the durations of each stage's actions, by stage and kind, in ms."""
    times: dict[tuple[int, str], list[float]] = defaultdict(list)
    for index, event in _events(data):
        name = event.get("name")
        action = _ACTION.fullmatch(name) if isinstance(name, str) else None
        if event.get("ph") != "X" or action is None:
            continue
        stage = int(action[1])
        if stage >= stages:
            raise ValueError(f"{EVENTS_FIELD}[{index}] is {action[0]}, an action of stage {stage}: the layout has {stages} stages")
        times[stage, action[2]].append(take_number(event.get("dur"), f"{EVENTS_FIELD}[{index}].dur") / _US_PER_MS)
    return times


def _events(data: object) -> Iterator[tuple[int, Mapping[str, object]]]:
    events = data[EVENTS_FIELD] if isinstance(data, Mapping) else data
    if not isinstance(events, list):
        raise ValueError(f"{EVENTS_FIELD} is {show(events)}, not a list")  # noqa: TRY004 -- the data is at fault, not the call
    for index, event in enumerate(events):
        if not isinstance(event, Mapping):
            raise ValueError(f"{EVENTS_FIELD}[{index}] is {show(event)}, not an object")  # noqa: TRY004 -- the same
        yield index, event


def _take_stage(medians: Mapping[tuple[int, str], float], stage: int, kind: str) -> float:
    if (stage, kind) not in medians:
        what = {"F": "forward", "B": "backward", "I": "input gradient", "W": "weight gradient"}[kind]
        raise ValueError(f"the trace has no {what} of stage {stage}")
    return medians[stage, kind]


def _take_halves(medians: Mapping[tuple[int, str], float], stage: int) -> tuple[float, float]:
    """Give the halves of a stage's backward, as they were seen or made of the whole."""
    if (stage, "I") in medians:
        return medians[stage, "I"], _take_stage(medians, stage, "W")
    whole = _take_stage(medians, stage, "B")
    return whole / 2, whole / 2


def _count_kinds(chunk: Chunk) -> tuple[int, int, int, int]:
    """Count the layers of each kind but the final norm, in the order of ``_BY_KIND``."""
    decoder, mtp = chunk.layers[1] - chunk.layers[0], chunk.mtp_layers[1] - chunk.mtp_layers[0]
    return int(chunk.embedding), decoder, mtp, int(chunk.loss)


def _divide(chunks: Sequence[Chunk], totals: Sequence[float]) -> _Division:
    counts = [*map(_count_kinds, chunks)]
    kinds = _fit(counts, totals)
    decoder = [0.0] * len(chunks)
    for number, (row, total) in enumerate(zip(counts, totals, strict=True)):
        if not row[_DECODER]:
            continue
        if kinds is None:
            decoder[number] = total / sum(row)
        else:
            others = fsum(row[place] * kinds[kind] for place, kind in enumerate(_BY_KIND) if place != _DECODER)
            decoder[number] = max(total - others, 0.0) / row[_DECODER]
    return _Division(_settle(counts, totals, kinds), decoder)


def _settle(counts: Sequence[tuple[int, ...]], totals: Sequence[float], kinds: dict[str, float] | None) -> dict[str, float]:
    """Give the costs of the kinds but t: as fitted, scaled where no decoder layer stands beside them; or each stage's even share."""
    settled: dict[str, float] = {}
    for row, total in zip(counts, totals, strict=True):
        here = [place for place, number in enumerate(row) if number and place != _DECODER]
        fitted = 0.0 if kinds is None else fsum(row[place] * kinds[_BY_KIND[place]] for place in here)
        for place in here:
            kind = _BY_KIND[place]
            if kinds is None or not (row[_DECODER] or fitted):
                settled[kind] = total / sum(row)
            else:
                settled[kind] = kinds[kind] if row[_DECODER] else kinds[kind] * total / fitted
    return settled


def _fit(counts: Sequence[tuple[int, ...]], totals: Sequence[float]) -> dict[str, float] | None:
    """Fit the kinds that are there; with MTP layers taken for decoder layers where that is needed; None where nothing helps."""
    from ppdsl.costs.fitting import fit_kinds  # noqa: PLC0415 -- the same

    present = [place for place in range(len(_BY_KIND)) if any(row[place] for row in counts)]
    fitted = fit_kinds([[row[place] for place in present] for row in counts], totals)
    if fitted is not None:
        return {**dict.fromkeys(_BY_KIND, 0.0), **{_BY_KIND[place]: cost for place, cost in zip(present, fitted, strict=True)}}
    if _MTP not in present or _DECODER not in present:
        return None
    joined = [tuple(row[place] + (row[_MTP] if place == _DECODER else 0) for place in present if place != _MTP) for row in counts]
    fitted = fit_kinds(joined, totals)
    if fitted is None:
        return None
    names = [_BY_KIND[place] for place in present if place != _MTP]
    kinds = {**dict.fromkeys(_BY_KIND, 0.0), **dict(zip(names, fitted, strict=True))}
    return {**kinds, "m": kinds["t"]}


def _combine(plan: Plan, chunks: Sequence[Chunk], divisions: Sequence[_Division], *, split: bool) -> Costs:
    """Put the three times of each layer together."""
    kinds = {kind: LayerCosts.of(*(each.kinds[kind] for each in divisions)) for kind in divisions[0].kinds}
    if "E" in kinds and not split:
        whole = kinds["E"]
        kinds["E"] = LayerCosts.of(whole.forward, 0.0, whole.backward)  # as in a costs file that tells no halves
    decoder = [LayerCosts.of(*times) for times in zip(*(each.decoder for each in divisions), strict=True)]
    own = [(chunk.layers, costs) for chunk, costs in zip(chunks, decoder, strict=True) if chunk.layers[0] < chunk.layers[1]]
    layers: dict[int, LayerCosts] = {}
    if own:
        kinds["t"] = _mean([(last - first, costs) for (first, last), costs in own])
        if any(costs != own[0][1] for _, costs in own):
            if plan.num_layers > MOST_LAYERS:
                raise ValueError(f"stages of {plan.num_layers} decoder layers differ, at most {MOST_LAYERS} layers are told apart")
            layers = {layer: costs for (first, last), costs in own for layer in range(first, last)}
        else:
            kinds["t"] = own[0][1]
    kinds.setdefault("m", kinds.get("t", LayerCosts()))
    return Costs(kinds, layers, split=split, num_layers=plan.num_layers)


def _mean(costs: Sequence[tuple[int, LayerCosts]]) -> LayerCosts:
    total = sum(number for number, _ in costs)
    times = ("forward", "input_grad", "weight_grad")
    return LayerCosts.of(*(fsum(number * getattr(each, name) for number, each in costs) / total for name in times))
