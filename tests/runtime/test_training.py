"""The main job: models trained under many layouts, in real processes, agree with one process."""

from __future__ import annotations

import json
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING, NamedTuple

import pytest
import torch

from ppdsl.cli.options import normalize_name
from ppdsl_runtime.commands.reference import command as reference
from ppdsl_runtime.commands.runs import choose_settings
from ppdsl_runtime.comparing import compare_runs
from ppdsl_runtime.training.references import train_reference
from tests.runtime.launching import run_torchrun

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ppdsl_runtime.comparing import Comparison

pytestmark = [pytest.mark.torchrun, pytest.mark.xdist_group("torchrun")]

WORKER = Path(__file__).with_name("train_worker.py")
SECONDS = 300
"""Until the ranks are killed."""


class Model(NamedTuple):
    """What is trained.

    Attributes:
        arguments: Of both commands.
        tensors: How many parameters have a gradient.
        loss: How far the losses of the first step may be apart; ten times as much later, where the optimizer has made rounding larger.
        gradient: How far gradients may be apart.
    """

    arguments: str
    tensors: int
    loss: float = 1e-6
    gradient: float = 1e-5


SEED = Model("--model gpt2-small --global-batch-size 4 --seq 64 --steps 2", 101)
"""The small size of the seed project's matrix."""
TINY = Model("--model gpt2-tiny,layers=12 --global-batch-size 8 --seq 32 --steps 3 --optimizer sgd --lr 0.1", 149)
TIED = Model("--model gpt2-tiny,layers=6,tied=true --global-batch-size 6 --seq 16 --steps 3 --clip 0.5", 76)
LLAMA = Model("--model llama-tiny,layers=6,mtp_layers=2 --global-batch-size 6 --seq 16 --steps 3", 0)
DROPOUT = Model("--model gpt2-tiny,layers=4 --global-batch-size 8 --seq 16 --steps 3 --dropout 0.2", 53)
DOUBLE = Model("--model llama-tiny,layers=4,tied=true --global-batch-size 4 --seq 16 --steps 3 --dtype fp64", 0, 1e-12, 1e-12)

FULL = Model("--model gpt2-124m,tied=false --global-batch-size 2 --seq 64 --steps 1 --optimizer sgd", 149, 2e-6)
"""The shape of GPT-2 124M."""
FULL_TIED = Model("--model gpt2-124m --global-batch-size 2 --seq 64 --steps 1 --optimizer sgd", 148, 2e-6)
FullCase = tuple[int, str, Model, str]
FULL_CASES: list[FullCase] = [
    (2, "4 and 8 layers", FULL, "--partition 4,8 --microbatches 2"),
    (2, "two chunks a rank", FULL, "Et*3|t*3|t*3|t*3NL --microbatches 2"),
    (2, "an empty chunk", FULL, "Et*3||t*3|t*6NL --microbatches 2"),
    (2, "owners 0,1,1,0", FULL, "--chunks 0:3,1:3,1:3,0:3 --microbatches 2"),
    (2, "tied", FULL_TIED, "--partition 4,8 --microbatches 2"),
    (4, "four ranks", FULL, "--partition 2,3,4,3 --microbatches 2"),
    (4, "four ranks, tied", FULL_TIED, "--partition 2,3,4,3 --microbatches 2"),
]

CASES: dict[int, dict[str, tuple[Model, str]]] = {
    2: {
        "partition 2,6": (SEED, "--pipeline_layer_partition 2,6"),
        "costs": (SEED, "--pipeline_layer_costs 10,1,1,1,1,1,1,1"),
        "costs with a heavy head": (SEED, "--layer-costs 1,1,1,1,1,1,1,1,L:2"),
        "owned chunks": (SEED, "--pipeline_chunk_layout 0:2,1:2,1:2,0:2"),
        "two chunks a rank": (SEED, "--pipeline_model_parallel_layout Et*2|t*2|t*2|t*2NL --virtual_pipeline_parallel 2"),
        "an empty chunk": (TINY, "Et*3||t*3|t*6NL"),
        "4 and 8 layers": (TINY, "Et*4|t*8NL --schedule gpipe"),
        "zero bubble": (TINY, "Et*4|t*8NL --schedule zb_h1 --microbatches 8"),
        "zero bubble in a v": (TINY, "Et*2|t*4|t*3|t*3NL --placement v --schedule zb_v --microbatches 8 --checkpoint-activations"),
        "tied apart": (TIED, "Et*3|t*3NL --microbatches 6"),
        "tied on one rank": (TIED, "--chunks 0:2,1:2,0:2 --microbatches 3 --schedule auto"),
        "tied, gradients apart": (TIED, "--chunks 0:2,1:2,1:2,0:0 --microbatches 6 --depth 2"),
        "mtp": (LLAMA, "Et*2|t*2|t*2N|mmL --microbatches 6"),
        "mtp, split": (LLAMA, "Et*3|t*3NmmL --microbatches 6 --schedule zb_h2"),
        "uneven microbatches": (LLAMA, "Et*3|t*3NmmL --microbatches 4"),
        "dropout": (DROPOUT, "Et|t|tt|NL --microbatches 4"),
        "double": (DOUBLE, "Et*3|tNL --microbatches 4"),
    },
    4: {
        "partition 1,5,1,1": (SEED, "--partition 1,5,1,1"),
        "one chunk a rank": (TINY, "Et*3|t*3|t*3|t*3NL --microbatches 8"),
        "owners 0,1,1,0 of two, two idle": (TINY, "Et*3@0|t*3@1|t*3@1|t*3@0|@2|NL@3 --microbatches 8"),
        "tied across four": (TIED, "Et|t*2|t*2|tNL --microbatches 3"),
        "mtp across four": (LLAMA, "Et|t|t|t|t|tN|mm|L --microbatches 4"),
        "nothing but E and L": (DROPOUT, "E|t*2|t*2|NL --microbatches 4"),
    },
}


