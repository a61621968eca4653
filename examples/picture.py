"""Draw the picture of the README from what ppdsl prints on a terminal: python examples/picture.py > docs/ppdsl.svg."""

from __future__ import annotations

import re
import subprocess
import sys
from io import StringIO
from shlex import quote

from rich.console import Console
from rich.text import Text

LAYOUT = "Et*3||t*3|t*6NL"
COMMANDS = (
    ("check", LAYOUT, "--pp", "2", "--num-layers", "12"),
    ("check", LAYOUT, "--pp", "2", "--num-layers", "13"),
)


def run(arguments: tuple[str, ...]) -> str:
    """Give what a command prints where colour is shown."""
    command = [sys.executable, "-m", "ppdsl", *arguments, "--color", "always"]
    return subprocess.run(command, capture_output=True, encoding="utf-8", check=False).stdout  # noqa: S603 -- our own commands


def draw() -> str:
    """Give the picture, as SVG."""
    console = Console(record=True, width=72, file=StringIO(), force_terminal=True, color_system="standard", legacy_windows=False)
    for number, arguments in enumerate(COMMANDS):
        if number:
            console.print()
        console.print(Text.assemble(("$ ", "green"), (f"ppdsl {' '.join(map(quote, arguments))}", "bold")))
        console.print(Text.from_ansi(run(arguments).rstrip()))
    picture = console.export_svg(title="ppdsl", unique_id="ppdsl")
    # The fonts that rich names are on another host; a picture in a page may not load them, and need not.
    return re.sub(r" *@font-face \{.*?\}\n", "", picture, flags=re.DOTALL)


if __name__ == "__main__":
    print(draw(), end="")
