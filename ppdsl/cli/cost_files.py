"""The files that ``--costs`` names: one of any form, or the record logs of the ranks of one run."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ppdsl.cli.inputs import MOST_BYTES
from ppdsl.costs import is_record_log, read_record_logs, recognize_costs
from ppdsl.diagnostics import Diagnostic

if TYPE_CHECKING:
    from ppdsl.costs import Costs, ModelShape
    from ppdsl.planning import Plan

_WILD = frozenset("*?[")
_MOST_FILES = 4096


class _UnreadableError(Exception):
    """A file cannot be read; the text is what the message says of it."""


def read_cost_files(path: str, shape: ModelShape | None, plan: Plan | None, warmup_samples: int) -> Costs | Diagnostic:
    """Read the costs that a path names.

    A path that is no file may be a pattern, ``run.log.rank*``, or stand for all files with ``.rank`` and a number behind it; several files
    are the record logs of one run.

    Args:
        path: As typed.
        shape: The model's shape, where it is known.
        plan: The layout that a trace was made with, where there is one.
        warmup_samples: How many samples of each layer in a record log are dropped.

    Returns:
        The costs, or the fault: PP206.
    """
    from ppdsl.rendering.characters import visible  # noqa: PLC0415 -- only a costs file has a path

    try:
        paths = find_cost_files(path)
        texts = _read_texts(path, paths)
        if paths == [path]:
            return _read_one(path, texts[path], shape, plan, warmup_samples)
        return _read_logs(texts, shape, warmup_samples)
    except _UnreadableError as error:
        return Diagnostic("PP206", "error", f"cannot read the costs file {visible(str(error))}")


def _read_one(path: str, text: str, shape: ModelShape | None, plan: Plan | None, warmup_samples: int) -> Costs:
    try:
        return recognize_costs(text, path, shape=shape, plan=plan, warmup_samples=warmup_samples)
    except ValueError as error:
        raise _UnreadableError(str(error) if is_record_log(text) else f"{path}: {error}") from None


def _read_logs(texts: dict[str, str], shape: ModelShape | None, warmup_samples: int) -> Costs:
    try:
        return read_record_logs(texts, warmup_samples, shape)
    except ValueError as error:
        raise _UnreadableError(str(error)) from None


def find_cost_files(path: str) -> list[str]:
    """Give the files that a path names; the path itself where there is one, and where nothing else is."""
    if os.path.lexists(path):
        return [path]
    from glob import escape, glob  # noqa: PLC0415 -- most costs are one file

    found = glob(path) if _WILD.intersection(path) else []  # noqa: PTH207 -- it may be absolute, and pathlib's takes no such pattern
    found = found or [each for each in glob(f"{escape(path)}.rank*") if _rank_of(each)[0] >= 0]  # noqa: PTH207 -- the same
    return sorted(found, key=_rank_of) or [path]


def _rank_of(path: str) -> tuple[int, str]:
    digits = path.rpartition(".rank")[2]
    return (int(digits) if digits.isascii() and digits.isdigit() and len(digits) < len(str(2**63)) else -1), path


def _read_texts(path: str, paths: list[str]) -> dict[str, str]:
    if len(paths) > _MOST_FILES:
        raise _UnreadableError(f"{path}: it names {len(paths):,} files, the limit is {_MOST_FILES:,}")
    return {each: _read_text(each) for each in paths}


def _read_text(path: str) -> str:
    try:
        with open(path, "rb") as stream:  # noqa: PTH123 -- pathlib takes longer to load than this to run
            content = stream.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise _UnreadableError(f"{path}: it is longer than {MOST_BYTES:,} bytes")
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _UnreadableError(f"{path}: it is not valid UTF-8 at byte {error.start:,}") from None
    except (OSError, ValueError) as error:
        raise _UnreadableError(f"{path}: {(getattr(error, 'strerror', None) or str(error)).lower()}") from None