def agree(model: Model, one: Path, other: Path) -> Comparison:
    """Compare two runs: all losses, and all gradients of the first step, none missing."""
    comparison = compare_runs(one, other)
    assert not comparison.only_first
    assert not comparison.only_second
    assert len(comparison.tensors) == model.tensors or not model.tensors
    assert len(comparison.tensors) > 0
    first, *later = comparison.losses  # in the order of the steps
    assert first.within(model.loss, 0.0), comparison.to_text(model.loss, 0.0)
    assert all(each.within(10 * model.loss, 0.0) for each in later), comparison.to_text(10 * model.loss, 0.0)
    assert all(each.within(model.gradient, 0.0) for each in comparison.tensors), comparison.to_text(model.gradient, 0.0)
    return comparison


def outputs(folder: Path) -> list[str]:
    """Give the arguments that have a run write its losses and gradients."""
    return ["--jsonl", str(folder / "log.jsonl"), "--dump-gradients", str(folder), "--device", "cpu", "--quiet"]


def run_reference(model: Model, folder: Path, microbatches: int = 1) -> None:
    """Train in this process."""
    arguments = [*model.arguments.split(), *outputs(folder)]
    with reference.make_context("reference", arguments, token_normalize_func=normalize_name) as context:
        train_reference(choose_settings(context.params), torch.device("cpu"), microbatches)  # type: ignore[arg-type]  # what the command takes


def launch(folder: Path, ranks: int, cases: Sequence[tuple[str, Model, str]], seconds: float = SECONDS) -> None:
    """Train all cases in one launch."""
    listed = [[*layout.split(), *model.arguments.split(), *outputs(folder / name)] for name, model, layout in cases]
    file = folder / "cases.json"
    file.write_text(json.dumps(listed), encoding="utf-8")
    run_torchrun(WORKER, [str(file)], ranks, seconds)


@pytest.fixture(scope="module")
def references(tmp_path_factory: pytest.TempPathFactory) -> dict[Model, Path]:
    """Give the folders of the same models, trained in this process."""
    folders = {}
    for number, model in enumerate((SEED, TINY, TIED, LLAMA, DROPOUT, DOUBLE)):
        folders[model] = tmp_path_factory.mktemp(f"reference-{number}")
        run_reference(model, folders[model], 4 if model is DROPOUT else 1)
    return folders


@pytest.mark.parametrize("ranks", CASES)
def test_every_layout_trains_like_one_process(ranks: int, references: dict[Model, Path], tmp_path: Path) -> None:
    launch(tmp_path, ranks, [(name, *case) for name, case in CASES[ranks].items()])
    for name, (model, _) in CASES[ranks].items():
        agree(model, references[model], tmp_path / name)


@pytest.fixture(scope="module")
def full_references(tmp_path_factory: pytest.TempPathFactory) -> dict[Model, Path]:
    """Give the folders of GPT-2 124M, trained in this process."""
    folders = {}
    for number, model in enumerate((FULL, FULL_TIED)):
        folders[model] = tmp_path_factory.mktemp(f"full-reference-{number}")
        run_reference(model, folders[model])
    return folders


@pytest.mark.slow
@pytest.mark.parametrize("case", FULL_CASES, ids=[case[1] for case in FULL_CASES])
def test_gpt2_124m_trains_like_one_process(case: FullCase, full_references: dict[Model, Path], tmp_path: Path) -> None:
    ranks, name, model, layout = case
    launch(tmp_path, ranks, [(name, model, layout)])
    print(agree(model, full_references[model], tmp_path / name).to_text(model.gradient, 0.0))  # noqa: T201 -- the figures, for who asks
    rmtree(tmp_path / name)  # half a gigabyte
