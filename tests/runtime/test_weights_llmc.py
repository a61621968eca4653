from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

torch = pytest.importorskip("torch")  # the runtime is tested where torch and transformers are among the tests' requirements
pytest.importorskip("transformers")

import numpy as np  # noqa: E402 -- it comes with torch

from ppdsl import compile_layout  # noqa: E402
from ppdsl_runtime.models import ChunkBuilder, RopeScaling, build_reference, open_weights, run_chunks  # noqa: E402
from ppdsl_runtime.models.llmc_files import LlmcFile  # noqa: E402
from tests.runtime.llmc_files import GPT2, LLAMA, draw_gpt2, draw_llama, run_gpt2, run_llama, write_gpt2, write_llama  # noqa: E402

if TYPE_CHECKING:
    from pathlib import Path

WRITERS = {
    "gpt2": lambda path, version: write_gpt2(path, draw_gpt2(), version),
    "llama": lambda path, version: write_llama(path, draw_llama(), version),
}
VERSIONS = pytest.mark.parametrize("version", [3, 5], ids=["fp32", "bf16"])
FAMILIES = pytest.mark.parametrize("family", ["gpt2", "llama"])


@VERSIONS
@FAMILIES
def test_the_model_computes_what_the_file_means(tmp_path: Path, family: str, version: int) -> None:
    file = tmp_path / "model.bin"
    WRITERS[family](file, version)
    weights = open_weights(file)
    assert isinstance(weights, LlmcFile)
    builder = ChunkBuilder(weights.shape, weights)
    tokens = torch.randint(0, 96, (2, 16), generator=torch.Generator().manual_seed(1))
    wanted = run_gpt2(draw_gpt2(), tokens) if family == "gpt2" else run_llama(draw_llama(), tokens)
    for layout in ("Et*3L", "Et|tt|L"):
        chunks = [builder(chunk) for chunk in compile_layout(layout, pp=layout.count("|") + 1).chunks]
        torch.testing.assert_close(run_chunks(chunks, tokens), wanted, atol=1e-5, rtol=1e-5)


@FAMILIES
def test_the_header_gives_the_sizes(tmp_path: Path, family: str) -> None:
    WRITERS[family](tmp_path / "model.bin", 3)
    shape = open_weights(tmp_path / "model.bin").shape
    sizes = GPT2 if family == "gpt2" else LLAMA
    assert (shape.family, shape.layers, shape.hidden, shape.heads, shape.vocab, shape.max_positions) == (
        family,
        *(sizes[name] for name in ("layers", "hidden", "heads", "vocab", "positions")),
    )
    assert shape.tied == (family == "gpt2")
    assert (shape.ffn_size, shape.kv_head_count) == ((128, 4) if family == "gpt2" else (48, 2))


def test_the_rotary_embedding_is_stretched_where_the_header_says_so(tmp_path: Path) -> None:
    write_llama(tmp_path / "model.bin", draw_llama(), scaled=True)
    shape = open_weights(tmp_path / "model.bin").shape
    assert (shape.rope_theta, shape.rope_scaling) == (500, RopeScaling())


def test_a_padded_vocabulary_is_taken_whole(tmp_path: Path) -> None:
    write_gpt2(tmp_path / "model.bin", draw_gpt2())
    weights = LlmcFile(tmp_path / "model.bin")
    chunk = build_reference(ChunkBuilder(replace(weights.shape, vocab=256), weights))
    assert torch.equal(chunk.trunk["wte"].weight, draw_gpt2()["wte"])


def test_the_header_says_how_far_the_vocabulary_is_padded(tmp_path: Path) -> None:
    file = tmp_path / "model.bin"
    weights = draw_gpt2()
    weights["wte"] = torch.cat((weights["wte"], torch.zeros(64, 32)))
    write_gpt2(file, weights)
    words = np.fromfile(file, dtype="<i4")
    words[7] = 320
    words.tofile(file)
    shape = replace(LlmcFile(file).shape, vocab=320)
    chunk = build_reference(ChunkBuilder(shape, LlmcFile(file)))
    assert torch.equal(chunk.trunk["wte"].weight, weights["wte"])
    assert torch.equal(chunk.trunk["ln_f"].bias, weights["ln_f.bias"])


