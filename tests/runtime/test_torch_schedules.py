"""The peer runs our schedules: torch.distributed.pipelining, given the compute-only CSV, computes what one process computes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ppdsl import compile_layout
from ppdsl.costs import read_costs
from ppdsl.schedules import Schedule, make_schedule, read_csv, write_csv
from tests.runtime.launching import run_torchrun

pytestmark = [pytest.mark.torchrun, pytest.mark.xdist_group("torchrun")]

WORKER = Path(__file__).with_name("torch_csv_worker.py")
SECONDS = 180
"""Until the ranks are killed: they need about ten on a machine that has nothing else to do."""


class Case(NamedTuple):
    """A schedule by name.

    Attributes:
        name: Its name.
        owners: The rank of each stage, a digit each.
        microbatches: Number of microbatches.
        group: The microbatch group, for interleaved_1f1b.
        split: Whether ``auto`` may split backwards.
    """

    name: str
    owners: str
    microbatches: int
    group: int | None = None
    split: bool = False

    def __str__(self) -> str:
        """Give the name of its test and of its files."""
        group = f"-g{self.group}" if self.group else ""
        return f"{self.name}{'-split' if self.split else ''}-{self.owners}-m{self.microbatches}{group}"


# Left out is what torch's runtime cannot do, whatever the schedule: a rank without any stage (it takes stages[0] for granted, and its
# lowering refuses an empty line), stage 0 frozen or empty under a split backward, tied weights, and a second step upon kept gradients.
# Nor does it take a last stage whose forwards are not in the order of the microbatches, since it looks up the loss of microbatch i as the
# i-th that was computed; no order of ours is like that.
CASES = [
    # a loop, one stage a rank; with fewer microbatches than ranks; and the other way round
    Case("1f1b", "01", 4),
    Case("1f1b", "01", 1),
    Case("1f1b", "10", 5),
    Case("gpipe", "01", 3),
    # a loop with vpp 2 and 3: the previous rank is the next rank, too
    Case("gpipe", "0101", 4),
    Case("gpipe", "010101", 2),
    Case("interleaved_1f1b", "0101", 4),
    Case("interleaved_1f1b", "0101", 5, group=3),
    Case("interleaved_1f1b", "010101", 6, group=4),
    # a V, where neighbouring stages share a rank
    Case("gpipe", "0110", 4),
    Case("auto", "0110", 5),
    # arbitrary owners: an odd one, neighbours on one rank, three in a row, uneven counts
    Case("gpipe", "10010", 3),
    Case("gpipe", "0011", 2),
    Case("gpipe", "110", 4),
    Case("gpipe", "0111001", 3),
    Case("auto", "10010", 4),
    Case("auto", "0111001", 5),
    # input and weight gradients apart
    Case("zb_h1", "01", 4),
    Case("zb_h1", "01", 1),
    Case("zb_h1", "10", 3),
    Case("zb_h2", "01", 4),
    Case("zb_h2", "01", 2),
    Case("zb_v", "0110", 1),
    Case("zb_v", "0110", 3),
    Case("zb_v", "0110", 6),
    Case("auto", "0101", 5, split=True),
    Case("auto", "10010", 4, split=True),
    Case("auto", "0111001", 3, split=True),
]
COSTS = read_costs({"kinds": {"t": {"forward": 1.0, "input_grad": 1.0, "weight_grad": 1.0}}, "p2p_ms": 0.1})


class Outcome(NamedTuple):
    """What came of one case.

    Attributes:
        ranks: What each rank says.
        reference: Losses and gradients of one process.
    """

    ranks: list[dict[str, Any]]
    reference: dict[str, Any]


def make(case: Case) -> Schedule:
    """Make the schedule the way users do: from a layout."""
    stages = ["t"] * len(case.owners)
    stages[0] = f"E{stages[0]}"
    stages[-1] = f"{stages[-1]}L"
    plan = compile_layout("|".join(f"{stage}@{owner}" for stage, owner in zip(stages, case.owners, strict=True)), pp=2)
    return make_schedule(plan, case.name, case.microbatches, group=case.group, costs=COSTS if case.split else None)


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    """Run all cases, in one launch: it is torch's start that takes the time."""
    folder = tmp_path_factory.mktemp("schedules")
    for case in CASES:
        (folder / f"{case}.csv").write_text(write_csv(make(case).ranks), encoding="utf-8")
    told = {str(case): {"owners": [int(owner) for owner in case.owners], "microbatches": case.microbatches} for case in CASES}
    (folder / "cases.json").write_text(json.dumps(told), encoding="utf-8")
    run_torchrun(WORKER, [str(folder), str(SECONDS / 2)], 2, SECONDS)
    *ranks, reference = (json.loads((folder / f"{who}.json").read_text(encoding="utf-8")) for who in ("rank0", "rank1", "reference"))
    return {str(case): Outcome([rank[str(case)] for rank in ranks], reference[str(case)]) for case in CASES}


@pytest.mark.parametrize("case", CASES, ids=str)
def test_torch_gives_the_losses_and_gradients_of_one_process(case: Case, outcomes: dict[str, Outcome]) -> None:
    ranks, reference = outcomes[str(case)]
    gradients = [rank["gradients"] for rank in ranks]
    assert [{int(name.split(".")[0]) for name in of_rank} for of_rank in gradients] == [{*make(case).stages_of(rank)} for rank in range(2)]
    found = gradients[0] | gradients[1]
    assert found.keys() == reference["gradients"].keys()
    for name, expected in reference["gradients"].items():
        assert max(map(abs, expected)) > 1e-4, f"the gradient of {name} says nothing"
        assert found[name] == pytest.approx(expected, rel=1e-12, abs=1e-14), name
    assert len(reference["losses"]) == case.microbatches
    assert ranks[int(case.owners[-1])]["losses"] == pytest.approx(reference["losses"], rel=1e-12)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_torch_reads_the_csv_as_it_was_meant(case: Case, outcomes: dict[str, Outcome]) -> None:
    schedule = make(case)
    for rank in outcomes[str(case)].ranks:
        assert read_csv(rank["csv"]) == schedule.ranks
        assert tuple(rank["owners"]) == schedule.owners


def test_backwards_are_whole_and_split() -> None:
    kinds = {case: "".join(sorted({action.kind for rank in make(case).ranks for action in rank})) for case in CASES}
    assert {kinds[case] for case in CASES if case.split or case.name.startswith("zb")} == {"FIW"}
    assert {kinds[case] for case in CASES if not case.split and not case.name.startswith("zb")} == {"BF"}
