"""What layers cost, measured, and the costs file made of it, which the compiler reads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

torch = pytest.importorskip("torch")  # the runtime is tested where torch is among the tests' requirements

from torch import distributed as dist  # noqa: E402 -- it comes with torch

from ppdsl.cli.program import run as run_ppdsl  # noqa: E402 -- in one block with what needs torch
from ppdsl.costs import read_costs  # noqa: E402 -- the same
from ppdsl_runtime.models import ChunkBuilder, read_shape  # noqa: E402 -- it loads torch
from ppdsl_runtime.profiling import KindCosts, Workload, measure_link, profile_kinds, write_costs  # noqa: E402 -- the same
from ppdsl_runtime.profiling.saving import Saved, Workspace, bytes_of  # noqa: E402 -- the same
from ppdsl_runtime.training.worlds import open_world, read_world  # noqa: E402 -- the same
from tests.runtime.command_runs import command, misused, refused  # noqa: E402 -- the same

if TYPE_CHECKING:
    from tests.runtime.command_runs import Command

__all__ = ["command"]

FULL = Path("/dev/full")
SMALL = ("--samples", "3", "--seq", "8")


def test_costs_are_written_as_the_compiler_reads_them(command: Command, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "new" / "costs.json"
    assert command("profile", *SMALL, "--model", "llama-tiny,mtp_layers=1", "--batch", "2", "-o", str(file)) == (0, "", "")
    document = json.loads(file.read_text())
    assert [*document] == ["schema_version", "kinds", "p2p_ms", "bytes_per_param"]
    assert [*document["kinds"]] == ["E", "t", "m", "N", "L"]
    assert (document["p2p_ms"], document["bytes_per_param"]) == (0.0, 16)
    costs = read_costs(file.read_text())
    assert costs.kinds["t"].forward > 0
    layout = ["simulate", "Et*2|t*2NmL", "--pp", "2", "--microbatches", "4", "--costs", str(file)]
    assert run_ppdsl(layout) == 0
    assert (
        run_ppdsl(["suggest", "--num-layers", "4", "--mtp-num-layers", "1", "--pp", "2", "--microbatches", "4", "--costs", str(file)]) == 0
    )
    capsys.readouterr()


def test_costs_go_to_standard_output(command: Command) -> None:
    code, out, err = command("profile", *SMALL, "--dtype", "bf16", "--dropout", "0.1", "-o", "-")
    assert (code, err) == (0, "")
    assert json.loads(out)["bytes_per_param"] == 2 + 2 + 4 + 8
    assert [*json.loads(out)["kinds"]] == ["E", "t", "N", "L"]


def test_what_cannot_be_profiled_is_refused(command: Command, tmp_path: Path) -> None:
    for samples, warmup in (("1", "1"), ("3", "4")):
        text = f"{samples} samples are too few to drop the first {warmup}"
        assert command("profile", "--samples", samples, "--warmup-samples", warmup) == refused(text)
    assert command("profile", "--seq", "1000") == refused("--seq is 1,000, the model has 128 positions")
    assert command("profile", "-o", str(tmp_path)) == refused(f"{tmp_path}: is a directory")
    assert command("profile", "--data", "x") == misused("profile", "no such option --data")
    text = "--weights and --output name the same file"
    assert command("profile", "--weights", str(tmp_path), "-o", str(tmp_path)) == misused("profile", text)
    text = "invalid value for '--samples': 0 is not in the range x>=1"
    assert command("profile", "--samples", "0") == misused("profile", text)


@pytest.mark.skipif(not FULL.exists(), reason="the system has no full device, so this is not known to end well")
def test_costs_that_cannot_be_written_are_printed(command: Command) -> None:
    code, out, err = command("profile", *SMALL, "--dtype", "fp64", "-o", str(FULL))
    assert (code, err) == (2, f"error: cannot write '{FULL}': no space left on device\n")
    assert json.loads(out)["bytes_per_param"] == 8 + 8 + 16


def test_each_kind_is_measured() -> None:
    shape = read_shape("gpt2-tiny")
    found = profile_kinds(ChunkBuilder(shape), Workload(2, 8, samples=3))
    assert {kind: costs.params for kind, costs in found.items()} == {
        "E": (256 + 128) * 32,
        "t": 12 * 32 * 32 + 13 * 32,
        "N": 64,
        "L": 256 * 32,
    }
    for costs in found.values():
        assert min(costs.forward, costs.backward) > 0
        assert costs.input_grad + costs.weight_grad == pytest.approx(costs.backward)
    # the four products put off in a layer keep their inputs, of 1, 1, 1 and 4 times the hidden size, and gradients of 3, 1, 4 and 1
    assert found["t"].activation_bytes_after_input_grad == 2 * 8 * 32 * 4 * (7 + 9)
    assert found["E"].activation_bytes_after_input_grad == 0
    assert found["N"].activation_bytes_after_input_grad == 0
    assert found["t"].activation_bytes > found["N"].activation_bytes > 0


def test_memory_grows_with_the_batch() -> None:
    builder = ChunkBuilder(read_shape("gpt2-tiny"))
    one, two = (profile_kinds(builder, Workload(batch, 8, samples=2))["t"].activation_bytes for batch in (1, 2))
    assert 1.9 * one < two <= 2 * one


def test_a_kind_that_the_model_has_not_is_left_out() -> None:
    assert [*profile_kinds(ChunkBuilder(read_shape("gpt2-tiny,layers=0")), Workload(1, 4, samples=2))] == ["E", "N", "L"]


@pytest.mark.parametrize(("samples", "warmup"), [(1, 1), (0, 0), (3, -1)])
def test_a_workload_without_samples_is_refused(samples: int, warmup: int) -> None:
    with pytest.raises(ValueError, match=f"^{samples} samples are too few to drop the first {warmup}$"):
        profile_kinds(ChunkBuilder(read_shape("gpt2-tiny")), Workload(1, 4, samples, warmup))


def test_costs_are_the_medians_over_the_ranks() -> None:
    ranks = [{"t": KindCosts(forward, 2.0, 1.5, 0.5, 10, 100, 50, 70)} for forward in (1.0, 5.0, 2.0)]
    document = write_costs(ranks, 0.25, 16)
    times: dict[str, Any] = {"forward": 2.0, "input_grad": 1.5, "weight_grad": 0.5}
    sizes = {"params": 10, "activation_bytes": 100, "activation_bytes_after_input_grad": 50, "workspace_bytes": 70}
    assert document == {"schema_version": "1.0", "kinds": {"t": {**times, **sizes}}, "p2p_ms": 0.25, "bytes_per_param": 16}


def test_a_lone_rank_has_no_link() -> None:
    with open_world(read_world("cpu", {}), 5.0):
        assert measure_link(100, torch.device("cpu")) == 0.0
    assert not dist.is_initialized()


def test_what_is_saved_counts_once_and_without_parameters() -> None:
    weight = torch.nn.Parameter(torch.ones(4, 4))
    value = torch.ones(8, 4, requires_grad=True)
    saved = Saved([weight])
    with saved:
        product = value @ weight
        output = (product * product).sum()
    assert saved.bytes == 2 * 8 * 4 * 4  # the input, and the product once
    output.backward()
    assert weight.grad is not None
    assert bytes_of([value, value[:2], weight]) == 8 * 4 * 4 + 4 * 4 * 4


def test_what_is_held_is_followed_operation_by_operation() -> None:
    weight = torch.nn.Parameter(torch.ones(4, 4))
    workspace = Workspace([weight])
    with workspace:
        first = torch.ones(100) + 1  # two of 400 bytes
        del first
        second = torch.zeros(50)
        view = second[:10]
        weight.detach().mul_(1.0)
    assert workspace.most == 800
    assert workspace.held == 200
    assert view.numel() == 10


def test_the_head_works_on_twice_the_logits() -> None:
    """The backward of the loss makes the gradients of the log-probabilities and of the logits."""
    found = profile_kinds(ChunkBuilder(read_shape("gpt2-tiny")), Workload(2, 8, samples=2))
    logits, hidden = 2 * 8 * 256 * 4, 2 * 8 * 32 * 4
    assert 2 * logits < found["L"].workspace_bytes < 2 * logits + hidden
    assert found["L"].workspace_bytes > found["N"].workspace_bytes > 0
