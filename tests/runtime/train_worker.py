"""Trains models under many layouts in one launch: each case is the arguments of ``train``, and dumps its gradients and its losses.

Takes a file of JSON, a list of lists of arguments.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from ppdsl_runtime.failure.signals import block_termination

block_termination()

from ppdsl.cli.options import normalize_name  # noqa: E402 -- what starts threads comes behind it
from ppdsl_runtime.commands.layouts import choose_layout  # noqa: E402 -- the same
from ppdsl_runtime.commands.runs import choose_settings  # noqa: E402 -- the same
from ppdsl_runtime.commands.train import command  # noqa: E402 -- the same
from ppdsl_runtime.training.runs import PipelineSettings, train_pipeline  # noqa: E402 -- the same
from ppdsl_runtime.training.worlds import World, open_world, read_world  # noqa: E402 -- the same

_TIMEOUT = 120.0


def train(arguments: list[str], world: World) -> None:
    """Do one case."""
    with command.make_context("train", [*arguments], token_normalize_func=normalize_name) as context:
        values = context.params
        settings = choose_settings(values)  # type: ignore[arg-type]  # what the command takes
        laid = choose_layout(values, settings.shape, world.size)  # type: ignore[arg-type]  # the same
    pipeline = PipelineSettings(laid.plan, laid.program, checkpoint=values["checkpoint_activations"], timeout=_TIMEOUT)
    train_pipeline(settings, pipeline, world)


def main() -> None:
    """Do all cases, each with a pipeline of its own."""
    world = read_world("cpu")
    with open_world(world, _TIMEOUT):
        for arguments in json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")):
            sys.stderr.write(f"{arguments}\n")
            train(arguments, world)


if __name__ == "__main__":
    main()
