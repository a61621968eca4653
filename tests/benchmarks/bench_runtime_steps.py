"""How long a step takes beside torch's own pipelining, on two Gloo ranks: the ratio of paired rounds, its median and 95 % interval.

Run by hand: ``python -m tests.benchmarks.bench_runtime_steps``; the interval is that of the median by order statistics (binomial).
"""

from __future__ import annotations

import json
import sys
from math import comb
from pathlib import Path
from statistics import median
from typing import NamedTuple

from tests.runtime.launching import run_torchrun

WORKER = Path(__file__).with_name("step_worker.py")
ROUNDS = 40
MODEL = "gpt2-small,hidden=96"
CASES = tuple((schedule, microbatches) for schedule in ("1f1b", "interleaved_1f1b") for microbatches in (8, 16))
SECONDS = 300
_MARK = "[0] [["


class Ratio(NamedTuple):
    """Ours over torch's.

    Attributes:
        median: Of the rounds' ratios.
        low: The lower end of its 95 % interval.
        high: The upper end.
        seconds: The medians of both steps.
    """

    median: float
    low: float
    high: float
    seconds: tuple[float, float]


def interval_of_median(values: list[float], level: float = 0.95) -> tuple[float, float]:
    """Give the interval of a median by order statistics: no assumption but that the values are independent."""
    ordered, count = sorted(values), len(values)
    below, tail = 0, 0.0
    while below < count // 2 and tail + comb(count, below) / 2**count <= (1 - level) / 2:
        tail += comb(count, below) / 2**count
        below += 1
    first = max(below - 1, 0)
    return ordered[first], ordered[count - 1 - first]


def measure(schedule: str, microbatches: int, rounds: int = ROUNDS, model: str = MODEL) -> Ratio:
    """Launch two ranks and time both in turns."""
    output = run_torchrun(WORKER, [schedule, str(microbatches), str(rounds), model], 2, SECONDS).stdout
    line = next(line for line in output.splitlines() if line.startswith(_MARK))
    pairs = json.loads(line.removeprefix("[0] "))
    ratios = [ours / peers for ours, peers in pairs]
    ours, peers = zip(*pairs, strict=True)
    return Ratio(median(ratios), *interval_of_median(ratios), (median(ours), median(peers)))


def write(schedule: str, microbatches: int, ratio: Ratio) -> str:
    """Write one line."""
    ours, peers = (seconds * 1e3 for seconds in ratio.seconds)
    interval = f"[{ratio.low:.3f}, {ratio.high:.3f}]"
    what = f"{schedule}, {microbatches} microbatches, over torch"
    return f"{what}: {ratio.median:.3f} {interval} ({ours:.1f} ms / {peers:.1f} ms), target at most 1"


if __name__ == "__main__":
    for case in CASES:
        sys.stdout.write(f"{write(*case, measure(*case))}\n")
