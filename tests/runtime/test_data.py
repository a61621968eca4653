from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

torch = pytest.importorskip("torch")  # the runtime is tested where torch is among the tests' requirements

import numpy as np  # noqa: E402 -- it comes with torch

from ppdsl_runtime.data import Batches, TokenData, load_tokens  # noqa: E402

if TYPE_CHECKING:
    from pathlib import Path


def write_tokens(path: Path, tokens: list[int], magic: int = 20240520, version: int = 1, kind: str = "<u2") -> None:
    """Write a token file as llm.c's data scripts do."""
    header = np.zeros(256, dtype="<i4")
    header[:3] = magic, version, len(tokens)
    path.write_bytes(header.tobytes() + np.array(tokens, dtype=kind).tobytes())


def count_up(count: int) -> TokenData:
    return TokenData("the test", np.arange(count, dtype=np.uint16), count)


@pytest.mark.parametrize(
    ("family", "largest", "vocab"),
    [((20240520, 1, "<u2"), 65535, 50257), ((20240801, 7, "<u4"), 128255, 128256)],
    ids=["gpt2", "llama3"],
)
def test_token_files_are_read(tmp_path: Path, family: tuple[int, int, str], largest: int, vocab: int) -> None:
    tokens = [3, 1, 4, 1, 5, largest]
    write_tokens(tmp_path / "x.bin", tokens, *family)
    data = load_tokens(tmp_path / "x.bin")
    assert (data.tokens.tolist(), data.vocab) == (tokens, vocab)


def test_any_other_file_is_read_as_bytes(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_bytes("naïve".encode())
    data = load_tokens(tmp_path / "x.txt")
    assert (data.tokens.tolist(), data.vocab) == ([*"naïve".encode()], 256)


def test_the_default_text_is_english() -> None:
    data = load_tokens()
    text = bytes(data.tokens).decode()
    assert data.vocab == 256
    assert len(text) > 300_000
    assert "The assert statement" in " ".join(text.replace("“assert”", "assert").split()) or 'The "assert" statement' in text


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"", "x.bin has 0 bytes, less than a header of 1024"),
        (bytes(1024), "x.bin begins with 0 version 0, not with 20240520 version 1 or 20240801 version 7"),
    ],
)
def test_what_is_no_token_file_is_refused(tmp_path: Path, content: bytes, text: str) -> None:
    (tmp_path / "x.bin").write_bytes(content)
    with pytest.raises(ValueError, match=re.escape(text) + "$"):
        load_tokens(tmp_path / "x.bin")


def test_a_token_file_that_is_cut_off_is_refused(tmp_path: Path) -> None:
    write_tokens(tmp_path / "x.bin", [1, 2, 3])
    (tmp_path / "x.bin").write_bytes((tmp_path / "x.bin").read_bytes()[:-1])
    with pytest.raises(ValueError, match=r"x\.bin has 1029 bytes, its header tells of 3 tokens, which take 1030$"):
        load_tokens(tmp_path / "x.bin")


def test_a_file_that_is_missing_or_empty_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"none\.txt cannot be read: "):
        load_tokens(tmp_path / "none.txt")
    (tmp_path / "x.txt").touch()
    with pytest.raises(ValueError, match=r"x\.txt is empty$"):
        load_tokens(tmp_path / "x.txt")
    with pytest.raises(ValueError, match=r"^/dev/null is no regular file$"):
        load_tokens("/dev/null")


def test_targets_are_the_tokens_behind() -> None:
    tokens, targets = Batches(count_up(100), batch=2, seq=3, vocab=100).get(1)
    assert tokens.tolist() == [[6, 7, 8], [9, 10, 11]]
    assert targets.tolist() == [[7, 8, 9], [10, 11, 12]]
    assert tokens.dtype == targets.dtype == torch.int64


@pytest.mark.parametrize("count", [7, 8, 11, 12, 13])
def test_batches_begin_anew_where_the_data_end(count: int) -> None:
    batches = Batches(count_up(count), batch=2, seq=3, vocab=count)
    seen = []
    for step in range(20):
        tokens, targets = batches.get(step)
        seen += tokens.flatten().tolist()
        assert targets.flatten().tolist() == [(token + 1) % count for token in tokens.flatten().tolist()]
    assert seen == [place % count for place in range(120)]


def test_a_batch_does_not_depend_on_what_was_asked_before() -> None:
    batches, again = (Batches(load_tokens(), batch=2, seq=8, vocab=256) for _ in range(2))
    later = again.get(1000)
    assert all(torch.equal(one, other) for one, other in zip(batches.get(1000), later, strict=True))
    later[0].zero_()
    assert not torch.equal(again.get(1000)[0], later[0])


@pytest.mark.parametrize(
    ("count", "sizes", "text"),
    [
        (6, (2, 3, 100), "the test has 6 tokens, a batch of 2 x 3 needs 7"),
        (9, (2, 0, 100), "batch is 2 and seq 0, not two integers from 1"),
        (9, (2, 3, 7), "the test has token 7 at 7, the model's vocabulary has 7"),
    ],
)
def test_data_that_do_not_fit_are_refused(count: int, sizes: tuple[int, int, int], text: str) -> None:
    batch, seq, vocab = sizes
    with pytest.raises(ValueError, match=f"^{text}$"):
        Batches(count_up(count), batch=batch, seq=seq, vocab=vocab)


def test_a_negative_step_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^step is -1, not an integer from 0$"):
        Batches(count_up(9), batch=2, seq=3, vocab=9).get(-1)
