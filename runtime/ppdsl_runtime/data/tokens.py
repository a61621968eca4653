"""Where tokens come from: llm.c's token files, any file as bytes, and a text that comes with CPython."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ppdsl_runtime.reading import reason_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

_HEADER_BYTES = 1024
_BYTE_VALUES = 256
_BLOCK = 1 << 24
"""Tokens that are looked at together."""
_KINDS = {(20240520, 1): ("<u2", 50257), (20240801, 7): ("<u4", 128256)}
"""Element type and vocabulary of a token file, by magic and version: GPT-2's and LLaMA 3's."""


@dataclass(frozen=True, slots=True, eq=False)
class TokenData:
    """Tokens, one behind the other.

    Attributes:
        name: Where they come from, as errors name it.
        tokens: Their numbers: one dimension, of an unsigned type. Of a file they are mapped, not read.
        vocab: The size of the vocabulary they come from.
    """

    name: str
    tokens: NDArray[np.unsignedinteger[Any]]
    vocab: int

    def check(self, vocab: int) -> None:
        """Look at every token.

        Args:
            vocab: The size of the model's vocabulary.

        Raises:
            ValueError: A token is not below it; the first such is named.
        """
        for start in range(0, len(self.tokens), _BLOCK):
            block = self.tokens[start : start + _BLOCK]
            if block.max() >= vocab:
                place = int(np.argmax(block >= vocab))
                raise ValueError(f"{self.name} has token {block[place]} at {start + place}, the model's vocabulary has {vocab}")


def load_tokens(path: str | Path | None = None) -> TokenData:
    """Load tokens.

    Args:
        path: An llm.c token file, named ``*.bin``; or any other file, whose bytes are the tokens. None is the English text of CPython's
            help topics, about 460 KB, as bytes.

    Raises:
        ValueError: The file cannot be read, is empty or a pipe, or is a ``*.bin`` of another kind, or cut off.
    """
    if path is None:
        from pydoc_data.topics import topics  # noqa: PLC0415 -- half a megabyte of text

        text = "\n".join(topics[name] for name in sorted(topics))
        return TokenData("the default text", np.frombuffer(text.encode(), dtype=np.uint8), _BYTE_VALUES)
    try:
        return _map_tokens(Path(path)) if Path(path).suffix == ".bin" else _map_bytes(Path(path))
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {reason_of(error)}") from error


def _map_bytes(path: Path) -> TokenData:
    if not path.stat().st_size:
        raise ValueError(f"{path} is {'empty' if path.is_file() else 'no regular file'}")
    return TokenData(str(path), np.memmap(path, dtype=np.uint8, mode="r"), _BYTE_VALUES)


def _map_tokens(path: Path) -> TokenData:
    header = np.fromfile(path, dtype="<i4", count=_HEADER_BYTES // 4)
    size = path.stat().st_size
    if size < _HEADER_BYTES:
        raise ValueError(f"{path} has {size} bytes, less than a header of {_HEADER_BYTES}")
    magic, version, count = (int(value) for value in header[:3])
    if (magic, version) not in _KINDS:
        known = " or ".join(f"{magic} version {version}" for magic, version in _KINDS)
        raise ValueError(f"{path} begins with {magic} version {version}, not with {known}")
    kind, vocab = _KINDS[magic, version]
    wanted = _HEADER_BYTES + count * np.dtype(kind).itemsize
    if count < 1 or size != wanted:
        raise ValueError(f"{path} has {size} bytes, its header tells of {count} tokens, which take {wanted}")
    return TokenData(str(path), np.memmap(path, dtype=kind, mode="r", offset=_HEADER_BYTES), vocab)
