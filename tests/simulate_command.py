"""``ppdsl simulate`` in this process, with costs to simulate by."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from click.testing import CliRunner
from jsonschema import Draft202012Validator

from ppdsl.cli import main
from ppdsl.schemas import schema_for

if TYPE_CHECKING:
    from pathlib import Path

COSTS = {
    "kinds": {
        "E": {"forward": 0.5, "params": 2_000_000},
        "t": {"forward": 1, "params": 1_000_000, "activation_bytes": 30_000_000, "activation_bytes_after_input_grad": 10_000_000},
        "L": {"forward": 2},
    },
    "link": {"latency_us": 10, "gigabytes_per_s": 50, "message_bytes": 10_000_000},
    "memory_limit_bytes": 210_000_000,
}
SHAPE = ("--hidden", "1024", "--seq", "2048", "--vocab", "32000", "--batch", "1", "--tflops", "100")


def run(*arguments: str, stdin: str = "") -> tuple[str, str, int]:
    """Give what the command prints, on standard output and on standard error, and its exit code."""
    with CliRunner().isolation(input=stdin) as (output, errors, _):
        code = main(["simulate", *arguments])
        sys.stdout.flush()
        return output.getvalue().decode(), errors.getvalue().decode(), code


def simulated(*arguments: str) -> dict[str, Any]:
    """Give the JSON of a simulation, which holds to its schema."""
    output, _, code = run(*arguments, "--output-format", "json")
    assert code == 0, output
    document: dict[str, Any] = json.loads(output)
    Draft202012Validator(schema_for("simulate")).validate(document)
    return document


def write_costs(folder: Path, **changes: object) -> str:
    """Write the costs, changed, to a file in a folder; give its path."""
    path = folder / "costs.json"
    path.write_text(json.dumps(COSTS | changes))
    return str(path)
