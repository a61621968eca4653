"""What a pipeline is put together from: its programs and its transport, once the ranks have compared what they were given."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import torch

from ppdsl.schedules import Schedule, default_name
from ppdsl_runtime.chunks.running import find_names
from ppdsl_runtime.failure.fingerprints import DifferenceError, Refused, list_facts, refuse_differences
from ppdsl_runtime.options import TIMEOUT
from ppdsl_runtime.programs import Programs, hardware_queues
from ppdsl_runtime.transport.faults import naming_peer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import nn

    from ppdsl.planning import Plan
    from ppdsl_runtime.options import PipelineOptions, StepOptions
    from ppdsl_runtime.progress import Progress
    from ppdsl_runtime.transport.interface import Transport


class Given(NamedTuple):
    """What a rank was given, as the others have to know it.

    Attributes:
        facts: What all ranks must have been given alike, by name, as text.
        types: The element types of its parameters.
        tied: The names of its copies of weights that other ranks may have, too.
        names: The keyword inputs that its chunks take.
    """

    facts: dict[str, str]
    types: list[str]
    tied: list[str]
    names: list[str]

    @classmethod
    def of(cls, facts: dict[str, str], chunks: Sequence[nn.Module | None], options: PipelineOptions) -> Given:
        """Say it of this rank."""
        names = {name for module in chunks for name in find_names(module)}
        types = {str(weight.dtype) for module in chunks if module is not None for weight in module.parameters()}
        return cls(facts, sorted(types), sorted(options.get("tied") or ()), sorted(names))


def make_programs(plan: Plan, options: PipelineOptions, settings: StepOptions) -> tuple[Programs | ValueError, dict[str, str]]:
    """Make the programs, and what all ranks must have been given alike.

    A rank that cannot make them is not to leave the others waiting, so what is wrong is told and not raised.

    Returns:
        The programs, or what is wrong; and the facts by name, as text.
    """
    given = options.get("transport")
    device = torch.device(options.get("device", "cpu")) if given is None else given.device
    schedule, program = options.get("schedule"), options.get("program")
    more = {name: getattr(settings, name) for name in ("autocast", "fp32_grads", "dropout_seed")}
    try:
        programs = Programs(plan, schedule, depth=settings.depth, program=program, queues=hardware_queues(device.type))
        return programs, list_facts(programs.give(settings.microbatches), plan, **more)
    except ValueError as error:
        if program is None and options.get("microbatches") is None:
            error = ValueError(f"{error}; the pipeline was not told microbatches, which are 1 then")
        name = schedule.name if isinstance(schedule, Schedule) else schedule
        name = name or (default_name(plan) if program is None else program.schedule)
        return error, list_facts(Refused(name, settings.microbatches, settings.depth, str(error)), plan, **more)


def compare(own: Given, options: PipelineOptions, progress: Progress) -> list[Given]:
    """Compare what the ranks were given, before any of them connects to another. All ranks call it.

    Returns:
        What each rank was given, by rank.

    Raises:
        DifferenceError: Two ranks were not given the same, or have parameters of no common element type; one without any has no say.
        PeerError: A rank died or took too long.
    """
    given = options.get("transport")
    everywhere = _gather(own, options, progress) if given is None else given.gather(own)
    refuse_differences([one.facts for one in everywhere])
    typed = [(rank, one.types) for rank, one in enumerate(everywhere) if one.types]
    for rank, types in typed:
        first, others = typed[0]
        if not {*types} & {*others}:
            raise DifferenceError(f"parameters are {', '.join(others)} on rank {first}, but {', '.join(types)} on rank {rank}")
    return everywhere


def _gather(own: Given, options: PipelineOptions, progress: Progress) -> list[Given]:
    """Gather over the caller's own group, since torch cannot make one anew safely."""
    from torch import distributed as dist  # noqa: PLC0415 -- asked for only here

    group = options.get("group")
    everywhere = [own] * dist.get_world_size(group)
    with naming_peer(dist.get_rank(group), progress, "meeting the other ranks"):
        dist.all_gather_object(everywhere, own, group=group)
    return everywhere


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


def connect(plan: Plan, options: PipelineOptions, everywhere: Sequence[Given], progress: Progress) -> Transport:
    """Make the transport over torch.distributed.

    Args:
        plan: The layout.
        options: Those of the pipeline.
        everywhere: What each rank was given.
        progress: Where this rank is.

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
        reductions=_find_sharers([one.tied for one in everywhere]),
        timeout=timeout,
        progress=progress,
    )


def _find_sharers(everywhere: Sequence[Sequence[str]]) -> list[tuple[int, ...]]:
    """Find the sets of ranks that have copies of the same weights, given the names that each has."""
    sharers = {tuple(rank for rank, held in enumerate(everywhere) if name in held) for names in everywhere for name in names}
    return sorted(ranks for ranks in sharers if len(ranks) > 1)
