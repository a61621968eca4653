"""Reading what may be damaged: JSON, and what is said of a file that cannot be read or written."""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def load_json(text: str) -> Any:  # noqa: ANN401 -- JSON is anything
    """Read JSON.

    Raises:
        ValueError: It is none, or is nested too deep.
    """
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested too deep") from None


def reason_of(error: Exception) -> str:
    """Say in words what is wrong, an error of the system without its number and without the file that it names."""
    if isinstance(error, UnicodeDecodeError):
        return f"not valid UTF-8 at byte {error.start:,}"
    return error.strerror.lower() if isinstance(error, OSError) and error.strerror else str(error)


@contextmanager
def naming(path: str | Path) -> Iterator[None]:
    """Let an error of the system name this file, which it may not know, or know by another name.

    Raises:
        OSError: In the place of one.
    """
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), str(path)) from error
