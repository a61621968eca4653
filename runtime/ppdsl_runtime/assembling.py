"""What a pipeline is put together from: its transport, and what the ranks compare before the first transfer."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from ppdsl_runtime.failure.fingerprints import DifferenceError, list_facts
from ppdsl_runtime.options import TIMEOUT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import nn
    from torch.distributed import ProcessGroup

    from ppdsl.planning import Plan
    from ppdsl_runtime.options import PipelineOptions, StepOptions
    from ppdsl_runtime.programs import Programs
    from ppdsl_runtime.progress import Progress
    from ppdsl_runtime.transport.interface import Transport


def find_facts(plan: Plan, programs: Programs, settings: StepOptions) -> dict[str, str]:
    """Give what all ranks must have been given alike, by name, as text."""
    more = {name: getattr(settings, name) for name in ("autocast", "fp32_grads", "dropout_seed")}
    return list_facts(programs.give(settings.microbatches), plan, **more)


def compare_types(transport: Transport, chunks: Sequence[nn.Module | None]) -> None:
    """Compare the element types of the ranks' parameters; a rank without any has no say. All ranks call it.

    Raises:
        DifferenceError: Two ranks have none in common.
    """
    own = {str(weight.dtype) for module in chunks if module is not None for weight in module.parameters()}
    everywhere = [(rank, types) for rank, types in enumerate(transport.gather(sorted(own))) if types]
    for rank, types in everywhere:
        first, others = everywhere[0]
        if not {*types} & {*others}:
            raise DifferenceError(f"parameters are {', '.join(others)} on rank {first}, but {', '.join(types)} on rank {rank}")


def check_chunks(plan: Plan, chunks: Sequence[nn.Module | None], transport: Transport) -> list[nn.Module | None]:
    """Give a rank's chunks, once they are as many as the plan's.

    Raises:
        ValueError: They are not, or the transport has another number of ranks than the plan.
    """
    if transport.size != plan.pp:
        raise ValueError(f"the transport has {transport.size} ranks, the plan {plan.pp}")
    own = plan.chunks_of(transport.rank)
    if len(chunks) != len(own):
        raise ValueError(f"rank {transport.rank} was given {len(chunks)} chunks, the plan has {len(own)} for it")
    return [*chunks]


def connect(plan: Plan, options: PipelineOptions, facts: dict[str, str], progress: Progress) -> Transport:
    """Make the transport over torch.distributed.

    Raises:
        ValueError: The group has another number of ranks than the plan, or too many channels are needed.
    """
    from torch import distributed as dist  # noqa: PLC0415 -- asked for only here

    from ppdsl_runtime.transport.distributed import DistributedTransport  # noqa: PLC0415 -- the same

    group, timeout = options.get("group"), options.get("timeout", TIMEOUT)
    if dist.get_world_size(group) != plan.pp:
        raise ValueError(f"the group has {dist.get_world_size(group)} ranks, the plan {plan.pp}")
    owners = [chunk.pp_rank for chunk in plan.chunks]
    pairs = {(one, other) for one, other in pairwise(owners) if one != other}
    return DistributedTransport(
        sorted(pairs | {(other, one) for one, other in pairs}),
        group=group,
        device=options.get("device", "cpu"),
        reductions=_find_sharers([*(options.get("tied") or ())], group),
        timeout=timeout,
        facts=facts,
        progress=progress,
    )


def _find_sharers(names: list[str], group: ProcessGroup | None) -> list[tuple[int, ...]]:
    """Find the sets of ranks that have copies of the same weights; over the caller's own group, since torch cannot make one anew safely."""
    from torch import distributed as dist  # noqa: PLC0415 -- asked for only here

    everywhere: list[list[str]] = [[] for _ in range(dist.get_world_size(group))]
    dist.all_gather_object(everywhere, names, group=group)
    sharers = {tuple(rank for rank, held in enumerate(everywhere) if name in held) for held in everywhere for name in held}
    return sorted(ranks for ranks in sharers if len(ranks) > 1)
