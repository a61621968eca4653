"""Reading the corpora on disk. A file that has nothing to read is an error, so that no test passes for want of cases."""

from __future__ import annotations

import json
from ast import literal_eval
from pathlib import Path
from typing import Any, NamedTuple

FOLDER = Path(__file__).parent / "corpus"
_HEAD = "### "


class Refusal(NamedTuple):
    """An invalid layout, what it is checked with, and the whole text that is to be said of it."""

    layout: str
    sizes: dict[str, Any]
    report: str


def lines(name: str) -> list[str]:
    """Read the lines of a corpus, comments and blank lines left out."""
    found = [line for line in (FOLDER / name).read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]
    if not found:
        message = f"nothing to read in {name}"
        raise ValueError(message)
    return found


def columns(name: str) -> list[list[str]]:
    """Read a corpus of lines with a tab between two columns, which may hold escapes as Python has them."""
    return [[_unescape(column) for column in line.split("\t")] for line in lines(name)]


def _unescape(text: str) -> str:
    return str(literal_eval('"' + text.replace('"', '\\"') + '"'))


def sizes_of(words: str) -> dict[str, Any]:
    """Read sizes such as ``pp=2 placement=v``."""
    pairs = (word.split("=") for word in words.split())
    return {name: int(value) if value.isdigit() else value for name, value in pairs}


def cases(name: str) -> list[dict[str, Any]]:
    """Read a corpus of JSON objects."""
    found: list[dict[str, Any]] = json.loads((FOLDER / name).read_text(encoding="utf-8"))
    if not found:
        message = f"nothing to read in {name}"
        raise ValueError(message)
    return found


def refusals(path: Path) -> list[Refusal]:
    """Read a file of invalid layouts: a head with the layout and sizes as JSON, and the report under it, as often as there are cases."""
    parts = path.read_text(encoding="utf-8").split(_HEAD)[1:]
    if not parts:
        message = f"nothing to read in {path.name}"
        raise ValueError(message)
    found = []
    for part in parts:
        head, _, report = part.partition("\n")
        given = json.loads(head)
        found.append(Refusal(given.pop("layout"), given, report.strip("\n")))
    return found


def refusal_files() -> list[Path]:
    """Give the files of invalid layouts, one a code."""
    found = sorted((FOLDER / "invalid").glob("*.txt"))
    if not found:
        message = "no invalid layouts"
        raise ValueError(message)
    return found
