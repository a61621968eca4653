from __future__ import annotations

import json
import re
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

torch = pytest.importorskip("torch")  # the runtime is tested where torch and transformers are among the tests' requirements
transformers = pytest.importorskip("transformers")

from safetensors import safe_open  # noqa: E402 -- it comes with transformers
from safetensors.torch import load_file, save_file  # noqa: E402

from ppdsl import compile_layout  # noqa: E402
from ppdsl_runtime.models import ChunkBuilder, RopeScaling, build_reference, open_weights, read_shape, run_chunks  # noqa: E402
from ppdsl_runtime.models import safetensors_folders as folders  # noqa: E402
from ppdsl_runtime.models.gpt2 import make_gpt2_config  # noqa: E402
from ppdsl_runtime.models.llama import make_llama_config  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MODELS = pytest.mark.parametrize("model", ["gpt2-tiny", "gpt2-tiny,tied=true", "llama-tiny", "llama-tiny,tied=true"])
TOKENS = torch.arange(18).reshape(2, 9) * 7


def save(folder: Path, model: str, **options: object) -> Any:  # noqa: ANN401 -- the library's own classes have no types
    """Save a model as the library does, all its numbers drawn."""
    shape = read_shape(model)
    gpt2 = shape.family == "gpt2"
    peer = (transformers.GPT2LMHeadModel if gpt2 else transformers.LlamaForCausalLM)(
        (make_gpt2_config if gpt2 else make_llama_config)(shape)
    )
    generator = torch.Generator().manual_seed(4)
    with torch.no_grad():
        for parameter in peer.parameters():
            parameter.normal_(0.1, 0.1, generator=generator)
    peer.save_pretrained(folder, **options)
    return peer


@MODELS
@pytest.mark.parametrize("size", ["1GB", "40KB"], ids=["one-file", "sharded"])
def test_a_saved_model_computes_the_same(tmp_path: Path, model: str, size: str) -> None:
    peer = save(tmp_path, model, max_shard_size=size)
    assert (tmp_path / "model.safetensors.index.json").exists() == (size == "40KB")
    weights = open_weights(tmp_path)
    assert replace(weights.shape, ffn=None) == replace(read_shape(model), ffn=None)
    assert weights.shape.ffn_size == read_shape(model).ffn_size
    builder = ChunkBuilder(weights.shape, weights)
    for layout in ("Et*4L", "Et|t*3L"):
        chunks = [builder(chunk) for chunk in compile_layout(layout, pp=layout.count("|") + 1).chunks]
        torch.testing.assert_close(run_chunks(chunks, TOKENS), peer(input_ids=TOKENS).logits, atol=1e-5, rtol=1e-5)


def test_the_stretch_of_the_rotary_embedding_is_read(tmp_path: Path) -> None:
    shape = replace(read_shape("llama-tiny"), rope_theta=5e5, rope_scaling=RopeScaling(factor=32.0), max_positions=16384)
    make_llama_config(shape).save_pretrained(tmp_path)
    assert folders.read_folder_shape(tmp_path) == shape


def test_older_files_say_it_in_other_words(tmp_path: Path) -> None:
    scaling = {"rope_type": "llama3", "factor": 8, "low_freq_factor": 1, "high_freq_factor": 4, "original_max_position_embeddings": 8192}
    config = {"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 8, "num_attention_heads": 2, "vocab_size": 9}
    more = {"max_position_embeddings": 16, "intermediate_size": 12, "rope_theta": 7.0, "rope_scaling": scaling}
    (tmp_path / "config.json").write_text(json.dumps({**config, **more}))
    shape = folders.read_folder_shape(tmp_path)
    assert (shape.rope_theta, shape.rope_scaling, shape.kv_head_count, shape.tied, shape.norm_eps) == (7.0, RopeScaling(), 2, False, 1e-6)


def test_names_without_the_trunk_are_found(tmp_path: Path) -> None:
    """The hub's gpt2 was saved from the model without a head."""
    peer = save(tmp_path, "gpt2-tiny,tied=true")
    tensors = load_file(tmp_path / "model.safetensors")
    save_file({name.removeprefix("transformer."): value for name, value in tensors.items()}, tmp_path / "model.safetensors")
    weights = open_weights(tmp_path)
    chunk = build_reference(ChunkBuilder(weights.shape, weights))
    torch.testing.assert_close(chunk(TOKENS), peer(input_ids=TOKENS).logits, atol=1e-5, rtol=1e-5)


def test_only_owned_weights_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(tmp_path, "llama-tiny")
    weights = open_weights(tmp_path)
    builder = ChunkBuilder(weights.shape, weights)
    read: list[str] = []
    plain: Any = safe_open

    @contextmanager
    def watch(*args: Any, **options: Any) -> Iterator[Any]:  # noqa: ANN401 -- as it is called
        with plain(*args, **options) as tensors:

            def get_tensor(name: str) -> object:
                read.append(name)
                return tensors.get_tensor(name)

            yield SimpleNamespace(get_tensor=get_tensor)

    monkeypatch.setattr(folders, "safe_open", watch)
    chunk = builder(compile_layout("Et|tt|tL", pp=3).chunks[1])
    assert chunk is not None
    assert sorted(read) == sorted(name for name, _ in chunk.named_parameters())


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"model_type": "bert"}, "has model_type = 'bert', not one of gpt2, llama"),
        ({"hidden_act": "gelu"}, "has hidden_act = 'gelu', only 'silu' is supported"),
        ({"attention_bias": True}, "has attention_bias = True, only False is supported"),
        ({"quantization_config": {"bits": 8}}, "has quantization_config = {'bits': 8}, only None is supported"),
        ({"head_dim": 16}, ": head_dim is 16, only hidden_size / num_attention_heads is supported"),
        ({"rope_parameters": {"rope_type": "yarn"}}, ": rope_type is 'yarn', only default and llama3 are supported"),
        ({"hidden_size": "x"}, ": hidden is 'x', not an integer from 1"),
        ({"vocab_size": None}, " lacks vocab_size"),
    ],
)
def test_a_config_that_means_another_model_is_refused(tmp_path: Path, changes: dict[str, object], text: str) -> None:
    make_llama_config(read_shape("llama-tiny")).save_pretrained(tmp_path)
    file = tmp_path / "config.json"
    config = {**json.loads(file.read_text()), **changes}
    if "hidden_size" in changes:
        del config["head_dim"]
    file.write_text(json.dumps({name: value for name, value in config.items() if value is not None}))
    with pytest.raises(ValueError, match="^" + re.escape(f"{file}{'' if text[0] in ': ' else ' '}{text}") + "$"):
        folders.read_folder_shape(tmp_path)


