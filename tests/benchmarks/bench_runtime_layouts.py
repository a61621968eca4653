"""What a suggested layout is worth, measured: a heavy lm-head on two Gloo ranks, costs sampled in the same run, all splits in turns.

Run by hand: ``python -m tests.benchmarks.bench_runtime_layouts``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from tests.runtime.launching import run_torchrun

WORKER = Path(__file__).with_name("layout_worker.py")
MODEL = "gpt2-small,vocab=50304"
SEQ, MICROBATCHES, ROUNDS = 256, 8, 5
SECONDS = 580
_MARK = '[0] {"suggested"'


class Gain(NamedTuple):
    """What came out.

    Attributes:
        suggested: The layout that was suggested.
        gain: By what share it does more than the even split: the median over the rounds.
        place: Its place among all splits by measured time, from 1.
        error: By what share the predicted time of its step is off the measured one.
        memory: The memory of its fuller rank over that of the even split's, by the measured sizes.
        table: Of each split the measured and the predicted time in ms.
    """

    suggested: str
    gain: float
    place: int
    error: float
    memory: float
    table: dict[str, tuple[float, float]]


def judge(document: dict[str, Any]) -> Gain:
    """Compare what was measured."""
    rounds, suggested, even = document["rounds"], document["suggested"], document["even"]
    measured = {layout: median(times) * 1e3 for layout, times in rounds.items()}
    predicted, memory = document["predicted_ms"], document["memory_bytes"]
    return Gain(
        suggested,
        median(slow / fast for slow, fast in zip(rounds[even], rounds[suggested], strict=True)) - 1,
        sorted(measured, key=measured.__getitem__).index(suggested) + 1,
        predicted[suggested] / measured[suggested] - 1,
        memory[suggested] / memory[even],
        {layout: (measured[layout], predicted[layout]) for layout in rounds},
    )


def measure(model: str = MODEL, seq: int = SEQ, microbatches: int = MICROBATCHES, rounds: int = ROUNDS) -> Gain:
    """Launch two ranks."""
    output = run_torchrun(WORKER, [model, str(seq), str(microbatches), str(rounds)], 2, SECONDS).stdout
    line = next(line for line in output.splitlines() if line.startswith(_MARK))
    return judge(json.loads(line.removeprefix("[0] ")))


def write(gain: Gain) -> str:
    """Write a table and the figures."""
    lines = [f"{'split':14}{'measured ms':>12}{'predicted ms':>13}"]
    lines += [f"{layout:14}{took:12.1f}{foretold:13.1f}{foretold / took - 1:+8.1%}" for layout, (took, foretold) in gain.table.items()]
    place = f"place {gain.place} of {len(gain.table)}, target 2"
    lines.append(f"suggested {gain.suggested}: {gain.gain:+.1%} over the even split, target 18.8 %; {place}")
    lines.append(f"predicted step off the measured one by {gain.error:+.1%}, target 10 %")
    lines.append(f"memory of the fuller rank {gain.memory:.2f} of the even split's")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.stdout.write(f"{write(measure())}\n")
