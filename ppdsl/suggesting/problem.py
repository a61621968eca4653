"""What is asked: a model, its costs, ranks, and what may be chosen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from ppdsl.schedules.naming import NAMES
from ppdsl.validation.subject import plural

if TYPE_CHECKING:
    from ppdsl.costs.values import Costs

Objective = Literal["makespan", "span"]
"""What is to be small: the end of the last action, or the largest time that a rank takes from its first action to its last."""

AUTO = "auto"
"""What stands for a choice that is left to the search."""
_PLACEMENTS = ("loop", "v", AUTO)


@dataclass(frozen=True, slots=True)
class Problem:
    """A search for the best layout.

    Attributes:
        costs: What layers cost; its memory limit counts.
        num_layers: Decoder layers of the model.
        pp: Number of ranks.
        microbatches: Microbatches of a step.
        mtp_num_layers: MTP layers of the model.
        vpp: Chunks on each rank; None to choose it, from 1 to 8.
        schedule: One of ``schedules.NAMES``; None is the default of the layout. ``auto`` takes the best, and the list schedule among them.
        placement: ``loop``, ``v``, or ``auto``.
        owners: The rank of each stage, instead of a placement and a vpp.
        group: Microbatch group of interleaved_1f1b: None is pp, 0 is to choose it, among six at most.
        objective: What is to be small.
        min_layers: How many decoder layers each stage has at least. None is one for the stages that hold nothing else, and none for those
            that hold the embedding, MTP layers or the loss; 0 lets any stage be empty.
        unit: Layers that are not parted: a stage starts only behind a multiple of this many.
        final_norm: Whether the layout says where the final norm is; it is where it is implied.
        depth: How many actions ahead of its use a receive is posted; only memory depends on it.

    Raises:
        ValueError: A number is out of its range, or two of them do not fit each other.
    """

    costs: Costs
    num_layers: int
    pp: int
    microbatches: int
    mtp_num_layers: int = 0
    vpp: int | None = 1
    schedule: str | None = None
    placement: str = "loop"
    owners: tuple[int, ...] | None = None
    group: int | None = None
    objective: Objective = "makespan"
    min_layers: int | None = None
    unit: int = 1
    final_norm: bool = False
    depth: int = 1

    def __post_init__(self) -> None:
        numbers = (
            ("num_layers", self.num_layers, 0),
            ("pp", self.pp, 1),
            ("microbatches", self.microbatches, 1),
            ("mtp_num_layers", self.mtp_num_layers, 0),
            ("vpp", self.vpp, 1),
            ("group", self.group, 0),
            ("min_layers", self.min_layers, 0),
            ("unit", self.unit, 1),
            ("depth", self.depth, 0),
        )
        for name, value, least in numbers:
            if value is not None and value < least:
                raise ValueError(f"{name} is {value}, not an integer from {least}")
        if self.schedule not in {None, *NAMES}:
            raise ValueError(f"unknown schedule {self.schedule!a}; there are {', '.join(NAMES)}")
        if self.placement not in _PLACEMENTS:
            raise ValueError(f"unknown placement {self.placement!a}; there are {', '.join(_PLACEMENTS)}")
        if self.objective not in {"makespan", "span"}:
            raise ValueError(f"unknown objective {self.objective!a}; there are makespan, span")
        if self.owners is not None and {*self.owners} != {*range(self.pp)}:
            raise ValueError(f"owners name other ranks than 0 to {self.pp - 1}, or not all of them")
        if self.costs.num_layers not in {None, self.num_layers}:
            raise ValueError(
                f"the costs are those of {plural(self.costs.num_layers or 0, 'decoder layer')}, the model has {self.num_layers}"
            )
        if self.costs.layers and max(self.costs.layers) >= self.num_layers:
            raise ValueError(f"layers.{max(self.costs.layers)}: there is no such layer, the model has {self.num_layers}")

    @property
    def units(self) -> int:
        """Number of pieces that are not parted."""
        return -(-self.num_layers // self.unit)