def test_a_folder_without_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"config\.json cannot be read: "):
        open_weights(tmp_path)
    make_llama_config(read_shape("llama-tiny")).save_pretrained(tmp_path)
    with pytest.raises(ValueError, match=r"model\.safetensors cannot be read: "):
        open_weights(tmp_path)
    (tmp_path / "config.json").write_text("[]")
    with pytest.raises(ValueError, match=r"config\.json is no JSON object$"):
        open_weights(tmp_path)


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    save(tmp_path, "llama-tiny", max_shard_size="40KB")
    index = tmp_path / "model.safetensors.index.json"
    weights = open_weights(tmp_path)
    file = tmp_path / json.loads(index.read_text())["weight_map"]["model.norm.weight"]
    file.write_bytes(file.read_bytes()[:-8])
    with pytest.raises(ValueError, match=re.escape(f"{file} cannot be read: ")):
        build_reference(ChunkBuilder(weights.shape, weights))
    index.write_text(json.dumps({"weight_map": {"model.norm.weight": "../elsewhere.safetensors"}}))
    with pytest.raises(ValueError, match=r"has no weight_map of file names$"):
        open_weights(tmp_path)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"layers": 5}, "has layers = 4, the model 5"),
        ({"hidden": 64}, "has hidden = 32, the model 64"),
        ({"vocab": 257}, "has vocab = 256, the model 257"),
        ({"family": "gpt2", "kv_heads": None}, "has family = llama, the model gpt2"),
        ({"tied": True}, "has tied = False, the model True"),
        ({"norm_eps": 1e-6}, "has norm_eps = 1e-05, the model 1e-06"),
        ({"rope_theta": 5e5}, "has rope_theta = 10000.0, the model 500000.0"),
        ({"rope_scaling": RopeScaling()}, f"has rope_scaling = None, the model {RopeScaling()}"),
    ],
)
def test_weights_of_another_model_are_refused(tmp_path: Path, changes: dict[str, object], text: str) -> None:
    save(tmp_path, "llama-tiny")
    weights = open_weights(tmp_path)
    with pytest.raises(ValueError, match="^" + re.escape(f"{tmp_path} {text}") + "$"):
        ChunkBuilder(replace(weights.shape, **changes), weights)  # type: ignore[arg-type]  # checked there


def test_a_missing_or_misshapen_weight_is_refused(tmp_path: Path) -> None:
    save(tmp_path, "llama-tiny")
    shape = open_weights(tmp_path).shape
    tensors = load_file(tmp_path / "model.safetensors")
    for value, text in (
        (torch.ones(31), "model.norm.weight has the shape [31] in the weights, the model needs [32]"),
        (torch.ones(32, dtype=torch.int8), "model.norm.weight is torch.int8 in the weights, which is no floating dtype"),
    ):
        save_file({**tensors, "model.norm.weight": value}, tmp_path / "model.safetensors")
        with pytest.raises(ValueError, match="^" + re.escape(text) + "$"):
            build_reference(ChunkBuilder(shape, open_weights(tmp_path)))
    del tensors["model.norm.weight"]
    save_file(tensors, tmp_path / "model.safetensors")
    with pytest.raises(ValueError, match="^" + re.escape(f"{tmp_path} has no weight model.norm.weight") + "$"):
        build_reference(ChunkBuilder(shape, open_weights(tmp_path)))
