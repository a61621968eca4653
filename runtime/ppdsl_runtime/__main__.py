"""``python -m ppdsl_runtime``."""

from __future__ import annotations

import os
import sys

from ppdsl_runtime.failure.signals import block_termination


def main() -> int:
    """Run a command; what torchrun starts blocks SIGTERM first of all, for the watchdog to take it."""
    if "RANK" in os.environ and "train" in sys.argv[1:]:
        block_termination()
    from ppdsl_runtime.commands.program import run  # noqa: PLC0415 -- loads what starts threads

    return run(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
