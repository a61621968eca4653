"""Runs that start from files: weights of either kind, and tokens."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("torch")  # the runtime is tested where torch is among the tests' requirements

import numpy as np
from safetensors.torch import save_file

from ppdsl_runtime.comparing import compare_runs
from ppdsl_runtime.models import ChunkBuilder, build_reference, named_global_parameters, read_shape
from tests.runtime.command_runs import command, refused
from tests.runtime.llmc_files import GPT2, draw_gpt2, write_gpt2

if TYPE_CHECKING:
    from tests.runtime.command_runs import Command

__all__ = ["command"]

RUN = ("--seq", "8", "--global-batch-size", "4", "--steps", "2", "--quiet")


def write_folder(folder: Path, *, without: str = "") -> str:
    """Write the weights that gpt2-tiny has by chance with seed 5, but for one, as the library transformers does."""
    folder.mkdir()
    model = build_reference(ChunkBuilder(read_shape("gpt2-tiny"), seed=5))
    weights = {name: weight.detach() for name, weight in named_global_parameters([model]).items() if name != without}
    save_file(weights, folder / "model.safetensors")
    sizes = {"n_layer": 4, "n_embd": 32, "n_head": 4, "vocab_size": 256, "n_positions": 128}
    (folder / "config.json").write_text(json.dumps({"model_type": "gpt2", "tie_word_embeddings": False, **sizes}))
    return str(folder)


def outputs(folder: Path) -> tuple[str, ...]:
    return ("--log", str(folder / "log.jsonl"), "--dump-gradients", str(folder))


def test_a_run_starts_from_a_safetensors_folder(command: Command, tmp_path: Path) -> None:
    weights = write_folder(tmp_path / "weights")
    assert command("reference", *RUN, "--seed", "5", *outputs(tmp_path / "random")).code == 0
    for number, model in enumerate(((), ("--model", "gpt2-tiny"))):
        there = tmp_path / f"{number}"
        assert command("train", "Ett|ttNL", "--weights", weights, *model, *RUN, *outputs(there)).code == 0
        comparison = compare_runs(tmp_path / "random", there)
        assert comparison.within(1e-6, 0), comparison.to_text(1e-6, 0)


def test_weights_of_another_model_are_refused(command: Command, tmp_path: Path) -> None:
    weights = write_folder(tmp_path / "weights")
    for name in ("train Et*4NL", "reference", "profile"):
        arguments = (*name.split(), "--weights", weights, "--model", "gpt2-tiny,layers=6")
        assert command(*arguments) == refused(f"{weights} has layers = 4, the model 6")


def test_a_weight_that_is_not_there_is_told_in_a_line(command: Command, tmp_path: Path) -> None:
    weights = write_folder(tmp_path / "weights", without="transformer.h.3.ln_1.weight")
    text = f"{weights} has no weight transformer.h.3.ln_1.weight"
    assert command("reference", "--weights", weights, *RUN) == refused(text)
    code, _, err = command("train", "Ett|ttNL", "--weights", weights, *RUN)
    assert (code, err) == (2, f"error: {text}\n")


def test_weights_of_another_form_are_told_in_a_line(command: Command, tmp_path: Path) -> None:
    folder = Path(write_folder(tmp_path / "weights"))
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "vocab_size": 300}))
    assert command("reference", "--weights", str(folder), *RUN) == refused(
        "transformer.wte.weight has the shape [256, 32] in the weights, the model needs [300, 32]"
    )


def test_a_run_starts_from_an_llmc_checkpoint_and_llmc_tokens(command: Command, tmp_path: Path) -> None:
    weights, data = tmp_path / "gpt2.bin", tmp_path / "tokens.bin"
    write_gpt2(weights, draw_gpt2())
    tokens = np.random.default_rng(0).integers(0, GPT2["vocab"], 100)
    header = np.zeros(256, "<i4")
    header[:3] = 20240520, 1, len(tokens)
    data.write_bytes(header.tobytes() + tokens.astype("<u2").tobytes())
    run = ("--weights", str(weights), "--data", str(data), "--seq", "5", "--global-batch-size", "4", "--steps", "6", "--quiet")
    for folder, start in (("one", ("reference",)), ("other", ("train", f"E|t*{GPT2['layers']}NL"))):
        assert command(*start, *run, *outputs(tmp_path / folder)).code == 0
    comparison = compare_runs(tmp_path / "one", tmp_path / "other")
    assert comparison.within(1e-5, 0), comparison.to_text(1e-5, 0)
    assert len(comparison.losses) == 6


def test_a_model_is_given_as_json(command: Command) -> None:
    shape = replace(read_shape("llama-tiny"), layers=2)
    code, out, _ = command("train", "EttNL", *RUN, "--model", json.dumps(shape.to_json()))
    assert (code, out.splitlines()[0]) == (0, "EttNL")
