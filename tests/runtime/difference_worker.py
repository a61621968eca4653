"""What each of two ranks does in test_difference_ranks: it makes pipelines for which rank 1 is given something else than rank 0.

``torchrun … difference_worker.py SECONDS [NAME]``. With a name, only that case is done, and nobody catches the error.
"""

from __future__ import annotations

import faulthandler
import signal
import sys
import time
from datetime import timedelta
from typing import Any

import pytest
import torch
from torch import distributed as dist

from ppdsl import compile_layout
from ppdsl._version import __version__
from ppdsl.lowering import lower
from ppdsl.schedules import make_schedule
from ppdsl_runtime.chunks import build
from ppdsl_runtime.failure import fingerprints
from ppdsl_runtime.failure.fingerprints import DifferenceError
from ppdsl_runtime.pipeline import Pipeline
from ppdsl_runtime.transport import connecting
from tests.runtime.pipelines import Toy, toy_loss

WAIT = 90.0
"""Seconds until a wait is given up: far too late."""
PLAN = compile_layout("Et|tL", pp=2)
USUAL: dict[str, Any] = {"schedule": "1f1b", "microbatches": 4, "depth": 1, "autocast": None, "fp32_grads": False, "dropout_seed": 5}
OTHERS: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "plan": ({"plan": compile_layout("Ett|L", pp=2)}, (r"plan is Et\|tL \(sha256:\w+\) on rank 0 and Ett\|L \(sha256:\w+\) on rank 1",)),
    "owners": ({"plan": compile_layout("Et@1|tL@0", pp=2)}, (r"plan is Et\|tL \(.*\) on rank 0 and Et@1\|tL@0 \(.*\) on rank 1",)),
    "more_ranks": ({"plan": compile_layout("E|t|t|L", pp=4)}, (r"plan is Et\|tL \(.*\) on rank 0 and E\|t\|t\|L \(.*\) on rank 1",)),
    "schedule": ({"schedule": "gpipe"}, (r"schedule is 1f1b on rank 0 and gpipe on rank 1",)),
    "refused_schedule": (
        {"schedule": "zb_v"},
        (
            r"schedule is 1f1b on rank 0 and zb_v on rank 1",
            r"program is sha256:\w+ on rank 0 and refused: zb_v needs the placement v .*on rank 1",
        ),
    ),
    "refused_program": (
        {"program": lower(make_schedule(compile_layout("Et@1|tL@0", pp=2), "gpipe", 4))},
        (r"program is sha256:\w+ on rank 0 and refused: the program's stages belong to ranks \(1, 0\), .*on rank 1",),
    ),
    "microbatches": ({"microbatches": 8}, (r"microbatches is 4 on rank 0 and 8 on rank 1",)),
    "depth": ({"depth": 2}, (r"depth is 1 on rank 0 and 2 on rank 1",)),
    "refused_depth": ({"depth": -1}, (r"depth is 1 on rank 0 and -1 on rank 1",)),
    "autocast": ({"autocast": torch.bfloat16}, (r"autocast is None on rank 0 and torch.bfloat16 on rank 1",)),
    "fp32_grads": ({"fp32_grads": True}, (r"fp32_grads is False on rank 0 and True on rank 1",)),
    "dropout_seed": ({"dropout_seed": 6}, (r"dropout_seed is 5 on rank 0 and 6 on rank 1",)),
    "version": ({"version": "0.0"}, (r"version of ppdsl is \S+ on rank 0 and 0.0 on rank 1",)),
    "dtype": ({"dtype": torch.bfloat16}, (r"parameters are torch.float64 on rank 0, but torch.bfloat16 on rank 1",)),
}
"""What rank 1 is given instead, by the name of the case, and what every rank's error says of it."""


def make_pipeline(name: str) -> Pipeline:
    """Make this rank's pipeline of a case."""
    options = dict(USUAL)
    if dist.get_rank():
        options |= OTHERS[name][0]
    plan, dtype = options.pop("plan", PLAN), options.pop("dtype", torch.float64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fingerprints, "__version__", options.pop("version", __version__))
        chunks = build(plan, lambda chunk: Toy(chunk.stage, dtype=dtype), rank=dist.get_rank())
        return Pipeline(plan, chunks, loss_fn=toy_loss, timeout=WAIT, **options)


def refuse_to_connect(*_: object) -> None:
    """Take the place of what connects two ranks."""
    raise AssertionError("a pair was connected before the ranks had compared what they were given")


def catch(name: str) -> None:
    """Expect a case's error, before anything is connected."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(connecting, "_connect_pair", refuse_to_connect)
        with pytest.raises(DifferenceError) as caught:
            make_pipeline(name)
    for text in OTHERS[name][1]:
        caught.match(text)
    print("told", name, flush=True)  # noqa: T201 -- what the test reads


def main(seconds: str, name: str = "") -> None:
    """Do one case, or all, and then one without a difference."""
    faulthandler.dump_traceback_later(float(seconds), exit=True)
    dist.init_process_group("gloo", timeout=timedelta(seconds=WAIT))
    if name:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # each rank ends by itself
        print("begins at", time.time(), flush=True)  # noqa: T201 -- the same
        make_pipeline(name)
    for each in OTHERS:
        catch(each)
    OTHERS["nothing"] = ({}, ())
    make_pipeline("nothing").close()
    print("agreed", flush=True)  # noqa: T201 -- the same
    dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
