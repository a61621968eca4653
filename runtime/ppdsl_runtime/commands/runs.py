"""What is trained, on what, and how, as typed; checked before any of the model's memory is taken."""

from __future__ import annotations

import math
import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ppdsl.cli.exits import DONE, INVALID
from ppdsl.cli.files import UnwritableError, write_file
from ppdsl.rendering.characters import visible
from ppdsl_runtime.commands.models import DTYPES, choose_model
from ppdsl_runtime.commands.program import RefusedError, speaks
from ppdsl_runtime.data import Batches, load_tokens
from ppdsl_runtime.failure.fingerprints import DifferenceError
from ppdsl_runtime.models import WeightsError
from ppdsl_runtime.reading import reason_of
from ppdsl_runtime.training.settings import TrainSettings
from ppdsl_runtime.training.worlds import JoinError, MissingDeviceError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ppdsl_runtime.commands.options import RunValues
    from ppdsl_runtime.training.worlds import World


@contextmanager
def refusing() -> Iterator[None]:
    """Turn what cannot be done with what was typed into one line.

    Raises:
        RefusedError: In the place of a ValueError or an OSError.
    """
    try:
        yield
    except MissingDeviceError as error:
        raise RefusedError(f"error: {error}" if error.first else "") from None
    except (ValueError, OSError) as error:
        raise RefusedError(f"error: {_tell(error)}") from None


@contextmanager
def running(world: World) -> Iterator[None]:
    """Turn what the user can mend into one line, also where it shows only inside a run; anything else keeps its traceback.

    Raises:
        RefusedError: In the place of an error of a file, of weights that are not there, of ranks that were given different things, or that
            did not meet.
    """
    try:
        yield
    except DifferenceError as error:
        raise RefusedError(f"error: {_tell(error)}" if speaks() else "") from None
    except (JoinError, WeightsError, OSError) as error:
        rank = f"rank {world.rank}: " if world.size > 1 and not isinstance(error, JoinError) else ""
        raise RefusedError(f"error: {rank}{_tell(error)}") from None


@contextmanager
def speaking_once() -> Iterator[None]:
    """Let one rank of each host say what all of them find; they were all given the same."""
    try:
        yield
    except RefusedError as error:
        if speaks():
            raise
        raise RefusedError("", error.exit_code) from None


def _tell(error: Exception) -> str:
    """Say what is wrong, and with which file, in characters that a terminal shows."""
    name = f"{error.filename}: " if isinstance(error, OSError) and error.filename is not None else ""
    return visible(f"{name}{reason_of(error)}")


def choose_settings(values: RunValues) -> TrainSettings:
    """Put a run's settings together.

    Raises:
        RefusedError: The model, its weights, the data or a file to write cannot be what was typed.
    """
    with refusing():
        shape, weights = choose_model(values)
        batches = Batches(load_tokens(values["data"]), batch=values["global_batch_size"], seq=values["seq"], vocab=shape.vocab)
        for name in ("lr", "weight_decay", "clip"):
            check_positive(name.replace("_", "-"), values.get(name), zero=name == "weight_decay")  # type: ignore[arg-type]  # a number
        check_writable(values["log"], whole=False)
        _check_folder(values["dump_gradients"])
        autocast = values["autocast"]
        if autocast is not None and values["dtype"] not in {"fp32", autocast}:
            raise ValueError(f"--autocast is {autocast}, which goes with --dtype fp32, not {values['dtype']}")
    return TrainSettings(
        shape,
        batches,
        weights,
        steps=values["steps"],
        lr=values["lr"],
        optimizer=values["optimizer"],
        weight_decay=values["weight_decay"],
        clip=values["clip"],
        seed=values["seed"],
        dtype=DTYPES[values["dtype"]],
        autocast=None if autocast is None else DTYPES[autocast],
        fp32_grads=values["fp32_grads"],
        dump_gradients=values["dump_gradients"],
        log=values["log"],
        quiet=values["quiet"],
    )


def check_positive(name: str, value: float | None, *, zero: bool = False, most: float | None = None) -> None:
    """Check a number that was typed.

    Raises:
        ValueError: It is not finite, or below 0, or 0 where that has no meaning, or above the largest one.
    """
    if value is not None and not (0 <= value < float("inf") and (zero or value)):
        raise ValueError(f"--{name} is {value:g}, not a number {'from' if zero else 'above'} 0")
    if value is not None and most is not None and value > most:
        raise ValueError(f"--{name} is {value:g}, the most is {most:g}")


def check_writable(path: str | None, *, whole: bool = True) -> None:
    """See that a file can be written, and leave it as it is.

    Args:
        path: The file; None for none.
        whole: Whether it is put in its place once it is written, for which its folder has to be writable.

    Raises:
        OSError: It cannot.
    """
    if path is None:
        return
    there = Path(path)
    there.parent.mkdir(parents=True, exist_ok=True)
    if there.is_dir():
        raise IsADirectoryError(21, "is a directory", path)
    kept = there.exists() and not (whole and there.is_file())
    if not os.access(there if kept else there.resolve().parent, os.W_OK):
        raise PermissionError(13, "permission denied", path)


def _check_folder(path: str | None) -> None:
    if path is not None:
        Path(path).mkdir(parents=True, exist_ok=True)
        if not os.access(path, os.W_OK):
            raise PermissionError(13, "permission denied", path)


def save(path: str, text: str) -> str:
    """Write a file once a run is done, and give the line that says why it could not be written; nothing where it was."""
    try:
        write_file(path, text)
    except UnwritableError as error:
        return f"error: {error.message}\n"
    return ""


def judge(losses: Sequence[float]) -> int:
    """Give the exit code of a run that is done: 1 where the loss of its last step is not finite."""
    return DONE if math.isfinite(losses[-1]) else INVALID
