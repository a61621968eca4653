"""What can be chosen beside the layers of the stages: placement, chunks a rank, schedule, microbatch group, place of the MTP layers."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ppdsl.placing import rank_of
from ppdsl.schedules.naming import SPLIT, WHOLE, find_obstacle
from ppdsl.suggesting.answers import NoLayoutError
from ppdsl.suggesting.problem import AUTO
from ppdsl.validation.subject import plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Literal

    from ppdsl.suggesting.problem import Problem

_MOST_VPP = 8
"""The largest vpp that is tried of itself."""
_MOST_GROUPS = 6
"""How many microbatch groups are tried."""


class Choice(NamedTuple):
    """One way to choose all but the layers of the stages.

    Attributes:
        owners: The rank of each stage.
        placement: What makes the owners; ``owners`` where they were given.
        schedule: Name of the schedule.
        group: Microbatch group of interleaved_1f1b; None for the usual one, and for other schedules.
        mtp_stage: The stage of the MTP layers: the last, or the one before it, and then the loss is alone in the last.
        least: Units that each stage has at least.
        most: Units that each stage has at most.
    """

    owners: tuple[int, ...]
    placement: Literal["loop", "v", "owners"]
    schedule: str
    group: int | None
    mtp_stage: int
    least: tuple[int, ...]
    most: tuple[int, ...]

    @property
    def split(self) -> bool:
        """Whether backwards may be in two halves."""
        return self.schedule in SPLIT or self.schedule == AUTO

    @property
    def vpp(self) -> int:
        """The largest number of chunks on a rank."""
        return max(map(self.owners.count, {*self.owners}))


def list_choices(problem: Problem) -> list[Choice]:
    """List all that a problem allows and that can hold its layers, the plainest first.

    Raises:
        NoLayoutError: The layers cannot fill the stages.
        ValueError: No schedule that is asked for is legal; the text says why.
    """
    obstacles: dict[str, None] = {}
    found = []
    for owners, placement in _list_owners(problem):
        for schedule, group in _list_schedules(problem, owners, obstacles):
            for mtp_stage, least, most in _list_ranges(problem, owners):
                found.append(Choice(owners, placement, schedule, group, mtp_stage, least, most))
    if not found:
        if obstacles:
            raise ValueError(next(iter(obstacles)))
        raise NoLayoutError(f"{plural(problem.num_layers, 'decoder layer')} cannot fill the stages")
    return found


def fits(choice: Choice, counts: Sequence[int]) -> bool:
    """Whether counts of units are for the stages of a choice, and within what they may have."""
    if len(counts) != len(choice.owners):
        return False
    return all(least <= count <= most for least, count, most in zip(choice.least, counts, choice.most, strict=True))


def _list_owners(problem: Problem) -> Iterator[tuple[tuple[int, ...], Literal["loop", "v", "owners"]]]:
    if problem.owners is not None:
        yield problem.owners, "owners"
        return
    filled = problem.units + 2 + (problem.mtp_num_layers > 0)  # stages with layers, and those of E, of MTP layers and of L
    most = _MOST_VPP if problem.min_layers == 0 else max(1, min(_MOST_VPP, filled // problem.pp))
    chunks = range(1, most + 1) if problem.vpp is None else (problem.vpp,)
    for vpp in chunks:
        stages = range(problem.pp * vpp)
        loop = tuple(rank_of(stage, problem.pp, "loop") for stage in stages)
        vee = tuple(rank_of(stage, problem.pp, "v") for stage in stages)
        if problem.placement != "v":
            yield loop, "loop"
        if problem.placement == "v" or (problem.placement == AUTO and vee != loop):
            yield vee, "v"


def _list_schedules(problem: Problem, owners: tuple[int, ...], obstacles: dict[str, None]) -> Iterator[tuple[str, int | None]]:
    """Give the schedules that are legal, and note why others are not."""
    ranks = [*range(problem.pp)]
    if problem.schedule is None:
        looped = [*owners] == ranks * (len(owners) // problem.pp)
        names: tuple[str, ...] = ("1f1b" if sorted(owners) == ranks else "interleaved_1f1b" if looped else AUTO,)
    elif problem.schedule == AUTO:
        names = (*WHOLE, *(SPLIT if problem.costs.split else ()), AUTO)
    else:
        names = (problem.schedule,)
    for name in names:
        if name == "interleaved_1f1b" and problem.schedule == AUTO and len(owners) == problem.pp:
            continue  # it is 1f1b
        for group in _list_groups(problem) if name == "interleaved_1f1b" else (None,):
            obstacle = find_obstacle(name, owners, problem.pp, problem.microbatches, group)
            if obstacle is None:
                yield name, group
            else:
                obstacles[obstacle] = None


def _list_groups(problem: Problem) -> list[int | None]:
    if problem.group != 0:
        return [problem.group]
    batches, fitting = problem.microbatches, _list_fitting(problem)
    fitting.sort(
        key=lambda size: (size < batches, batches % size > 0, size % problem.pp > 0, size)
    )  # all, then whole groups and small ones
    return [None, *sorted(fitting[: _MOST_GROUPS - 1])]


def _list_fitting(problem: Problem) -> list[int]:
    """List the groups beside the usual one that interleaved_1f1b takes."""
    pp, batches = problem.pp, problem.microbatches
    return [size for size in range(pp + 1, batches + 1) if not batches % size or batches % size >= pp]


def covers_groups(problem: Problem) -> bool:
    """Whether every microbatch group that may be chosen is among the choices."""
    return problem.group != 0 or len(_list_fitting(problem)) < _MOST_GROUPS


def _list_ranges(problem: Problem, owners: tuple[int, ...]) -> Iterator[tuple[int, tuple[int, ...], tuple[int, ...]]]:
    """Give the stages that the MTP layers can be in, with the units that the stages have at least and at most.

    Where any stage may be empty, layouts without empty stages come first all the same: an empty one has to help.
    """
    stages, wanted = len(owners), problem.min_layers
    last, before = stages - 1, stages - 2
    leaves = [(1, True), (0, True)] if wanted == 0 else [(1 if wanted is None else wanted, wanted is None)]
    for layers, ends_alone in leaves:
        least = [-(-layers // problem.unit)] * stages
        if layers > 1:  # then the last unit is in the last stage, and may have fewer layers
            short = problem.num_layers - (problem.units - 1) * problem.unit
            least[last] = 1 + -(-max(layers - short, 0) // problem.unit)
        most = [problem.units] * stages
        if ends_alone:
            least[0] = least[last] = 0
        if sum(least) <= problem.units:
            yield last, tuple(least), tuple(most)
        if problem.mtp_num_layers and before >= 1 and ends_alone and owners[before] not in {owners[last], owners[0]}:
            least[before] = most[last] = 0
            if sum(least) <= problem.units:
                yield before, tuple(least), tuple(most)
