"""A slow and obvious judge of the meaning of layouts. It looks at stages written out, and knows nothing of how ppdsl does it."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from tests.oracles import Stage


class Setting(TypedDict):
    """What a layout is judged against."""

    pp: int | None
    vpp: int | None
    num_layers: int | None
    mtp_num_layers: int | None
    placement: str | None


def judge(stages: list[Stage], setting: Setting) -> set[str]:
    """Give the codes that must be reported: PP301 to PP314, PP316 and PP601 to PP605."""
    layers = "".join(stage.layers for stage in stages)
    owners = owners_of(stages, setting)
    return {
        *judge_order(layers, stages),
        *judge_counts(layers, setting),
        *judge_ranks(stages, owners, setting),
        *judge_advice(stages, owners, setting),
    }


def owners_of(stages: list[Stage], setting: Setting) -> list[int] | None:
    """Give the rank of each stage; None where pp is not known, or where a rank would have more stages than another without owners."""
    written = [stage.owner for stage in stages if stage.owner is not None]
    if written:
        return written
    pp = setting["pp"]
    if pp is None or len(stages) % pp:
        return None
    passes = [list(range(pp))] * (len(stages) // pp)
    if setting["placement"] == "v":
        passes = [ranks if number % 2 == 0 else ranks[::-1] for number, ranks in enumerate(passes)]
    return [rank for ranks in passes for rank in ranks]


def judge_order(layers: str, stages: list[Stage]) -> set[str]:
    """Judge what does not depend on sizes."""
    wrong = {
        "PP303": layers.count("E") != 1,
        "PP304": layers.count("L") != 1,
        "PP305": "E" in layers and layers[0] != "E",
        "PP306": "L" in layers and layers[-1] != "L",
        "PP307": "t" in layers.partition("m")[2],
        "PP309": len([stage for stage in stages if "m" in stage.layers]) > 1,
        "PP312": layers.count("N") > 1 or any(layers.find(late) < layers.find("N") for late in "mL" if late in layers and "N" in layers),
        "PP313": (layers[:1] == "E" and not stages[0].layers) or (layers[-1:] == "L" and not stages[-1].layers),
    }
    if "t" in layers.partition("N")[2]:
        wrong["PP312"] = True
    return {code for code, found in wrong.items() if found}


def judge_counts(layers: str, setting: Setting) -> set[str]:
    """Judge the numbers of layers."""
    wrong = {
        "PP302": setting["num_layers"] not in (None, layers.count("t")),
        "PP308": setting["mtp_num_layers"] not in (None, layers.count("m")),
    }
    return {code for code, found in wrong.items() if found}


def judge_ranks(stages: list[Stage], owners: list[int] | None, setting: Setting) -> set[str]:
    """Judge what depends on the ranks."""
    pp, vpp = setting["pp"], setting["vpp"]
    if owners is None:
        uneven = pp is None and vpp is not None and len(stages) % vpp > 0
        return {"PP301"} if pp is not None else {"PP311"} if uneven else set()
    found = set()
    if set(owners) != set(range(pp or max(owners) + 1)):
        found.add("PP314")
    elif vpp not in (None, max(owners.count(rank) for rank in owners)):
        found.add("PP311")
    mtp = [number for number, stage in enumerate(stages) if "m" in stage.layers]
    if any(owners[number] in owners[number + 1 :] for number in mtp):
        found.add("PP310")
    elif stages[0].owner is None and setting["placement"] != "v" and pp != 1 and any(owners[number] == 0 for number in mtp):
        found.add("PP316")
    return found


def judge_advice(stages: list[Stage], owners: list[int] | None, setting: Setting) -> set[str]:
    """Judge what is legal but worth a word."""
    found = set()
    inner = "".join("." if stage.layers else " " for stage in stages).strip(" ")
    if " " in inner:
        found.add("PP601")
    mtp = [stage.layers for stage in stages if "m" in stage.layers]
    if len(mtp) == 1 and "t" not in mtp[0]:
        found.add("PP605")
    if owners is None or set(owners) != set(range(setting["pp"] or max(owners) + 1)):
        return found
    if setting["vpp"] is None and stages[0].owner is None:
        found.add("PP603")
    loads = [sum(stages[number].layers.count("t") for number in range(len(stages)) if owners[number] == rank) for rank in {*owners}]
    if max(loads) * len(loads) * 4 > sum(loads) * 5:
        found.add("PP602")
    if min(loads) == 0 < sum(loads):
        found.add("PP604")
    return found


def count_empty_runs(stages: list[Stage]) -> int:
    """Count the runs of equal empty stages between layers."""
    inner = [number for number, stage in enumerate(stages) if stage.layers]
    between = stages[inner[0] : inner[-1]] if inner else []
    return len([stage for stage, _ in groupby(between) if not stage.layers])
