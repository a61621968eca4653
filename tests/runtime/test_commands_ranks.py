"""The commands under torchrun: what is said once, what is written, and how a run ends that cannot be made."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("torch")  # the runtime is tested where torch is among the tests' requirements

import ppdsl_runtime
from ppdsl.costs import read_costs
from ppdsl_runtime.comparing import compare_runs, read_losses
from tests.runtime.command_runs import command
from tests.runtime.launching import run_torchrun
from tests.test_drawing_traces import import_trace, round_to_ns

if TYPE_CHECKING:
    from collections.abc import Sequence
    from subprocess import CompletedProcess

    from tests.runtime.command_runs import Command

__all__ = ["command"]

pytestmark = [pytest.mark.torchrun, pytest.mark.xdist_group("torchrun")]

PROGRAM = Path(ppdsl_runtime.__file__).with_name("__main__.py")
WORKER = Path(__file__).with_name("commands_worker.py")
SECONDS = 120
RUN = ["--device", "cpu", "--seq", "8", "--global-batch-size", "8", "--quiet"]
Case = tuple[list[str], list[str] | None]


def launch(folder: Path, ranks: int, cases: Sequence[Case]) -> CompletedProcess[str]:
    """Do all cases in one launch."""
    file = folder / "cases.json"
    file.write_text(json.dumps(cases), encoding="utf-8")
    return run_torchrun(WORKER, [str(file)], ranks, SECONDS, check=False)


def said(text: str, rank: int) -> list[str]:
    """Give the lines of one rank, without those of torch."""
    lines = [line.partition("] ")[2] for line in text.splitlines() if line.startswith(f"[{rank}] ")]
    return [line for line in lines if not line.startswith(("[W", "frame #"))]


def test_a_run_of_two_ranks(command: Command, tmp_path: Path) -> None:
    files = {name: str(tmp_path / f"{name}.json") for name in ("trace", "profile")}
    outputs = ["--jsonl", str(tmp_path / "two" / "log.jsonl"), "--dump_gradients", str(tmp_path / "two")]
    arguments = ["train", "E t | t t,t N L", "--steps", "3", *RUN, *outputs, "--trace", files["trace"], "--profile", files["profile"]]
    done = run_torchrun(PROGRAM, arguments, 2, SECONDS)
    lines = said(done.stdout, 0)
    assert lines[:4] == ["Et|t*3NL", "rank  vpp 0", "   0  0: Et [0]", "   1  1: t*3NL [1-3]"]
    assert said(done.stdout, 1) == []
    assert said(done.stderr, 0) == [
        "warning[PP602]: rank 1 carries 3 decoder layers, 1.50 times the mean of 2.00",
        *("  --> <layout>:1:7", "   |", " 1 | E t | t t,t N L", "   |       ^^^^^^^^^"),
    ]
    assert said(done.stderr, 1) == []
    first, *_, last = read_losses(tmp_path / "two" / "log.jsonl").values()
    assert lines[4:7] == [f"loss {first:.4f} at step 1, {last:.4f} at step 3", "", "stage  rank  forward ms  backward ms"]
    assert [line.split()[:2] for line in lines[7:9]] == [["0", "0"], ["1", "1"]]
    assert re.fullmatch(r"bottleneck: rank [01], \d+\.\d{3} ms of work in a step of \d+\.\d{3} ms", lines[9])
    assert re.fullmatch(r"imbalance \d+\.\d%, fill and drain \d+\.\d%", lines[10])
    check_trace(Path(files["trace"]), 4)
    assert [stage["pp_rank"] for stage in json.loads(Path(files["profile"]).read_text())["stages"]] == [0, 1]
    one = tmp_path / "one"
    assert command("reference", *RUN, "--steps", "3", "--log", str(one / "log.jsonl"), "--dump-gradients", str(one)).code == 0
    comparison = compare_runs(one, tmp_path / "two")
    assert comparison.within(1e-5, 0), comparison.to_text(1e-5, 0)


def check_trace(file: Path, microbatches: int) -> None:
    """See that a trace has each action, and an arrow for each transfer, which none of its readers refuses."""
    slices, arrows = import_trace(json.loads(file.read_text())["traceEvents"], round_to_ns)
    names = [f"{stage}{kind}{batch}" for stage in (0, 1) for kind in "FB" for batch in range(microbatches)]
    assert sorted(place[2] for place, _ in slices) == sorted(names)
    transfers = [(f"{one}{kind}{batch}", f"{1 - one}{kind}{batch}") for one, kind in ((0, "F"), (1, "B")) for batch in range(microbatches)]
    assert sorted((tail[2], head[2]) for tail, head in arrows) == sorted(transfers)
    assert all(head[1] >= tail[1] for tail, head in arrows)


def test_what_is_refused_is_said_once(tmp_path: Path) -> None:
    nowhere = str(tmp_path / "none")
    cases: list[tuple[list[str], str, int]] = [
        (["train", "Et*4NL"], "error[PP301]: 1 stage cannot be dealt to 2 ranks: not a multiple", 1),
        (["train", "E|t|t*3|NL", "--pp", "4"], "error: the layout has 4 pipeline ranks, the run has 2 (torchrun --nproc-per-node)", 2),
        (["train", "-"], "error: standard input is shared by all ranks, so the layout cannot come from it (see ", 2),
        (["train", "Ett|ttNL", "--data", nowhere], f"error: {nowhere} cannot be read: no such file or directory", 2),
        (["train", "Ett|ttNL", "--plan", nowhere], "error: --plan and a layout are given; one of them is enough (see ", 2),
        (["train", "Ett|ttNL", "--trace", str(tmp_path)], f"error: {tmp_path}: is a directory", 2),
        (["train", "Ett|ttNL", "--lr", "x"], "error: invalid value for '--lr': 'x' is not a number (see ", 2),
        (["train", "Ett|ttNL", "--device", "cuda"], "error: local rank 0 needs a CUDA device of its own, this host has 0", 2),
        (["train", "--version"], "error: no such option --version (see ", 2),
        (["reference", "--steps", "1"], "error: the reference is one process, but 2 were started", 2),
        (["profile", "--samples", "1"], "error: 1 samples are too few to drop the first 1", 2),
    ]
    done = launch(tmp_path, 2, [(arguments, []) for arguments, _, _ in cases])
    for rank in (0, 1):
        assert said(done.stdout, rank) == [f"case {number} ends with {code}" for number, (_, _, code) in enumerate(cases)]
    errors = [line for line in said(done.stderr, 0) if line.startswith("error")]
    assert [line for line, (_, text, _) in zip(errors, cases, strict=True) if not line.startswith(text)] == []
    assert said(done.stderr, 1) == []


def test_costs_are_measured_on_all_ranks(tmp_path: Path) -> None:
    file = tmp_path / "costs.json"
    done = run_torchrun(PROGRAM, ["profile", "--samples", "2", "--seq", "8", "--device", "cpu", "-o", str(file)], 2, SECONDS)
    assert said(done.stdout, 0) == said(done.stdout, 1) == []
    assert json.loads(file.read_text())["p2p_ms"] > 0
    assert read_costs(file.read_text()).kinds["t"].params == 12704


def test_ranks_that_were_given_different_things_are_told_in_a_line(tmp_path: Path) -> None:
    done = launch(tmp_path, 2, [(["train", "Ett|ttNL", "--steps", "1", *RUN], ["--microbatches", "2"])])
    (line,) = said(done.stderr, 0)
    assert line.startswith("error: the ranks were given different things: microbatches is 4 on rank 0 and 2 on rank 1; ")
    assert said(done.stderr, 1) == []
    assert [said(done.stdout, rank)[-1] for rank in (0, 1)] == ["case 0 ends with 2"] * 2


def test_a_rank_that_leaves_before_it_joins_does_not_keep_the_other(tmp_path: Path) -> None:
    begin = time.monotonic()
    done = launch(tmp_path, 2, [(["train", "Ett|ttNL", "--steps", "1", *RUN], None)])
    assert done.returncode
    assert said(done.stderr, 0) == ["ppdsl: rank 0 was told to stop: waiting for the other ranks to start"]
    assert time.monotonic() - begin < 60  # the timeout is 600 s, and torchrun kills what does not go after 30
