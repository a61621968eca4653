"""Valid layouts with their sizes, and the plans that they compile to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hypothesis import strategies as st

from ppdsl.compiling import compile_layout
from ppdsl.strategies.spelling import Dialect, Style, spell

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ppdsl.options import Sizes
    from ppdsl.planning import Plan
    from ppdsl.planning.plan import PlanPlacement

_EVERY_PLACEMENT: tuple[PlanPlacement, ...] = ("loop", "v", "owners")


@dataclass(frozen=True, slots=True)
class LayoutCase:
    """A valid layout, and all that is true of it.

    Attributes:
        text: The layout, spelled in one of the many ways there are.
        stages: The symbols of each stage one by one, repeats written out: ``("Ettt", "", "ttL")``. ``N`` is there where it is written.
        pp: Number of pipeline ranks.
        vpp: The largest number of chunks on a rank.
        num_layers: Decoder layers of the model.
        mtp_num_layers: Multi-token-prediction layers of the model.
        placement: ``loop``, ``v`` or ``owners``; owners stand in the text.
        owners: The pipeline rank of each stage.
    """

    text: str
    stages: tuple[str, ...]
    pp: int
    vpp: int
    num_layers: int
    mtp_num_layers: int
    placement: PlanPlacement
    owners: tuple[int, ...]

    @property
    def sizes(self) -> Sizes:
        """The keyword arguments with which ``check_layout`` and ``compile_layout`` accept the text."""
        return {
            "pp": self.pp,
            "vpp": self.vpp,
            "num_layers": self.num_layers,
            "mtp_num_layers": self.mtp_num_layers,
            "placement": None if self.placement == "owners" else self.placement,
        }


@st.composite
def layouts(  # noqa: PLR0913 -- bounds, all by name and each with a default
    draw: st.DrawFn,
    *,
    dialect: Dialect = "ppdsl",
    placements: Sequence[PlanPlacement] = _EVERY_PLACEMENT,
    min_pp: int = 1,
    max_pp: int = 4,
    min_vpp: int = 1,
    max_vpp: int = 3,
    max_layers: int = 4,
    max_mtp_layers: int = 2,
    removals: bool = False,
) -> LayoutCase:
    """Draw valid layouts with their sizes.

    The text is spelled in random ways: repeats of symbols and of patterns, with and without bars; commas; and in the dialect ``ppdsl``
    also nested groups, groups without a count, white space, quotes, shell backslashes, ``N`` and ``@``.

    Args:
        draw: Given by Hypothesis.
        dialect: ``megatron`` keeps to what Megatron-LM's own parser reads, and to the loop.
        placements: The placements to draw from. Stages have owners of their own under ``owners``.
        min_pp: Fewest pipeline ranks.
        max_pp: Most pipeline ranks.
        min_vpp: Fewest chunks on the rank with the most of them.
        max_vpp: Most chunks on a rank.
        max_layers: Most decoder layers in a stage.
        max_mtp_layers: Most multi-token-prediction layers.
        removals: Whether to strew in units that ``*0`` removes.
    """
    placement = "loop" if dialect == "megatron" else draw(st.sampled_from(placements))
    pp = draw(st.integers(min_pp, max_pp))
    vpp = 1 if dialect == "megatron" and pp == 1 else draw(st.integers(min_vpp, max_vpp))
    owners = _draw_owners(draw, pp, vpp, placement)
    counts = _draw_counts(draw, len(owners), max_layers)
    mtp = draw(st.integers(0, max_mtp_layers))
    stages = _draw_stages(draw, counts, mtp, owners, norm=dialect == "ppdsl")
    text = spell(draw, stages, owners if placement == "owners" else None, Style(dialect, removals))
    return LayoutCase(text, tuple(stages), pp, vpp, sum(counts), mtp, placement, tuple(owners))


def _draw_owners(draw: st.DrawFn, pp: int, vpp: int, placement: PlanPlacement) -> list[int]:
    if placement == "owners":
        # One rank has vpp chunks, the others at most as many.
        spare = [rank for rank in range(1, pp) for _ in range(draw(st.integers(0, vpp - 1)))]
        return draw(st.permutations([*range(pp), *[0] * (vpp - 1), *spare]))
    forward, backward = [*range(pp)], [*reversed(range(pp))]
    return [rank for number in range(vpp) for rank in (backward if placement == "v" and number % 2 else forward)]


def _draw_counts(draw: st.DrawFn, stages: int, most: int) -> list[int]:
    """Draw the decoder layers of each stage: the same in all, as in most real layouts, or any."""
    if draw(st.booleans()):
        return [draw(st.integers(0, most))] * stages
    return draw(st.lists(st.integers(0, most), min_size=stages, max_size=stages))


def _draw_stages(draw: st.DrawFn, counts: Sequence[int], mtp: int, owners: Sequence[int], *, norm: bool) -> list[str]:
    """Write the symbols of each stage: its decoder layers, MTP layers and final norm where they may stand, input and output layer."""
    stages = ["t" * count for count in counts]
    last = max((number for number, count in enumerate(counts) if count), default=0)
    last_chunks = [number for number in range(last, len(owners)) if owners[number] not in owners[number + 1 :]]
    behind = draw(st.sampled_from(last_chunks)) if mtp else len(owners) - 1
    if norm and draw(st.booleans()):
        stages[draw(st.integers(last, behind))] += "N"
    stages[behind] += "m" * mtp
    stages[0] = "E" + stages[0]
    stages[-1] += "L"
    return stages


def plans(**bounds: int) -> st.SearchStrategy[Plan]:
    """Draw whole plans: the chunk-ownership tables of random layouts.

    Args:
        bounds: ``min_pp``, ``max_pp``, ``min_vpp``, ``max_vpp``, ``max_layers`` and ``max_mtp_layers``, as ``layouts`` takes them.
    """
    return layouts(**bounds).map(_compile)  # type: ignore[arg-type]  # the bounds that are not numbers keep their defaults


def _compile(case: LayoutCase) -> Plan:
    return compile_layout(case.text, **case.sizes)
