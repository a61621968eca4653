"""``python -m ppdsl_runtime``."""

from __future__ import annotations

import os
import sys

from ppdsl_runtime.failure.signals import block_termination


def main() -> int:
    """Run a command; what torchrun starts blocks SIGTERM first of all, for the watchdog to take it.

    So the rank that says why a command is refused is not stopped before it has, when another one that says nothing is done sooner.
    """
    if "RANK" in os.environ:
        block_termination()
    try:
        from ppdsl_runtime.commands.program import run  # noqa: PLC0415 -- loads what starts threads

        return run(sys.argv[1:])
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
