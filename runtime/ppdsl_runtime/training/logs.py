"""What a run says while it goes on: a line of JSON a step, and progress on standard error."""

from __future__ import annotations

import json
import math
import sys
from contextlib import ExitStack
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, TextIO

from ppdsl.cli.output import Outcome, look_of, write
from ppdsl_runtime.reading import naming

if TYPE_CHECKING:
    from types import TracebackType

    from rich.progress import Progress, TaskID
    from typing_extensions import Self


class StepLog:
    """Tells of each step; made on the main rank alone.

    Attributes:
        steps: How many there will be.
        tokens: Tokens of a step.
    """

    def __init__(self, steps: int, tokens: int, *, path: str | None = None, quiet: bool = False) -> None:
        """Open the log.

        Args:
            steps: How many there will be.
            tokens: Tokens of a step.
            path: Where to write a line of JSON for each step: ``step``, ``loss``, ``seconds``, ``tokens_per_s`` and, if known,
                ``grad_norm``. A loss or a norm that is not finite, for which JSON has no number, is null.
            quiet: Whether to show no progress.

        Raises:
            OSError: The file cannot be written.
        """
        self.steps = steps
        self.tokens = tokens
        self._stack = ExitStack()
        self._file: TextIO | None = None
        if path is not None:
            with naming(path):
                Path(path).parent.mkdir(parents=True, exist_ok=True)
                self._file = Path(path).open("w", encoding="utf-8", newline="\n")  # noqa: SIM115 -- closed when the log is left
        self._quiet = quiet
        self._warned = False
        self._bar: tuple[Progress, TaskID] | None = None
        if not quiet and look_of(sys.stderr, "auto").width is not None:
            self._bar = self._open_bar()
        self._begin = perf_counter()

    def _open_bar(self) -> tuple[Progress, TaskID]:
        from rich.console import Console  # noqa: PLC0415 -- on a terminal alone
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn  # noqa: PLC0415 -- the same

        columns = (TextColumn("step"), MofNCompleteColumn(), BarColumn(), TextColumn("{task.fields[figures]}"), TimeRemainingColumn())
        bar = self._stack.enter_context(Progress(*columns, console=Console(stderr=True)))
        return bar, bar.add_task("", total=self.steps, figures="")

    def start_step(self) -> None:
        """Begin to measure a step."""
        self._begin = perf_counter()

    def end_step(self, step: int, loss: float, grad_norm: float | None = None) -> None:
        """Tell of a step that is done.

        Args:
            step: Its number, from 0.
            loss: The mean over its tokens.
            grad_norm: Of all parameters, before clipping.

        Raises:
            OSError: The file cannot be written.
        """
        seconds = perf_counter() - self._begin
        speed = self.tokens / seconds
        line = {"step": step, "loss": _finite(loss), "seconds": round(seconds, 6), "tokens_per_s": round(speed, 1)}
        if grad_norm is not None:
            line["grad_norm"] = _finite(grad_norm)
        self._write(json.dumps(line, allow_nan=False))
        self._warn(step, {"loss": loss, "norm of the gradients": grad_norm})
        figures = f"loss {loss:.4f}  {speed:,.0f} tokens/s"
        if self._bar is not None:
            bar, task = self._bar
            bar.update(task, advance=1, figures=figures)
        elif not self._quiet and self._is_told(step):
            self._say(f"step {step + 1}/{self.steps}  {figures}")

    def _warn(self, step: int, figures: dict[str, float | None]) -> None:
        """Say once that a run has gone wrong."""
        for name, value in figures.items():
            if value is not None and not math.isfinite(value) and not self._warned:
                self._warned = True
                self._say(f"warning: the {name} is {value:g} at step {step + 1}; the run goes on, and this is said once")

    def _write(self, line: str) -> None:
        if self._file is not None:
            with naming(self._file.name):
                self._file.write(f"{line}\n")
                self._file.flush()

    def _say(self, text: str) -> None:
        """Say a line, above the bar if there is one; that nobody can read it ends no run."""
        if self._bar is not None:
            self._bar[0].console.print(text, markup=False, highlight=False, soft_wrap=True)
        else:
            write(Outcome(stderr=f"{text}\n"))

    def _is_told(self, step: int) -> bool:
        """Keep what is no terminal short: the first steps, about ten in between, and the last."""
        return step in (0, self.steps - 1) or (step + 1) % max(1, self.steps // 10) == 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stack.close()
        if self._file is not None:
            with naming(self._file.name):
                self._file.close()


def _finite(value: float) -> float | None:
    """Give a number as JSON can have it."""
    return value if math.isfinite(value) else None
