"""Suggestions beside a contiguous split by dynamic programming, on the same costs and schedules, simulated.

Run by hand: ``python -m tests.benchmarks.bench_suggesting``. The other split is the published idea of an automatic partition for torch's
pipelines: forward and backward of each layer are added up, embedding and output layer are layers like any other, and the heaviest stage is
made as light as a contiguous split into that many stages allows. It knows neither ranks with several stages nor the schedule.
"""

from __future__ import annotations

import sys
import time
from itertools import pairwise
from typing import NamedTuple

from ppdsl import compile_layout
from ppdsl.costs import Costs, LayerCosts
from ppdsl.schedules import make_schedule
from ppdsl.simulation import simulate
from ppdsl.suggesting import Problem, suggest
from tests.benchmarks.bench_schedules import LOOP, measure_turn


class Case(NamedTuple):
    """A model on ranks, with forward times; a backward takes twice as long."""

    name: str
    layers: int
    pp: int
    vpp: int
    microbatches: int
    kinds: dict[str, float]
    dense: int = 0


class Row(NamedTuple):
    """What came out, in ms, and how long the search takes on a quiet machine, in seconds of processor time."""

    name: str
    suggested: float
    bound: float
    optimal: bool
    contiguous: float
    uniform: float
    seconds: float


CASES = (
    Case("27 layers, light head", 27, 2, 1, 16, {"E": 0.1, "L": 0.5}),
    Case("heavy head, 11 layers", 8, 2, 1, 8, {"E": 0.1, "L": 11.0}),
    Case("10 layers, head of 2.4", 10, 4, 1, 4, {"E": 0.05, "L": 2.4}),
    Case("30 layers", 30, 4, 1, 32, {"E": 1.0, "L": 1.0}),
    Case("golden, 12 layers", 12, 4, 2, 8, {"E": 0.05, "L": 2.4}),
    Case("61 layers, 3 dense", 61, 8, 1, 32, {"E": 0.1, "L": 1.5}, 3),
    Case("61 layers, 3 dense", 61, 8, 4, 32, {"E": 0.1, "L": 1.5}, 3),
    Case("80 layers", 80, 8, 5, 32, {"E": 0.1, "L": 1.2}),
    Case("94 layers", 94, 8, 6, 32, {"E": 0.1, "L": 2.0}),
)

LONG = Case("1,000 layers", 1000, 64, 4, 128, {"E": 0.3, "L": 5.0})


def make_costs(case: Case) -> Costs:
    """Give the costs of a case; its dense layers take half of what the others do."""
    kinds = {kind: LayerCosts.of(forward, forward, forward) for kind, forward in {**case.kinds, "t": 1.0}.items()}
    return Costs(kinds, {layer: LayerCosts.of(0.5, 0.5, 0.5) for layer in range(case.dense)})


def split_contiguously(weights: list[float], parts: int) -> list[int]:
    """Make the heaviest of some parts in a row as light as can be, by plain dynamic programming; no part is empty."""
    sums = [0.0]
    for weight in weights:
        sums.append(sums[-1] + weight)
    best = {0: (0.0, [0])}
    for _ in range(parts):
        best = {
            end: min((max(worst, sums[end] - sums[start]), [*ends, end]) for start, (worst, ends) in best.items() if start < end)
            for end in range(1, len(weights) + 1)
            if any(start < end for start in best)
        }
    return best[len(weights)][1]


def write_contiguous(case: Case) -> str:
    """Write the layout of that split, with embedding and output layer among the layers."""
    costs = make_costs(case)
    kinds = "E" + "t" * case.layers + "L"
    layers = [costs.kinds["E"], *(costs.layers.get(layer, costs.kinds["t"]) for layer in range(case.layers)), costs.kinds["L"]]
    ends = split_contiguously([layer.forward + layer.backward for layer in layers], case.pp * case.vpp)
    return "|".join(kinds[start:end] for start, end in pairwise(ends))


def simulate_layout(layout: str, case: Case) -> float:
    """Give the simulated step time of a layout."""
    plan = compile_layout(layout, pp=case.pp)
    return simulate(plan, make_schedule(plan, None, case.microbatches), make_costs(case)).makespan


def write_uniform(case: Case) -> str:
    """Write the even split."""
    share, longer = divmod(case.layers, case.pp * case.vpp)
    stages = ["t" * (share + (stage < longer)) for stage in range(case.pp * case.vpp)]
    return "E" + "|".join(stages) + "L"


def measure(case: Case) -> Row:
    """Search, and simulate what the others say."""
    turns, start = [measure_turn()], time.process_time()
    answer = suggest(Problem(make_costs(case), case.layers, case.pp, case.microbatches, vpp=case.vpp))
    seconds = time.process_time() - start
    seconds *= LOOP / 1e6 / max(*turns, measure_turn(), LOOP / 1e6)
    contiguous, uniform = (simulate_layout(layout, case) for layout in (write_contiguous(case), write_uniform(case)))
    return Row(f"{case.name}, pp {case.pp} vpp {case.vpp}", answer.time, answer.bound, answer.optimal, contiguous, uniform, seconds)


def write(rows: list[Row]) -> str:
    """Write a table: step times in ms, and those of the others beside the suggestion's."""
    lines = [f"{'case':36}{'suggested':>11}{'bound':>9}{'contiguous':>18}{'uniform':>18}{'seconds':>9}"]
    for row in rows:
        bound = "best" if row.optimal else f"{row.bound:.1f}"
        others = "".join(f"{each:10.1f} {each / row.suggested - 1:+7.1%}" for each in (row.contiguous, row.uniform))
        lines.append(f"{row.name:36}{row.suggested:11.1f}{bound:>9}{others}{row.seconds:9.1f}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.stdout.write(f"{write([measure(case) for case in (*CASES, LONG)])}\n")
