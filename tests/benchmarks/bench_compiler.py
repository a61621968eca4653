"""How long the compiler takes, as ratios measured in one run: ``python -m tests.benchmarks.bench_compiler``.

The two sides of a ratio are taken by turns, each the best of five, so that both see the same machine, and the median of the ratios counts.
Nothing is judged here by its time; the targets are printed beside the figures.
"""

from __future__ import annotations

import compileall
import gc
import os
import subprocess
import sys
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple

from ppdsl.compiling import check
from ppdsl.normal_form import normalize
from ppdsl.options import Options
from ppdsl.parsing import parse
from ppdsl.source import Source
from ppdsl.validation import examine, validate

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[2]
FOLDERS = (ROOT, ROOT / "runtime", ROOT / "grammar")
REAL = "Et*3|(tt|)*29,m|L"
LONG = "E|(t|)*1998L"
_REPEATS = 5


class Figure(NamedTuple):
    """A ratio of two times.

    Attributes:
        name: What is compared with what.
        ratio: The median of the ratios of paired measurements.
        ours: Median seconds of the first side.
        theirs: Median seconds of the second side.
        target: What the ratio should be.
    """

    name: str
    ratio: float
    ours: float
    theirs: float
    target: str

    def __str__(self) -> str:
        """Write the figure in one line."""
        return f"{self.name}: {self.ratio:.2f} ({self.ours * 1e6:,.0f} us / {self.theirs * 1e6:,.0f} us), target {self.target}"


def compare(labels: tuple[str, str], ours: Callable[[], object], theirs: Callable[[], object], *, rounds: int, inner: int) -> Figure:
    """Measure two functions by turns.

    Args:
        labels: What is compared with what, and what the ratio should be.
        ours: The first side.
        theirs: The second side.
        rounds: How many pairs of measurements are taken.
        inner: How many calls one measurement times.
    """
    name, target = labels
    pairs = [(_seconds(ours, inner), _seconds(theirs, inner)) for _ in range(rounds + 1)][1:]  # the first is for warming up
    ratio = median(our_time / their_time for our_time, their_time in pairs)
    return Figure(name, ratio, median(pair[0] for pair in pairs), median(pair[1] for pair in pairs), target)


def _seconds(call: Callable[[], object], times: int) -> float:
    """Time some calls, a few times over, and give the best: what disturbs it is other processes."""
    gc.collect()
    gc.disable()  # as timeit does: what the collector finds to do here is torch's, which the peer loads
    try:
        return min(_seconds_once(call, times) for _ in range(_REPEATS)) / times
    finally:
        gc.enable()


def _seconds_once(call: Callable[[], object], times: int) -> float:
    begin = perf_counter()
    for _ in range(times):
        call()
    return perf_counter() - begin


def compile_against_peer(*, rounds: int = 20, inner: int = 10) -> Figure:
    """Text to plan, nothing remembered, against the peer's construction and validation of the same layout."""
    from megatron.core.transformer.pipeline_parallel_layer_layout import PipelineParallelLayerLayout  # noqa: PLC0415 -- it takes seconds

    options = Options(pp=16, num_layers=61, mtp_num_layers=1)

    def ours() -> None:
        if check(Source(REAL), options).plan is None:
            raise RuntimeError(REAL)

    def theirs() -> None:
        PipelineParallelLayerLayout(REAL, 16).validate_layer_layout(61, 1)

    return compare((f"parse, validate and plan {REAL}, over Megatron-LM", "at most 3"), ours, theirs, rounds=rounds, inner=inner)


def validate_against_peer(*, rounds: int = 20, inner: int = 5) -> Figure:
    """Validation of 2,000 stages, against the peer's."""
    from megatron.core.transformer.pipeline_parallel_layer_layout import PipelineParallelLayerLayout  # noqa: PLC0415 -- it takes seconds

    options = Options(pp=8, num_layers=1998, mtp_num_layers=0)
    items = parse(LONG, options.limits).items
    if items is None:
        raise RuntimeError(LONG)
    form = normalize(items, options.limits)
    built = PipelineParallelLayerLayout(LONG, 8)

    def ours() -> None:
        validate(examine(LONG, items, form, options))

    def theirs() -> None:
        built.validate_layer_layout(1998, 0)

    return compare((f"validate {LONG}, over Megatron-LM", "at most 0.1"), ours, theirs, rounds=rounds, inner=inner)


def check_against_bare_python(*, rounds: int = 5) -> Figure:
    """The whole process of ``ppdsl check``, away from a terminal, against a Python that does nothing."""
    for folder in ("ppdsl", "grammar/ppdsl_grammar"):
        compileall.compile_dir(ROOT / folder, quiet=2)
    path = os.pathsep.join(str(folder) for folder in FOLDERS)
    environment = {**os.environ, "PYTHONPATH": path}

    def run(*arguments: str) -> None:
        subprocess.run([sys.executable, *arguments], env=environment, stdin=subprocess.DEVNULL, capture_output=True, check=True)

    def ours() -> None:
        run("-c", "import sys; from ppdsl.cli import main; sys.exit(main())", "check", REAL, "--pp", "16")

    def theirs() -> None:
        run("-c", "pass")

    return compare(("the process of `ppdsl check`, over `python -c pass`", "at most 10"), ours, theirs, rounds=rounds, inner=1)


def main() -> None:
    """Take all figures and print them."""
    for figure in (compile_against_peer(), validate_against_peer(), check_against_bare_python()):
        sys.stdout.write(f"{figure}\n")


if __name__ == "__main__":
    main()
