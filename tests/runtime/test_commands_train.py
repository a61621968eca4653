"""``train`` in one process: a layout of one rank, with one stage or several."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

torch = pytest.importorskip("torch")  # the runtime is tested where torch is among the tests' requirements

import numpy as np  # noqa: E402 -- it comes with torch

from ppdsl_runtime.comparing import compare_runs, read_losses  # noqa: E402 -- it loads torch
from ppdsl_runtime.pipeline import build  # noqa: E402 -- the same
from ppdsl_runtime.progress import Progress  # noqa: E402 -- the same
from ppdsl_runtime.training import runs  # noqa: E402 -- the same
from ppdsl_runtime.training.optimizers import Optimizer  # noqa: E402 -- the same
from tests.runtime.command_runs import command, misused, refused  # noqa: E402 -- the same
from tests.test_drawing_traces import import_trace, round_to_ns  # noqa: E402 -- how the format's readers read it

if TYPE_CHECKING:
    from tests.runtime.command_runs import Command

__all__ = ["command"]

FULL = Path("/dev/full")
MODEL = ("--seq", "8", "--global-batch-size", "4", "--model")
TINY = (*MODEL, "gpt2-tiny")
RUN = (*TINY, "--steps", "3", "--quiet")


def outputs(folder: Path) -> list[str]:
    """Give the options that have a run write its losses and gradients."""
    return ["--log", str(folder / "log.jsonl"), "--dump-gradients", str(folder)]


def test_a_run_prints_the_normalised_layout_once(command: Command) -> None:
    code, out, err = command("train", "E t t | t,t*1 N L", *RUN)
    assert (code, err) == (0, "")
    assert out.startswith("Ett|ttNL\nrank  vpp 0         vpp 1\n   0  0: Ett [0-1]  1: ttNL [2-3]\nloss ")
    assert out.count("Ett|ttNL") == 1


def test_progress_goes_to_standard_error(command: Command) -> None:
    _, out, err = command("train", "Et*4NL", *TINY, "--steps", "3")
    assert [line.partition("  ")[0] for line in err.splitlines()] == ["step 1/3", "step 2/3", "step 3/3"]
    assert "step 1/3" not in out


def test_a_run_tells_where_its_time_went(command: Command, tmp_path: Path) -> None:
    _, out, _ = command("train", "Et*2|t*2NL", *RUN, "--log", str(tmp_path / "log.jsonl"), "--color", "never")
    first, *_, last = read_losses(tmp_path / "log.jsonl").values()
    lines = out.splitlines()[3:]
    assert lines[:3] == [f"loss {first:.4f} at step 1, {last:.4f} at step 3", "", "stage  rank  forward ms  backward ms"]
    assert [line.split()[:2] for line in lines[3:5]] == [["0", "0"], ["1", "0"]]
    assert lines[5].startswith("bottleneck: rank 0, ")
    assert lines[6] == "imbalance 0.0%, fill and drain 0.0%"
    assert lines[8].startswith("predicted from the stages' times: ")
    assert any(line.startswith("measured: ") and line.endswith(" ms, the median of 2 steps") for line in lines)
    assert not any("\x1b" in line for line in lines)


def test_a_rank_knows_what_it_does_outside_its_steps(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Progress] = []
    said: list[str] = []
    step = Optimizer.step

    class Kept(Progress):
        def __init__(self) -> None:
            super().__init__()
            made.append(self)

    def note(optimizer: Optimizer) -> None:
        said.append(str(made[0]))
        step(optimizer)

    def note_build(*arguments: Any, **options: Any) -> Any:  # noqa: ANN401 -- as they are
        said.append(str(made[0]))
        return build(*arguments, **options)

    monkeypatch.setattr(runs, "Progress", Kept)
    monkeypatch.setattr(runs, "build", note_build)
    monkeypatch.setattr(Optimizer, "step", note)
    assert command("train", "Et*4NL", *RUN).code == 0
    assert said == ["building the model", *["between steps"] * 3]


def test_a_run_of_one_step_is_measured_too(command: Command, tmp_path: Path) -> None:
    trace, profile = tmp_path / "trace.json", tmp_path / "profile.json"
    code, out, _ = command("train", "Et*4NL", *TINY, "--steps", "1", "--trace", str(trace), "--profile", str(profile))
    assert code == 0
    assert ", the median of 1 step\n" in out
    assert len(json.loads(trace.read_text())["traceEvents"]) == 3 + 2 * 2
    assert json.loads(profile.read_text())["microbatches"] == 2


def test_a_trace_is_read_as_that_of_a_simulation(command: Command, tmp_path: Path) -> None:
    trace = tmp_path / "new" / "trace.json"
    layout = ("Et*4NL", "--schedule", "zb_h1", "--microbatches", "3")
    assert command("train", *layout, *RUN, "--trace", str(trace)).code == 0
    document = json.loads(trace.read_text())
    assert document["traceEvents"][0]["args"]["name"] == "zb_h1, measured"
    slices, arrows = import_trace(document["traceEvents"], round_to_ns)
    assert sorted(place[2] for place, _ in slices) == sorted(f"0{kind}{batch}" for kind in "FIW" for batch in range(3))
    assert not arrows  # one rank sends nothing


def test_a_profile_has_the_stages_times(command: Command, tmp_path: Path) -> None:
    file = tmp_path / "profile.json"
    assert command("train", "Et*2|t*2NL", *RUN, "--profile", str(file)).code == 0
    profile = json.loads(file.read_text())
    assert [*profile] == [
        *("schema_version", "schedule", "microbatches", "step_ms", "predicted_step_ms", "stages"),
        *("busy_ms", "bottleneck", "imbalance", "fill_and_drain"),
    ]
    assert (profile["schema_version"], profile["schedule"], profile["microbatches"]) == ("1.0", "interleaved_1f1b", 2)
    assert [[*stage] for stage in profile["stages"]] == [
        ["stage", "pp_rank", "forward_ms", "backward_ms", "input_grad_ms", "weight_grad_ms"],
    ] * 2
    assert all(stage["forward_ms"] > 0 < stage["backward_ms"] for stage in profile["stages"])
    assert (profile["bottleneck"], profile["imbalance"], len(profile["busy_ms"])) == (0, 0.0, 1)


@pytest.mark.parametrize(
    "layout",
    [
        "Et*4NL --microbatches 4",
        "Et|t||t*2NL --microbatches 3",
        "--uniform --vpp 2 --batch 2",
        "--partition 4 --micro_batch_size 1",
        "--pipeline_chunk_layout 0:1,0:3 --depth 2",
        "--pipeline_layer_costs 1,1,1,1,L:2 --depth 0",
        "--pipeline_model_parallel_layout Ettt|tNL --virtual_pipeline_parallel 2 --checkpoint_activations",
        "Et*4NL --schedule zb_h1 --checkpoint-activations",
        "--num-layers 4 --pp 1 --first-stage-layers 4 --schedule gpipe",
        '--list [["embedding","decoder","decoder"],["decoder","decoder","loss"]]',
    ],
)
def test_any_form_of_a_layout_trains_like_the_reference(command: Command, tmp_path: Path, layout: str) -> None:
    run = (*RUN, "--clip", "0.5", "--weight-decay", "0.1")
    one, other = tmp_path / "one", tmp_path / "other"
    assert command("reference", *run, *outputs(one)).code == 0
    answer = command("train", *layout.split(), *run, *outputs(other))
    assert answer.code == 0, answer.err
    comparison = compare_runs(one, other)
    assert comparison.within(1e-5, 0), comparison.to_text(1e-5, 0)
    assert len(comparison.tensors) == 53
    assert len(comparison.losses) == 3


@pytest.mark.parametrize(
    ("model", "layout", "options"),
    [
        ("gpt2-tiny,tied=true", "Et*2|t*2NL", ()),
        ("llama-tiny,mtp_layers=2", "Et*4|NmmL", ()),
        ("gpt2-tiny", "Ett|ttNL", ("--dropout", "0.3", "--microbatches", "2")),
        ("gpt2-tiny", "Ett|ttNL", ("--dtype", "bf16")),
        ("gpt2-tiny", "Ett|ttNL", ("--dtype", "fp16", "--fp32-grads")),
        ("gpt2-tiny", "Ett|ttNL", ("--autocast", "fp16", "--optimizer", "sgd")),
    ],
)
def test_any_model_trains_like_the_reference(command: Command, tmp_path: Path, model: str, layout: str, options: tuple[str, ...]) -> None:
    run = (*MODEL, model, "--steps", "2", "--quiet", *options)
    one, other = tmp_path / "one", tmp_path / "other"
    assert command("reference", *run, *outputs(one)).code == 0
    assert command("train", layout, *run, *outputs(other)).code == 0
    near = 1e-5 if not {"--dtype", "--autocast"} & {*options} else 5e-3
    comparison = compare_runs(one, other)
    assert comparison.within(near, 0), comparison.to_text(near, 0)


def test_gradients_kept_in_fp32_are_nearer(command: Command, tmp_path: Path) -> None:
    run = (*MODEL, "gpt2-tiny", "--steps", "1", "--quiet")
    assert command("reference", *run, *outputs(tmp_path / "exact"), "--dtype", "fp64").code == 0
    apart = []
    for name, more in (("short", ()), ("kept", ("--fp32-grads",))):
        options = ("--dtype", "bf16", "--microbatches", "4", *more)
        assert command("train", "Et*4NL", *run, *options, *outputs(tmp_path / name)).code == 0
        comparison = compare_runs(tmp_path / "exact", tmp_path / name)
        apart.append(np.mean([each.absolute for each in comparison.tensors]))
    assert apart[1] < apart[0]


def test_a_layout_comes_from_standard_input_or_a_launch_file(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    launch = tmp_path / "launch.sh"
    launch.write_text("python pretrain.py --pipeline-model-parallel-layout 'Et*2|t*2L' --pipeline-model-parallel-size 1 --num-layers 4\n")
    for arguments in (("--from", str(launch)), (str(launch), "--files")):
        code, out, err = command("train", *arguments, *RUN)
        assert (code, out.splitlines()[0]) == (0, "Ett|ttL"), err
    piped = tmp_path / "piped"
    piped.write_text("# a layout\nEt*4NL\n")
    with piped.open() as stream:
        monkeypatch.setattr("sys.stdin", stream)
        code, out, _ = command("train", "-", *RUN)
    assert (code, out.splitlines()[0]) == (0, "Et*4NL")


@pytest.mark.skipif(not FULL.exists(), reason="the system has no full device, so this is not known to end well")
@pytest.mark.parametrize("option", ["--trace", "--profile"])
def test_a_file_that_cannot_be_written_in_the_end_is_told_beside_the_summary(command: Command, tmp_path: Path, option: str) -> None:
    other = {"--trace": "--profile", "--profile": "--trace"}[option]
    code, out, err = command("train", "Et*4NL", *RUN, option, str(FULL), other, str(tmp_path / "other"))
    assert (code, err) == (2, f"error: cannot write '{FULL}': no space left on device\n")
    assert "\nbottleneck: rank 0, " in out
    assert json.loads((tmp_path / "other").read_text())


@pytest.mark.skipif(not FULL.exists(), reason="the system has no full device, so this is not known to end well")
def test_a_layout_that_cannot_be_printed_ends_the_run_in_a_line(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    with FULL.open("w", encoding="utf-8") as stream:
        monkeypatch.setattr("sys.stdout", stream)
        code, _, err = command("train", "Et*4NL", *RUN)
    assert (code, err) == (2, "error: cannot write the output: no space left on device\n")


def test_files_are_not_written_over_each_other(command: Command, tmp_path: Path) -> None:
    file = str(tmp_path / "file")
    Path(file).write_text("text " * 100)
    for one, other in (("--trace", "--profile"), ("--jsonl", "--trace"), ("--data", "--jsonl"), ("--data", "--profile")):
        assert command("train", "Et*4NL", *RUN, one, file, other, file) == misused("train", f"{one} and {other} name the same file")
    assert command("train", "--from", file, *RUN, "--trace", file) == misused("train", "--from and --trace name the same file")
    assert command("train", file, "--files", *RUN, "--trace", file) == misused("train", "--files and --trace name the same file")
    text = "--trace takes a file, and - is none; one of that name is ./-"
    assert command("train", "Et*4NL", *RUN, "--trace", "-") == misused("train", text)
    assert command("train", "Et*4NL", *RUN, "--trace", str(tmp_path)) == refused(f"{tmp_path}: is a directory")


@pytest.mark.parametrize(
    ("value", "text"),
    [("0", "0, not a number above 0"), ("nan", "nan, not a number above 0"), ("1e300", "1e+300, the most is 1e+09")],
)
def test_a_timeout_that_is_none_is_refused(command: Command, value: str, text: str) -> None:
    assert command("train", "Et*4NL", *RUN, "--timeout", value) == refused(f"--timeout is {text}")
