"""``profile``: what layers cost here, measured."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click
from torch import distributed as dist

from ppdsl.cli.exits import DONE, USAGE
from ppdsl.cli.files import refuse_overwriting
from ppdsl.cli.options import help_option
from ppdsl.cli.output import Outcome
from ppdsl_runtime.commands.models import DTYPES, choose_model
from ppdsl_runtime.commands.options import Place, model_options
from ppdsl_runtime.commands.runs import check_writable, refusing, running, save, speaking_once
from ppdsl_runtime.failure.signals import unblock_termination
from ppdsl_runtime.models import ChunkBuilder
from ppdsl_runtime.profiling import Workload, measure_link, profile_kinds, write_costs
from ppdsl_runtime.training.worlds import open_world, read_world

if TYPE_CHECKING:
    import torch
    from typing_extensions import Unpack

    from ppdsl_runtime.commands.options import ModelValues
    from ppdsl_runtime.profiling import KindCosts

    class ProfileValues(ModelValues, total=False):
        """The values of the options that only this command has."""

        batch: int
        samples: int
        warmup_samples: int
        output: str | None


_TIMEOUT = 600.0
_FP32_BYTES = 4


@click.command("profile")
@model_options
@click.option("--batch", type=click.IntRange(1), default=1, metavar="N", help="Sequences of a microbatch. [default: 1]")
@click.option("--samples", type=click.IntRange(1), default=20, metavar="N", help="Runs of each layer. [default: 20]")
@click.option("--warmup-samples", type=click.IntRange(0), default=1, metavar="N", help="First runs that are dropped. [default: 1]")
@click.option("-o", "--output", type=Place(), metavar="FILE", help="Write the costs to a file instead of standard output, which is -.")
@help_option
def command(**values: Unpack[ProfileValues]) -> Outcome:
    """Measure a layer of each kind: forward, both halves of the backward, memory; and, on two ranks or more, a message between two.

    Writes a costs file for ppdsl suggest and ppdsl simulate. Started by torchrun, all ranks measure at the same time.
    """
    with refusing():
        world = read_world(values["device"])
    path = None if values["output"] == "-" else values["output"]
    with speaking_once(), refusing():
        refuse_overwriting([("--weights", values["weights"])], [("--output", path)])
        shape, weights = choose_model(values)
        check_writable(path)
        work = Workload(values["batch"], values["seq"], values["samples"], values["warmup_samples"])
        work.check()
        dtype = DTYPES[values["dtype"]]
    unblock_termination()
    builder = ChunkBuilder(shape, weights, seed=values["seed"], dtype=dtype, device=world.device)
    with running(world), open_world(world, _TIMEOUT):
        dist.barrier()
        found = profile_kinds(builder, work)
        ranks: list[dict[str, KindCosts]] = [{} for _ in range(world.size)]
        dist.all_gather_object(ranks, found)
        p2p = measure_link(work.batch * work.seq * shape.hidden * dtype.itemsize, world.device)
    if not world.main:
        return Outcome()
    text = json.dumps(write_costs(ranks, p2p, _bytes_per_param(dtype)), indent=2) + "\n"
    fault = "" if path is None else save(path, text)
    return Outcome(text if fault or path is None else "", fault, USAGE if fault else DONE)  # what was measured is not lost


def _bytes_per_param(dtype: torch.dtype) -> int:
    """Give what a parameter takes with its gradient, AdamW's two moments, and its copy in fp32 where it has 16 bits."""
    size, full = dtype.itemsize, max(dtype.itemsize, _FP32_BYTES)
    return 2 * size + 2 * full + (full if size < full else 0)
