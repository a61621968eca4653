"""The command line. ``ppdsl`` starts in ``main``; click and the commands are loaded when one is asked for."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run ``ppdsl``.

    Args:
        arguments: What stands behind the program's name; by default what the process was started with.

    Returns:
        The exit code. Nothing is raised but SystemExit, by click's shell completion.
    """
    try:
        from ppdsl.cli.program import run  # noqa: PLC0415 -- an interrupt while click loads ends as quietly as a later one

        with _without_regex():
            return run(sys.argv[1:] if arguments is None else arguments)
    except KeyboardInterrupt:
        return 130


@contextmanager
def _without_regex() -> Iterator[None]:
    """Keep lark from loading the package regex where that is installed: it takes as long as a check, and nothing here needs it."""
    if "regex" in sys.modules:
        yield
        return
    sys.modules["regex"] = None  # type: ignore[assignment]  # the import system reads None as "cannot be imported"
    try:
        yield
    finally:
        del sys.modules["regex"]
