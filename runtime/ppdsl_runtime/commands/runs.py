"""What is trained, on what, and how, as typed; checked before any of the model's memory is taken."""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ppdsl_runtime.commands.models import DTYPES, choose_model
from ppdsl_runtime.commands.program import RefusedError
from ppdsl_runtime.data import Batches, load_tokens
from ppdsl_runtime.training.settings import TrainSettings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ppdsl_runtime.commands.options import RunValues


@contextmanager
def refusing() -> Iterator[None]:
    """Turn what cannot be done with what was typed into one line.

    Raises:
        RefusedError: In the place of a ValueError or an OSError.
    """
    try:
        yield
    except ValueError as error:
        raise RefusedError(f"error: {error}") from None
    except OSError as error:
        name = "" if error.filename is None else f"{error.filename}: "
        raise RefusedError(f"error: {name}{(error.strerror or str(error)).lower()}") from None


def choose_settings(values: RunValues) -> TrainSettings:
    """Put a run's settings together.

    Raises:
        RefusedError: The model, its weights, the data or a file to write cannot be what was typed.
    """
    shape, weights = choose_model(values)
    with refusing():
        batches = Batches(load_tokens(values["data"]), batch=values["global_batch_size"], seq=values["seq"], vocab=shape.vocab)
        for name in ("lr", "weight_decay", "clip"):
            check_positive(name.replace("_", "-"), values.get(name), zero=name == "weight_decay")  # type: ignore[arg-type]  # a number
        check_writable(values["log"])
        if values["dump_gradients"] is not None:
            Path(values["dump_gradients"]).mkdir(parents=True, exist_ok=True)
    autocast = values["autocast"]
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


def check_positive(name: str, value: float | None, *, zero: bool = False) -> None:
    """Check a number that was typed.

    Raises:
        ValueError: It is not finite, or below 0, or 0 where that has no meaning.
    """
    if value is not None and not (0 <= value < float("inf") and (zero or value)):
        raise ValueError(f"--{name} is {value:g}, not a number {'from' if zero else 'above'} 0")


def check_writable(path: str | None) -> None:
    """See that a file can be written, and leave it as it is.

    Raises:
        OSError: It cannot.
    """
    if path is not None:
        there = Path(path)
        folder = there.parent
        folder.mkdir(parents=True, exist_ok=True)
        if there.is_dir():
            raise IsADirectoryError(21, "is a directory", path)
        if not os.access(there if there.exists() else folder, os.W_OK):
            raise PermissionError(13, "permission denied", path)
