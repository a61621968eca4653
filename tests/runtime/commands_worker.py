"""Runs commands on each rank as ``python -m ppdsl_runtime`` does, one after another, and says how each ends.

Takes a file of JSON: a list of cases, each the arguments, and those that the last rank alone gets behind them; None in their place lets
that rank leave at once.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from ppdsl_runtime.failure.signals import block_termination

block_termination()

from ppdsl_runtime.commands.program import run  # noqa: E402 -- what starts threads comes behind it


def main() -> int:
    """Do all cases; the exit code is that of the last."""
    last = int(os.environ["RANK"]) == int(os.environ["WORLD_SIZE"]) - 1
    code = 0
    for number, (arguments, more) in enumerate(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))):
        if last and more is None:
            return 9
        code = run([*arguments, *(more if last else ())])
        print(f"case {number} ends with {code}", flush=True)  # noqa: T201 -- what the test reads
    return code


if __name__ == "__main__":
    sys.exit(main())
