"""Where a command's output goes: the one place that writes, and what it knows of the streams."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, NamedTuple

from ppdsl.cli.exits import DONE, USAGE

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Literal, TextIO

    Color = Literal["auto", "always", "never"]


class Outcome(NamedTuple):
    """What a command gives back, to be written once it is done.

    Attributes:
        stdout: Text for standard output; every line ends with a line end.
        stderr: The same for standard error.
        exit_code: How the process ends.
    """

    stdout: str = ""
    stderr: str = ""
    exit_code: int = DONE


class Look(NamedTuple):
    """How text is to look on a stream.

    Attributes:
        color: Whether to colour it.
        width: Columns of the terminal; None where the stream is none.
        rich: Whether tables are drawn with rich: on a terminal, or where colour is forced.
        ascii: Whether the stream takes no more than ASCII.
    """

    color: bool = False
    width: int | None = None
    rich: bool = False
    ascii: bool = False


def look_of(stream: TextIO | None, color: Color, environment: Mapping[str, str] = os.environ) -> Look:
    """Decide how text looks on a stream.

    Args:
        stream: Where the text goes; None where the process was started without it.
        color: What ``--color`` says; it wins over NO_COLOR, which wins over CLICOLOR_FORCE.
        environment: The variables of the process.
    """
    terminal = stream is not None and stream.isatty() and environment.get("TERM") != "dumb"
    if color != "auto":
        colored = color == "always"
    elif environment.get("NO_COLOR"):
        colored = False
    else:
        colored = terminal or environment.get("CLICOLOR_FORCE", "0") not in {"", "0"}
    width = None
    if terminal:
        from shutil import get_terminal_size  # noqa: PLC0415 -- away from a terminal it is not needed

        width = get_terminal_size().columns
    encoding = getattr(stream, "encoding", None) or "utf-8"
    return Look(colored, width, terminal or colored, not encoding.lower().replace("-", "").startswith("utf"))


def write(outcome: Outcome) -> int:
    """Write what a command gave back.

    A reader that has gone away (``| head``) is no fault. What a stream's encoding lacks is written as an escape.

    Returns:
        The exit code: the command's, or 2 where its output could not be written.
    """
    code = outcome.exit_code
    for stream, text in ((sys.stdout, outcome.stdout), (sys.stderr, outcome.stderr)):
        reason = _write(stream, text)
        if reason is not None and stream is sys.stdout:
            _write(sys.stderr, f"error: cannot write the output: {reason}\n")
            code = USAGE
    return code


def _write(stream: TextIO | None, text: str) -> str | None:
    """Write and flush; give the reason why that failed, None where it did not or where nobody reads any more."""
    if stream is None:  # the process was started with the stream closed
        return None
    try:
        if not text.isascii():
            encoding = stream.encoding or "utf-8"
            text = text.encode(encoding, "backslashreplace").decode(encoding)
        stream.write(text)
        stream.flush()
    except BrokenPipeError:
        _silence(stream)
    except OSError as error:
        _silence(stream)
        return (error.strerror or str(error)).lower()
    return None


def _silence(stream: TextIO) -> None:
    """Point a stream that failed at nothing, so that what is left in its buffer makes no noise when the interpreter ends."""
    try:
        target = stream.fileno()
    except (OSError, ValueError):
        return
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, target)
    os.close(nothing)
