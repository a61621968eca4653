"""What a layout is checked against: sizes, placement, target and limits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from operator import index
from typing import TYPE_CHECKING, Literal, TypedDict

if TYPE_CHECKING:
    from typing_extensions import Unpack

Placement = Literal["loop", "v"]
Target = Literal["ppdsl", "megatron", "mindspeed", "infinitrain"]
SCHEDULES = ("gpipe", "1f1b", "interleaved_1f1b", "zb_h1", "zb_h2", "zb_v", "auto")
"""The names of the schedules."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How large a layout may be before it is refused.

    Attributes:
        text: Characters of a layout's text (PP403).
        stages: Stages that may be listed (PP401).
        depth: Groups inside one another (PP402).
    """

    text: int = 65_536
    stages: int = 1_048_576
    depth: int = 200


@dataclass(frozen=True, slots=True)
class Options:
    """The sizes and settings that a layout is checked against. What is None is not known, and not checked.

    Attributes:
        pp: Number of pipeline ranks.
        vpp: Virtual pipeline size, stages / pp.
        num_layers: Decoder layers of the model.
        mtp_num_layers: Multi-token-prediction layers of the model.
        microbatches: Microbatches of one step, on one data-parallel rank.
        microbatch_group_size: Microbatches that a chunk works through before the next takes its turn; pp by default.
        schedule: Name of the schedule; by default 1f1b, interleaved_1f1b where vpp > 1, auto where the placement allows neither.
        placement: ``loop`` or ``v``; None is the default (loop), or the layout's own owners.
        target: The framework that is to read the layout.
        features: Flags of the target that are on, as (name with dashes, value or None).
        tied_embeddings: Whether the lm-head shares the embedding's weight; None is not known.
        limits: How large the layout may be.
    """

    pp: int | None = None
    vpp: int | None = None
    num_layers: int | None = None
    mtp_num_layers: int | None = None
    microbatches: int | None = None
    microbatch_group_size: int | None = None
    schedule: str | None = None
    placement: Placement | None = None
    target: Target = "ppdsl"
    features: tuple[tuple[str, str | None], ...] = ()
    tied_embeddings: bool | None = None
    limits: Limits = field(default_factory=Limits)

    @classmethod
    def of(cls, **sizes: Unpack[Sizes]) -> Options:
        """Make options from sizes by name; what is None, or left out, takes its default.

        Raises:
            TypeError: There is no option of such a name. Values are not looked at here: what is out of range is a diagnostic (PP203).
        """
        given = {name: _whole(value) for name, value in sizes.items() if value is not None}
        given["features"] = _pairs(sizes.get("features"))
        return cls(**given)  # type: ignore[arg-type]  # the names and types are those of Sizes


def _pairs(features: object) -> object:
    """Make pairs of features given as a mapping, or as pairs of any kind; what is neither stays, and is refused later."""
    if features is None:
        return ()
    pairs = features.items() if isinstance(features, Mapping) else features
    if isinstance(pairs, str) or not isinstance(pairs, Iterable):
        return features
    return tuple(tuple(pair) if isinstance(pair, list) else pair for pair in pairs)


def _whole(value: object) -> object:
    """Make an int of what is one in all but type, such as a numpy integer; a bool stays one, and is refused later."""
    if isinstance(value, bool):
        return value
    try:
        return index(value)  # type: ignore[arg-type]  # a TypeError says that it is none
    except TypeError:
        return value


class Sizes(TypedDict, total=False):
    """The fields of ``Options`` as keyword arguments."""

    pp: int | None
    vpp: int | None
    num_layers: int | None
    mtp_num_layers: int | None
    microbatches: int | None
    microbatch_group_size: int | None
    schedule: str | None
    placement: Placement | None
    target: Target
    features: Iterable[tuple[str, str | None]] | Mapping[str, str | None] | None
    tied_embeddings: bool | None
    limits: Limits | None
