"""What makes a layout mean something that cannot be: each takes a valid case, and gives stages and sizes that do not fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ppdsl.planning.plan import PlanPlacement
    from ppdsl.strategies.cases import LayoutCase

Mutated = tuple[list[str], "Mapping[str, int | None]"]
"""The stages, and the sizes to check them with other than those of the case, or None where a size is to be left open."""


@dataclass(frozen=True, slots=True)
class MeaningFault:
    """A way to break the meaning of a layout.

    Attributes:
        mutate: Breaks a case.
        placements: The placements under which it can be done.
        min_pp: The fewest ranks with which it can be done.
        min_vpp: The fewest chunks on a rank with which it can be done.
    """

    mutate: Callable[[st.DrawFn, LayoutCase], Mutated]
    placements: tuple[PlanPlacement, ...] = ("loop", "v", "owners")
    min_pp: int = 1
    min_vpp: int = 1


def _without(case: LayoutCase, kinds: str) -> list[str]:
    return ["".join(symbol for symbol in stage if symbol not in kinds) for stage in case.stages]


def _any_stage(draw: st.DrawFn, case: LayoutCase) -> int:
    return draw(st.integers(0, len(case.stages) - 1))


def _indivisible(draw: st.DrawFn, case: LayoutCase) -> Mutated:
    stages = [*case.stages]
    stages.insert(draw(st.integers(1, max(1, len(stages) - 1))), "")
    return stages, {}


def _wrong_layer_count(draw: st.DrawFn, case: LayoutCase) -> Mutated:
    return [*case.stages], {"num_layers": draw(st.integers(0, 99).filter(lambda count: count != case.num_layers))}


def _embeddings(draw: st.DrawFn, case: LayoutCase) -> Mutated:
    stages = [*case.stages]
    stages[0] = stages[0].replace("E", draw(st.sampled_from(("", "EE", "EEE"))))
    return stages, {}


def _losses(draw: st.DrawFn, case: LayoutCase) -> Mutated:
    stages = [*case.stages]
    stages[-1] = stages[-1].replace("L", draw(st.sampled_from(("", "LL", "LLL"))))
    return stages, {}


def _layer_before_embedding(draw: st.DrawFn, case: LayoutCase) -> Mutated:
    stages = [*case.stages]
    stages[0] = draw(st.sampled_from("tmN")) + stages[0]
    return stages, {}


def _layer_behind_loss(draw: st.DrawFn, case: LayoutCase) -> Mutated:
    stages = [*case.stages]
    stages[-1] += draw(st.sampled_from("tmN"))
    return stages, {}


def _early_mtp(draw: st.DrawFn, case: LayoutCase) -> Mutated:
    stages = [*case.stages]
    at = _any_stage(draw, case)
    stages[0] = "Em" + stages[0][1:]
    stages[at] = stages[at][:-1] + "tL" if at == len(stages) - 1 else stages[at] + "t"
    return stages, {}


def _wrong_mtp_count(draw: st.DrawFn, case: LayoutCase) -> Mutated:
    return [*case.stages], {"mtp_num_layers": draw(st.integers(0, 99).filter(lambda count: count != case.mtp_num_layers))}


def _scattered_mtp(draw: st.DrawFn, case: LayoutCase) -> Mutated:
    stages = _without(case, "m")
    at = draw(st.integers(0, len(stages) - 2))
    stages[at] += "m"
    stages[-1] = stages[-1].replace("L", "mL")
    return stages, {}


def _mtp_before_last_chunk(draw: st.DrawFn, case: LayoutCase) -> Mutated:
    stages = _without(case, "m")
    early = [number for number, owner in enumerate(case.owners) if owner in case.owners[number + 1 :]]
    stages[draw(st.sampled_from(early))] += "m"
    return stages, {}


def _wrong_vpp(draw: st.DrawFn, case: LayoutCase) -> Mutated:
    return [*case.stages], {"vpp": draw(st.integers(1, 99).filter(lambda vpp: vpp != case.vpp))}


def _norms(draw: st.DrawFn, case: LayoutCase) -> Mutated:
    stages = _without(case, "NL")
    way = draw(st.sampled_from(("two", "before t", "behind m", "behind L")))
    if way == "two":
        stages[-1] += "NNL"
    elif way == "before t":
        stages[0] = "EN" + stages[0][1:]
        stages[-1] += "tL"
    elif way == "behind m":
        stages[-1] += "mNL"
    else:
        stages[-1] += "LN"
    return stages, {}


def _outer_stages(draw: st.DrawFn, case: LayoutCase) -> Mutated:
    empty = [""] * case.pp
    return ([*empty, *case.stages] if draw(st.booleans()) else [*case.stages, *empty]), {}


def _owner_range(draw: st.DrawFn, case: LayoutCase) -> Mutated:
    sizes = range(max(1, case.pp - 3), case.pp + 9)
    return [*case.stages], {"pp": draw(st.sampled_from([pp for pp in sizes if pp != case.pp]))}


MEANING_FAULTS = {
    "PP301": MeaningFault(_indivisible, ("loop", "v"), min_pp=2),
    "PP302": MeaningFault(_wrong_layer_count),
    "PP303": MeaningFault(_embeddings),
    "PP304": MeaningFault(_losses),
    "PP305": MeaningFault(_layer_before_embedding),
    "PP306": MeaningFault(_layer_behind_loss),
    "PP307": MeaningFault(_early_mtp),
    "PP308": MeaningFault(_wrong_mtp_count),
    "PP309": MeaningFault(_scattered_mtp, min_pp=2),
    "PP310": MeaningFault(_mtp_before_last_chunk, min_vpp=2),
    "PP311": MeaningFault(_wrong_vpp),
    "PP312": MeaningFault(_norms),
    "PP313": MeaningFault(_outer_stages, ("loop", "v")),
    "PP314": MeaningFault(_owner_range, ("owners",)),
}
