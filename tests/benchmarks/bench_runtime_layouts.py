"""What a suggested layout is worth, measured: a heavy lm-head on two Gloo ranks, costs sampled in the same run, all splits in turns.

Run by hand: ``python -m tests.benchmarks.bench_runtime_layouts [SEQUENCE [BATCH [FEWEST]]]``: the tokens of a sequence, the sequences of a
microbatch, and how few layers the first rank has in the splits that are timed; 256, 1 and 0 by default. ``512 4 4`` takes half an hour.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from tests.runtime.launching import run_torchrun

WORKER = Path(__file__).with_name("layout_worker.py")
MEMORY_WORKER = Path(__file__).with_name("memory_worker.py")
MODEL = "gpt2-small,vocab=50304"
SECONDS = 4000


class Size(NamedTuple):
    """What is measured.

    Attributes:
        seq: Tokens of a sequence.
        batch: Sequences of a microbatch.
        fewest: How few layers the first rank has in the splits that are timed.
        microbatches: Of a step.
        rounds: How often each split is timed.
    """

    seq: int = 256
    batch: int = 1
    fewest: int = 0
    microbatches: int = 8
    rounds: int = 5


class Gain(NamedTuple):
    """What came out.

    Attributes:
        suggested: The layout that was suggested.
        gain: By what share it does more than the even split: the median over the rounds.
        place: Its place among the splits by measured time, from 1.
        error: By what share the predicted time of its step is off the measured one.
        memory: The bytes that each rank took at most, measured, under the even split and under the suggestion.
        foretold_memory: The same by the model of memory, from the measured sizes.
        table: Of each split the measured and the predicted time in ms.
    """

    suggested: str
    gain: float
    place: int
    error: float
    memory: tuple[list[int], list[int]]
    foretold_memory: tuple[list[int], list[int]]
    table: dict[str, tuple[float, float]]


def judge(document: dict[str, Any], memory: dict[str, list[int]]) -> Gain:
    """Compare what was measured."""
    rounds, suggested, even = document["rounds"], document["suggested"], document["even"]
    measured = {layout: median(times) * 1e3 for layout, times in rounds.items()}
    predicted, foretold = document["predicted_ms"], document["memory_bytes"]
    return Gain(
        suggested,
        median(slow / fast for slow, fast in zip(rounds[even], rounds[suggested], strict=True)) - 1,
        sorted(measured, key=measured.__getitem__).index(suggested) + 1,
        predicted[suggested] / measured[suggested] - 1,
        (memory[even], memory[suggested]),
        (foretold[even], foretold[suggested]),
        {layout: (measured[layout], predicted[layout]) for layout in rounds},
    )


def launch(worker: Path, *arguments: object) -> Any:  # noqa: ANN401 -- what the worker wrote
    """Run a worker on two ranks, and give the data in its line of JSON."""
    output = run_torchrun(worker, [*map(str, arguments)], 2, SECONDS).stdout
    return json.loads(next(line for line in output.splitlines() if line.startswith("[0] {")).removeprefix("[0] "))


def measure(size: Size, model: str = MODEL) -> Gain:
    """Launch two ranks for the times, then two for the memory of each layout."""
    what = (model, size.seq, size.batch, size.microbatches)
    document = launch(WORKER, *what, size.rounds, size.fewest)
    return judge(
        document, {layout: launch(MEMORY_WORKER, *what, layout)["peak_bytes"] for layout in (document["even"], document["suggested"])}
    )


def write_memory(name: str, even: list[int], suggested: list[int]) -> str:
    """Write the sizes of both layouts by rank, and how they compare: those of the fuller ranks, and those of the rank with the head."""
    before, after = (", ".join(f"{size / 1e6:,.0f}" for size in ranks) for ranks in (even, suggested))
    fuller, head = max(suggested) / max(even), suggested[-1] / even[-1]
    return f"{name} memory in MB, even {before}; suggested {after}: the fuller rank {fuller:.2f} of the even split's, the head's {head:.2f}"


def write(gain: Gain) -> str:
    """Write a table and the figures."""
    lines = [f"{'split':14}{'measured ms':>12}{'predicted ms':>13}"]
    lines += [f"{layout:14}{took:12.1f}{foretold:13.1f}{foretold / took - 1:+8.1%}" for layout, (took, foretold) in gain.table.items()]
    place = f"place {gain.place} of {len(gain.table)}, target 2"
    lines.append(f"suggested {gain.suggested}: {gain.gain:+.1%} over the even split, target 18.8 %; {place}")
    lines.append(f"predicted step off the measured one by {gain.error:+.1%}, target 10 %")
    lines.append(write_memory("measured", *gain.memory))
    lines.append(write_memory("predicted", *gain.foretold_memory))
    return "\n".join(lines)


if __name__ == "__main__":
    sys.stdout.write(f"{write(measure(Size(*map(int, sys.argv[1:]))))}\n")
