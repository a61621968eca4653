"""``ppdsl suggest`` in this process, with costs to search by."""

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

GOLDEN = {"kinds": {"E": {"forward": 0.05}, "t": {"forward": 1.0}, "L": {"forward": 2.4}}}
LOADED = {
    "kinds": {
        "E": {"forward": 0.1, "params": 1_000_000},
        "t": {"forward": 1.0, "params": 2_000_000, "activation_bytes": 30_000_000},
        "m": {"forward": 1.1},
        "L": {"forward": 1.5, "params": 1_000_000},
    }
}
SIZES = ("--pp", "2", "--vpp", "2", "--num-layers", "9", "--microbatches", "4")


def run(*arguments: str) -> tuple[str, str, int]:
    """Give what the command prints, on standard output and on standard error, and its exit code."""
    with CliRunner().isolation() as (output, errors, _):
        code = main(["suggest", *arguments])
        sys.stdout.flush()
        return output.getvalue().decode(), errors.getvalue().decode(), code


def suggested(*arguments: str) -> dict[str, Any]:
    """Give the JSON of an answer, which holds to its schema."""
    output, errors, code = run(*arguments, "--output-format", "json")
    assert (code, errors) == (0, ""), output
    document: dict[str, Any] = json.loads(output)
    Draft202012Validator(schema_for("suggest")).validate(document)
    return document


def write_costs(folder: Path, costs: dict[str, Any]) -> str:
    """Write costs to a file in a folder; give its path."""
    path = folder / "costs.json"
    path.write_text(json.dumps(costs))
    return str(path)