def test_only_owned_weights_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_gpt2(tmp_path / "model.bin", draw_gpt2())
    weights = LlmcFile(tmp_path / "model.bin")
    builder = ChunkBuilder(weights.shape, weights)
    read: list[int] = []
    plain = np.fromfile

    def count(*args: object, **options: object) -> object:
        value = plain(*args, **options)  # type: ignore[call-overload]  # as it was called
        read.append(value.nbytes)
        return value

    monkeypatch.setattr(np, "fromfile", count)
    chunk = builder(compile_layout("Et|t|tL", pp=3).chunks[1])
    assert chunk is not None
    assert sum(read) == sum(parameter.nbytes for parameter in chunk.parameters())


@VERSIONS
@FAMILIES
@pytest.mark.parametrize("missing", [1, 4096])
def test_a_file_that_is_cut_off_is_refused(tmp_path: Path, family: str, version: int, missing: int) -> None:
    file = tmp_path / "model.bin"
    WRITERS[family](file, version)
    content = file.read_bytes()
    file.write_bytes(content[:-missing])
    with pytest.raises(ValueError, match=re.escape(f"{file} has {len(content) - missing} bytes, ")):
        LlmcFile(file)


def test_a_file_that_is_cut_off_later_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "model.bin"
    write_gpt2(file, draw_gpt2())
    weights = LlmcFile(file)
    file.write_bytes(file.read_bytes()[:-4])
    with pytest.raises(ValueError, match=r"was cut off after it was opened: it ends inside of transformer\.ln_f\.bias$"):
        weights.read("transformer.ln_f.bias", (32,))


@pytest.mark.parametrize(
    ("header", "text"),
    [
        ([1, 3], "begins with 1, not with 20240326 (GPT-2) or 20240803 (LLaMA 3)"),
        ([20240326, 4], "is of version 4, not 3 (fp32) or 5 (bf16)"),
        ([20240326, 3, 16, 250, 3, 5, 32], ": hidden is 32, which is not a multiple of heads = 5"),
        ([20240326, 3, 16, 250, -3, 4, 32], ": layers is -3, not an integer from 0"),
        ([20240803, 3, 16, 96, 3, 4, 3, 32, 1, 16, 0, 500], ": heads is 4, which is not a multiple of kv_heads = 3"),
    ],
)
def test_a_wrong_header_is_refused(tmp_path: Path, header: list[int], text: str) -> None:
    file = tmp_path / "model.bin"
    file.write_bytes(np.array(header + [0] * (256 - len(header)), dtype="<i4").tobytes())
    with pytest.raises(ValueError, match=re.escape(f"{file}{'' if text.startswith(':') else ' '}{text}")):
        LlmcFile(file)


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="cannot be read: "):
        open_weights(tmp_path / "none.bin")
    (tmp_path / "short.bin").write_bytes(b"1234")
    with pytest.raises(ValueError, match=r"short\.bin has 4 bytes, less than a header of 1024$"):
        open_weights(tmp_path / "short.bin")


@pytest.mark.parametrize(
    ("family", "changes", "text"),
    [
        ("gpt2", {"layers": 4}, "has layers = 3, the model 4"),
        ("llama", {"layers": 2}, "has layers = 3, the model 2"),
        ("llama", {"kv_heads": None}, "has kv_head_count = 2, the model 4"),
        ("llama", {"ffn": 64}, "has ffn_size = 48, the model 64"),
        ("gpt2", {"vocab": 255}, "has vocab = 250, 256 with padding, the model 255"),
        ("gpt2", {"tied": False}, "has no lm-head of its own, the model is not tied"),
        ("llama", {"tied": True}, "has an lm-head of its own, the model is tied"),
        ("llama", {"rope_theta": 10_000.0}, "has rope_theta = 500, the model 10000.0"),
        ("llama", {"rope_scaling": RopeScaling()}, f"has rope_scaling = None, the model {RopeScaling()}"),
    ],
)
def test_weights_of_another_model_are_refused(tmp_path: Path, family: str, changes: dict[str, object], text: str) -> None:
    file = tmp_path / "model.bin"
    WRITERS[family](file, 3)
    weights = LlmcFile(file)
    with pytest.raises(ValueError, match="^" + re.escape(f"{file} {text}") + "$"):
        ChunkBuilder(replace(weights.shape, **changes), weights)  # type: ignore[arg-type]  # checked there


def test_mtp_layers_are_not_in_the_file(tmp_path: Path) -> None:
    write_gpt2(tmp_path / "model.bin", draw_gpt2())
    weights = LlmcFile(tmp_path / "model.bin")
    with pytest.raises(ValueError, match=r"has no weight mtp\.layers\.0\.enorm\.weight$"):
        build_reference(ChunkBuilder(replace(weights.shape, mtp_layers=1), weights))
