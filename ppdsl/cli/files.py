"""Writing files: each whole or not at all, and none over another that the same command reads or writes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ppdsl.cli.options import refuse
from ppdsl.rendering.characters import visible

if TYPE_CHECKING:
    from collections.abc import Iterable

Named = tuple[str, str | None]
"""An option, and the path that it was given, if any."""


class UnwritableError(click.UsageError):
    """A file could not be written; it is answered like a usage error, so that a document that was asked for is printed whole."""


def refuse_overwriting(read: Iterable[Named], written: Iterable[Named]) -> None:
    """Refuse to write over a file that is read, two files of one name, and ``-``, which is no file.

    Raises:
        click.UsageError: One of the three.
    """
    names = {_locate(path): name for name, path in read if path is not None}
    for name, path in written:
        if path is None:
            continue
        if path == "-":
            refuse(f"{name} takes a file, and - is none; one of that name is ./-")
        place = _locate(path)
        if place in names:
            refuse(f"{names[place]} and {name} name the same file")
        names[place] = name


def _locate(path: str) -> str:
    try:
        return os.path.realpath(path)
    except (OSError, ValueError):  # no path at all, which is said where it is opened
        return path


def write_file(path: str, text: str) -> None:
    """Write a file whole or not at all, and follow a symbolic link; what is no regular file (``/dev/stdout``) is written through.

    Raises:
        UnwritableError: It could not be written; the text says why.
    """
    try:
        target = Path(path)
        if target.exists() and not target.is_file():
            target.write_text(text, encoding="utf-8")
            return
        target = target.resolve()
        draft = target.with_name(f"{target.name}.{os.getpid()}.tmp")
        try:
            with draft.open("x", encoding="utf-8") as stream:
                stream.write(text)
            draft.replace(target)
        except OSError:
            draft.unlink(missing_ok=True)
            raise
    except (OSError, ValueError, RuntimeError) as error:
        reason = (getattr(error, "strerror", None) or str(error)).lower()
        raise UnwritableError(f"cannot write '{visible(path)}': {reason}", click.get_current_context()) from None
