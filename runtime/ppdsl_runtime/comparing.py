"""Two runs side by side: losses by step, and parameters or gradients by name."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ppdsl_runtime.dumps import list_dump, read_tensor
from ppdsl_runtime.reading import load_json, reason_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

_LOG_SUFFIX = ".jsonl"
_SHOWN = 10


@dataclass(frozen=True, slots=True)
class Difference:
    """How far the two values of one thing are apart.

    Attributes:
        name: A parameter's global name, or ``step 3`` for a loss.
        absolute: The largest difference of two elements; infinite where the shapes differ, or where one is not finite and the other is
            not the same.
        scale: The largest magnitude of an element in either.
        note: What makes them incomparable, in words; empty where nothing does.
    """

    name: str
    absolute: float
    scale: float
    note: str = ""

    @property
    def relative(self) -> float:
        """The absolute difference over the scale."""
        return 0.0 if self.absolute == 0 else math.inf if not math.isfinite(self.absolute) else self.absolute / self.scale

    def within(self, atol: float, rtol: float) -> bool:
        """Whether the absolute difference is at most ``atol + rtol * scale``."""
        return not self.note and self.absolute <= atol + (rtol * self.scale if rtol else 0.0)

    def to_json(self) -> dict[str, object]:
        """Give it as data that ``json.dumps`` takes; what is not finite is null."""
        numbers = {"max_abs": self.absolute, "max_rel": self.relative}
        shown = {key: value if math.isfinite(value) else None for key, value in numbers.items()}
        return {"name": self.name, **shown, **({"note": self.note} if self.note else {})}


@dataclass(frozen=True, slots=True)
class Comparison:
    """What two runs have in common, and what not.

    Attributes:
        losses: Of each step that both logs have.
        tensors: Of each tensor that both folders have.
        only_first: Names that the second run lacks.
        only_second: Names that the first run lacks.
    """

    losses: tuple[Difference, ...]
    tensors: tuple[Difference, ...]
    only_first: tuple[str, ...]
    only_second: tuple[str, ...]

    def within(self, atol: float, rtol: float) -> bool:
        """Whether nothing is missing and everything is near enough: see ``Difference.within``."""
        return not (self.only_first or self.only_second) and all(each.within(atol, rtol) for each in (*self.losses, *self.tensors))

    def to_json(self) -> dict[str, object]:
        """Give it as data that ``json.dumps`` takes."""
        return {
            "losses": [each.to_json() for each in self.losses],
            "tensors": [each.to_json() for each in self.tensors],
            "only_first": [*self.only_first],
            "only_second": [*self.only_second],
        }

    def to_text(self, atol: float, rtol: float) -> str:
        """Give it in lines: the worst of each kind, what is missing, and everything that is not near enough."""
        lines = [*_summarize("losses", self.losses, atol, rtol), *_summarize("tensors", self.tensors, atol, rtol)]
        for which, names in (("second", self.only_first), ("first", self.only_second)):
            if names:
                lines.append(f"missing in the {which} run: {_shorten(names)}")
        verdict = "equal" if self.within(atol, rtol) else "different"
        return "\n".join((*lines, f"{verdict} within atol {atol:g}, rtol {rtol:g}"))


def compare_runs(first: str | Path, second: str | Path) -> Comparison:
    """Compare two runs.

    Args:
        first: A JSONL log (an object a line, with ``step`` and ``loss``), or a folder, whose ``.npy`` and ``.jsonl`` files are compared,
            those of folders inside it included.
        second: The other one, of the same kind.

    Raises:
        ValueError: A path is not there, a file is damaged, or the two have nothing to compare.
    """
    logs, dumps = zip(*(_read_run(Path(path)) for path in (first, second)), strict=True)
    if not any((*logs, *dumps)):
        raise ValueError(f"neither {first} nor {second} has a log or a tensor")
    losses = [_compare(name, np.float64(logs[0][name]), np.float64(logs[1][name])) for name in logs[0] if name in logs[1]]
    tensors = [_compare(name, read_tensor(dumps[0][name]), read_tensor(dumps[1][name])) for name in dumps[0] if name in dumps[1]]
    names = [(*log, *dump) for log, dump in zip(logs, dumps, strict=True)]
    return Comparison(tuple(losses), tuple(tensors), _without(names[0], names[1]), _without(names[1], names[0]))


def read_losses(log: str | Path) -> dict[int, float]:
    """Read the loss of each step from a JSONL log: null is one that is not finite; lines without a loss are passed over.

    Raises:
        ValueError: The log cannot be read, a line is no JSON object, or a step comes twice.
    """
    try:
        lines = Path(log).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{log} cannot be read: {reason_of(error)}") from error
    losses: dict[int, float] = {}
    for number, line in enumerate(lines, 1):
        record = _read_line(line, f"{log}, line {number}")
        if "loss" not in record or "step" not in record:
            continue
        step, loss = record["step"], math.nan if record["loss"] is None else record["loss"]
        if not isinstance(step, int) or not _is_number(loss):
            raise ValueError(f"{log}, line {number}: step is {step!a} and loss {loss!a}, not two numbers")
        if step in losses:
            raise ValueError(f"{log}, line {number}: step {step} comes twice")
        losses[step] = float(loss)
    return losses


def _is_number(value: object) -> bool:
    """Whether it is a number that a float holds; one that is not finite is."""
    whole = isinstance(value, int) and not isinstance(value, bool) and abs(value) <= sys.float_info.max
    return whole or isinstance(value, float)


def _read_line(line: str, where: str) -> dict[str, Any]:
    try:
        record = load_json(line) if line.strip() else {}
    except ValueError as error:
        raise ValueError(f"{where}: no JSON: {error}") from error
    if not isinstance(record, dict):
        raise ValueError(f"{where}: no JSON object")  # noqa: TRY004 -- the file is at fault, not the call
    return record


def _read_run(path: Path) -> tuple[dict[str, float], dict[str, Path]]:
    if not path.exists():
        raise ValueError(f"{path} is not there")
    if not path.is_dir():
        return {f"step {step}": loss for step, loss in read_losses(path).items()}, {}
    return dict(_list_losses(path)), dict(_list_tensors(path))


def _list_losses(path: Path) -> Iterator[tuple[str, float]]:
    """Read the logs of a folder, and of those inside it.

    Raises:
        ValueError: Two logs of one folder have the same step.
    """
    found: dict[str, Path] = {}
    for log in sorted(path.rglob(f"*{_LOG_SUFFIX}")):
        where = "" if log.parent == path else f"{log.parent.relative_to(path).as_posix()}/"
        for step, loss in read_losses(log).items():
            name = f"{where}step {step}"
            if found.setdefault(name, log) != log:
                raise ValueError(f"{log.parent} has step {step} in both {found[name].name} and {log.name}")
            yield name, loss


def _list_tensors(path: Path) -> Iterator[tuple[str, Path]]:
    for folder in (path, *sorted(each for each in path.rglob("*") if each.is_dir())):
        where = "" if folder == path else f"{folder.relative_to(path).as_posix()}/"
        yield from ((where + name, file) for name, file in list_dump(folder).items())


def _compare(name: str, first: NDArray[Any] | np.float64, second: NDArray[Any] | np.float64) -> Difference:
    if first.shape != second.shape:
        return Difference(name, math.inf, math.inf, f"shapes {[*first.shape]} and {[*second.shape]}")
    if not first.size:
        return Difference(name, 0.0, 0.0)
    left, right = np.asarray(first, np.float64), np.asarray(second, np.float64)
    same = (left == right) | (np.isnan(left) & np.isnan(right))
    if not np.all(same | (np.isfinite(left) & np.isfinite(right))):
        return Difference(name, math.inf, math.inf, "not finite in one of them")
    with np.errstate(over="ignore"):  # infinitely far apart
        apart = np.abs(np.subtract(left, right, out=np.zeros_like(left), where=~same))
    sizes = np.abs(np.where(np.isfinite(left), left, 0)), np.abs(np.where(np.isfinite(right), right, 0))
    return Difference(name, float(apart.max()), float(max(size.max() for size in sizes)))


def _without(names: tuple[str, ...], others: tuple[str, ...]) -> tuple[str, ...]:
    known = set(others)
    return tuple(name for name in names if name not in known)


def _summarize(what: str, differences: tuple[Difference, ...], atol: float, rtol: float) -> list[str]:
    if not differences:
        return []
    absolute, relative = (max(differences, key=lambda each: getattr(each, name)) for name in ("absolute", "relative"))
    bad = [each for each in differences if not each.within(atol, rtol)]
    worst = f"{absolute.absolute:.3g} absolute ({absolute.name}), {relative.relative:.3g} relative ({relative.name})"
    return [
        f"{what}: {len(differences) - len(bad)} of {len(differences)} near enough, largest difference {worst}",
        *(f"  {each.name}: {each.note or f'{each.absolute:.3g} absolute, {each.relative:.3g} relative'}" for each in bad[:_SHOWN]),
        *([f"  and {len(bad) - _SHOWN} more"] if len(bad) > _SHOWN else []),
    ]


def _shorten(names: tuple[str, ...]) -> str:
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
