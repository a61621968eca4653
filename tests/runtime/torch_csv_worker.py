"""What each rank does in test_torch_schedules: it runs schedules with torch's runtime and writes down the gradients.

``torchrun … torch_csv_worker.py FOLDER SECONDS``. FOLDER/cases.json says for each case who owns its stages and how many microbatches there
are; FOLDER/<case>.csv is its schedule. Rank r writes FOLDER/rank<r>.json, and rank 0, all by itself and without a schedule, reference.json.
"""

from __future__ import annotations

import faulthandler
import json
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch import distributed as dist
from torch.distributed.pipelining import PipelineStage
from torch.distributed.pipelining.schedules import _PipelineScheduleRuntime
from torch.nn.functional import mse_loss

WIDTH = 6
ROWS = 3
"""Rows of a microbatch."""

Result = dict[str, Any]


class Stage(nn.Module):
    """A block with two weights on the longer of two ways, so that its backward falls into several pieces."""

    def __init__(self) -> None:
        super().__init__()
        self.expand = nn.Linear(WIDTH, 2 * WIDTH)
        self.shrink = nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, hidden: Tensor) -> Tensor:
        """Add to what comes in, lest the gradient of stage 0 vanishes where there are many stages."""
        added: Tensor = self.shrink(torch.tanh(self.expand(hidden)))
        return hidden + added


def make_stage(stage: int) -> nn.Module:
    """Make a stage, the same wherever it is made."""
    torch.manual_seed(stage)
    return Stage().double()


def make_batch(microbatches: int) -> tuple[Tensor, Tensor]:
    """Make the inputs and the targets of a step."""
    generator = torch.Generator().manual_seed(microbatches)
    inputs, targets = torch.randn(2, microbatches * ROWS, WIDTH, dtype=torch.float64, generator=generator)
    return inputs, targets


def list_gradients(stages: dict[int, nn.Module]) -> dict[str, list[float] | None]:
    """Give each parameter's gradient, None where it has none."""
    return {
        f"{stage}.{name}": None if parameter.grad is None else parameter.grad.flatten().tolist()
        for stage, module in stages.items()
        for name, parameter in module.named_parameters()
    }


def run_alone(owners: list[int], microbatches: int) -> Result:
    """Take the step as one process does: one microbatch after the other, through all stages."""
    stages = {stage: make_stage(stage) for stage in range(len(owners))}
    inputs, targets = make_batch(microbatches)
    losses = []
    for hidden, target in zip(torch.split(inputs, ROWS), torch.split(targets, ROWS), strict=True):
        for stage in stages.values():
            hidden = stage(hidden)  # noqa: PLW2901 -- so it reads like what it is
        loss = mse_loss(hidden, target)
        torch.autograd.backward(loss / microbatches)
        losses.append(loss.item())
    return {"losses": losses, "gradients": list_gradients(stages)}


def run_schedule(csv: Path, owners: list[int], microbatches: int) -> Result:
    """Take the step as the schedule says, this rank's part of it."""
    rank = dist.get_rank()
    modules = {stage: make_stage(stage) for stage, owner in enumerate(owners) if owner == rank}
    device = torch.device("cpu")
    stages = [PipelineStage(module, stage, len(owners), device) for stage, module in modules.items()]
    schedule = _PipelineScheduleRuntime(stages, microbatches, mse_loss)  # type: ignore[no-untyped-call]  # torch leaves it untyped
    schedule._load_csv(str(csv), format="compute_only")  # noqa: SLF001 -- the only way in for orders of one's own
    inputs, targets = make_batch(microbatches)
    losses: list[Tensor] = []
    schedule.step(*([inputs] if 0 in modules else []), target=targets, losses=losses)
    dumped = csv.with_suffix(f".torch{rank}")
    schedule._dump_csv(str(dumped), format="compute_only")  # noqa: SLF001 -- what torch understood
    return {
        "csv": dumped.read_text(encoding="utf-8"),
        "owners": [schedule.stage_index_to_group_rank[stage] for stage in range(len(owners))],
        "losses": [loss.item() for loss in losses],
        "gradients": list_gradients(modules),
    }


def main(folder: Path, seconds: float) -> None:
    """Run all cases, one after the other."""
    faulthandler.dump_traceback_later(seconds, exit=True)
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=timedelta(seconds=seconds / 2))
    rank = dist.get_rank()
    results: dict[str, Result] = {}
    reference: dict[str, Result] = {}
    for name, case in json.loads((folder / "cases.json").read_text(encoding="utf-8")).items():
        print(name, flush=True)  # noqa: T201 -- the last one printed is the one that failed
        results[name] = run_schedule(folder / f"{name}.csv", **case)
        if rank == 0:
            reference[name] = run_alone(**case)
    (folder / f"rank{rank}.json").write_text(json.dumps(results), encoding="utf-8")
    if rank == 0:
        (folder / "reference.json").write_text(json.dumps(reference), encoding="utf-8")
    dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]))
