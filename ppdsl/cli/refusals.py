"""How a command that cannot be understood is answered: one clear line, or a whole document where one was asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ppdsl.cli.files import UnwritableError
from ppdsl.cli.options import normalize_name
from ppdsl.cli.output import Outcome
from ppdsl.rendering.characters import visible

if TYPE_CHECKING:
    from collections.abc import Sequence

_MOST_TEXT = 300


def refuse_usage(error: click.UsageError, arguments: Sequence[str], path: str) -> Outcome:
    """Answer a usage error.

    Args:
        error: What click found.
        arguments: What was typed; the output format among it counts, although the rest was not understood.
        path: The program and the command, as typed.
    """
    unwritable = isinstance(error, UnwritableError)
    message = error.message if unwritable else _word(error)
    wanted = _output_format(arguments)
    if wanted in {"json", "sarif"}:
        from ppdsl.cli import documents  # noqa: PLC0415 -- json is loaded for those who ask for it

        document = documents.usage_log(message) if wanted == "sarif" else documents.usage_document(message)
        return Outcome(documents.dump(document), "", error.exit_code)
    if wanted == "github":
        return Outcome(f"::error title=ppdsl::{message.replace('%', '%25')}\n", "", error.exit_code)
    return Outcome("", f"error: {message}\n" if unwritable else f"error: {message} (see {path} --help)\n", error.exit_code)


def _word(error: click.UsageError) -> str:
    """Put click's message into this program's words: lower case, no full stop, one line."""
    message = f"no such option {error.option_name}{_nearest(error)}" if isinstance(error, click.NoSuchOption) else error.format_message()
    message = visible(" ".join(message.split()))
    if len(message) > _MOST_TEXT:
        message = f"{message[:_MOST_TEXT]}..."
    return message[:1].lower() + message[1:].removesuffix(".")


def _nearest(error: click.NoSuchOption) -> str:
    """Name the option that was perhaps meant. Click's own choice counts the dashes, which all options share."""
    from difflib import get_close_matches  # noqa: PLC0415 -- needed only for a wrong option

    names = [name.lstrip("-") for name in error.possibilities or ()]
    near = get_close_matches(error.option_name.lstrip("-"), names, 1)
    return f", did you mean --{near[0]}?" if near else ""


def _output_format(arguments: Sequence[str]) -> str:
    """Find the output format among arguments that were not understood."""
    wanted = "text"
    for at, argument in enumerate(arguments):
        name, equals, value = argument.partition("=")
        if argument == "--":
            break
        if name.startswith("--") and normalize_name(name.removeprefix("--")) == "output-format":
            wanted = value if equals else next(iter(arguments[at + 1 : at + 2]), "")
    return wanted
