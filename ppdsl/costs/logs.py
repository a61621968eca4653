"""The records that InfiniTrain writes when it is built with PROFILE_MODE: a file a rank, each named ``NAME.rankR``.

A record is one outermost call that was timed, in columns that are padded to a width and run into each other where a value is wider. A layer
is timed around its forward alone: ``TransformerChunk::Forward`` starts a record named ``TransformerLayer.N`` before it calls the layer, and
ends it behind that, once for each microbatch; N counts over the whole model. So InfiniTrain's pull request 209 does, in
``infini_train/src/nn/modules/transformer/transformer.cc`` at commit 2209fe4fb1fe; without it no layer has records. What a backward
launches is recorded by the names of kernels (``dispatcher.h``) and belongs to no layer. So a record is taken for a forward, and the
backward for twice as much. Embedding, final norm and lm-head have no name of their own in it, and cost nothing here.
"""

from __future__ import annotations

import re
from itertools import count
from typing import TYPE_CHECKING

from ppdsl.costs.lists import list_costs

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ppdsl.costs.shape import ModelShape
    from ppdsl.costs.values import Costs

_US_PER_MS = 1000
_HEAD = re.compile(r"^=== Kernel Call Log for Rank [0-9]+ ===[ \t\r]*$", re.MULTILINE)
_REPORT = re.compile(r"^=== Profiler Report for Rank [0-9]+ ===[ \t\r]*$", re.MULTILINE)
_TAG = re.compile(r"Tag: Step_([0-9]{1,15})\s*")
_LAYER = re.compile(r"\sTransformerLayer\.[0-9]+(?:\s|$)")
_RECORD = re.compile(
    r"""[0-9]+ \s+ (?P<time> [0-9]{4}-[0-9]{2}-[0-9]{2}[ ][0-9]{2}:[0-9]{2}:[0-9]{2} )
        \s+ TransformerLayer\.(?P<layer> [0-9]{1,12} )
        \s+ (?: Device\([^()]*\) \s* | \S+ \s+ )
        (?P<host> [0-9]{1,15} ) \s+ (?P<device> [0-9]{1,15} ) \s+ [0-9]+ \s*""",
    re.VERBOSE,
)
_Samples = dict[int, list[float]]


def is_record_log(text: str) -> bool:
    """Tell whether a text is a record log, or the report that InfiniTrain writes beside it."""
    return _HEAD.search(text) is not None or _REPORT.search(text) is not None


def read_record_logs(logs: Mapping[str, str], warmup_samples: int = 1, shape: ModelShape | None = None) -> Costs:
    """Read the record logs of one run.

    A layer's cost is the median of its samples over all ranks that have it, once each rank's first ones are dropped: those pay for what
    is loaded and allocated at first use. The device's time counts; the host's where that is 0. Samples are put in the order of their
    times and, within a second, of the numbers of their steps, since a log has the steps in the order of the alphabet.

    Args:
        logs: The texts of the files, by name, one or more.
        warmup_samples: How many samples of a layer are dropped on each rank, from 0.
        shape: The model's shape, where it is known.

    Raises:
        ValueError: A record is damaged, or layers are missing or have no sample left. The text begins with the file and the line.
    """
    from statistics import median  # noqa: PLC0415 -- slow to load, and most costs are not measured

    if warmup_samples < 0:
        raise ValueError(f"warmup_samples is {warmup_samples}, not a number from 0")
    where = next(iter(logs)) if len(logs) == 1 else f"{next(iter(logs))} and {len(logs) - 1} more"
    kept: _Samples = {}
    for name, text in logs.items():
        for samples in _read_ranks(text, name):
            for layer, times in samples.items():
                kept.setdefault(layer, []).extend(times[warmup_samples:])
    if not kept:
        raise ValueError(f"{where}: no record is named TransformerLayer.N")
    missing = next(layer for layer in count() if layer not in kept)
    if missing < len(kept):
        raise ValueError(f"{where}: TransformerLayer.{missing} has no record, TransformerLayer.{max(kept)} has")
    forwards = []
    for layer in range(missing):
        if not kept[layer]:
            raise ValueError(f"{where}: TransformerLayer.{layer} has no sample left once {warmup_samples} of each rank are dropped")
        forwards.append(median(kept[layer]) / _US_PER_MS)
        if not forwards[-1]:
            raise ValueError(f"{where}: TransformerLayer.{layer} takes no time at all")
    return list_costs(forwards, shape=shape)


def _read_ranks(text: str, name: str) -> Iterator[_Samples]:
    """Give the samples of each rank in a file, by layer, in the order of time; in µs."""
    heads = [*_HEAD.finditer(text)]
    if not heads:
        what = "a report of sums, not a log of records" if _REPORT.search(text) else "no record log: it has no line for its rank"
        raise ValueError(f"{name}: it is {what}")
    starts = [head.end() for head in heads]
    ends = [*(head.start() for head in heads[1:]), len(text)]
    for start, end in zip(starts, ends, strict=True):
        found: list[tuple[str, int, int, float]] = []
        step, line_before = -1, text.count("\n", 0, start)
        for number, line in enumerate(text[start:end].split("\n"), line_before + 1):
            tag = _TAG.fullmatch(line)
            if tag is not None:
                step = int(tag[1])
            elif line.startswith("Tag: "):
                step = -1
            elif _LAYER.search(line):
                found.append(_read_record(line, step, f"{name}, line {number}"))
        samples: _Samples = {}
        for _, _, layer, time in sorted(found, key=lambda record: record[:2]):
            samples.setdefault(layer, []).append(time)
        yield samples


def _read_record(line: str, step: int, where: str) -> tuple[str, int, int, float]:
    record = _RECORD.fullmatch(line)
    if record is None:
        columns = "Idx, Timestamp, Name, Device, Host(us), Device(us) and Peak Mem(MB)"
        raise ValueError(f"{where}: the record of a layer does not have the columns {columns}")
    return record["time"], step, int(record["layer"]), float(int(record["device"]) or int(record["host"]))
