"""Weights from llm.c's ``.bin`` files: GPT-2 and LLaMA 3, in fp32 or bf16. Only what is asked for is read.

A file is 256 int32 (magic, version, sizes), then one kind of weight after another, each for all layers in order.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ppdsl_runtime.models.llmc_layouts import Piece, count_elements, list_parts
from ppdsl_runtime.models.shapes import ModelShape, RopeScaling
from ppdsl_runtime.models.weights import check_sizes
from ppdsl_runtime.reading import reason_of

GPT2_MAGIC = 20240326
LLAMA_MAGIC = 20240803
_HEADER = 256
_HEADER_BYTES = 4 * _HEADER
_DTYPES = {3: torch.float32, 5: torch.bfloat16}
"""Of the weights, by version."""
_PADDED_TO = 128
"""GPT-2's word embedding has as many rows as the next multiple of this where the header does not say how many."""


class _Place(NamedTuple):
    """Where a weight lies: its first byte, its form there, and what it is."""

    start: int
    shape: tuple[int, ...]
    piece: Piece


@dataclass(frozen=True, slots=True)
class _Header:
    """What the first 256 integers say.

    Attributes:
        shape: The sizes. That of LLaMA's MLP is not among them, since its factor is cut to an integer there; the file's own size tells it.
        rows: Rows of the word embedding as written, padding included.
        dtype: Of the weights.
        multiple: What the size of LLaMA's MLP is a multiple of; 1 for GPT-2.
    """

    shape: ModelShape
    rows: int
    dtype: torch.dtype
    multiple: int


class LlmcFile:
    """Weights of one llm.c file.

    Attributes:
        path: The file.
        shape: The sizes that it gives. GPT-2's vocabulary is the one without padding; a model with the padded one takes it as well.
    """

    def __init__(self, path: str | Path) -> None:
        """Read the header, and compare it with the size of the file.

        Raises:
            ValueError: The file cannot be read, is no such file, of another version, or cut off.
        """
        self.path = Path(path)
        try:
            size = self.path.stat().st_size
            header = np.fromfile(self.path, dtype="<i4", count=_HEADER)
        except OSError as error:
            raise ValueError(f"{self.path} cannot be read: {reason_of(error)}") from error
        if len(header) < _HEADER:
            raise ValueError(f"{self.path} has {size} bytes, less than a header of {_HEADER_BYTES}")
        read = _read_header(self.path, [int(value) for value in header])
        self._rows, self._dtype = read.rows, read.dtype
        elements = (size - _HEADER_BYTES) / read.dtype.itemsize
        self.shape = _find_ffn(self.path, read, elements) if read.shape.family == "llama" else read.shape
        needed = count_elements(self.shape, self._rows)
        if elements != needed:
            raise ValueError(f"{self.path} has {size} bytes, its header asks for {_HEADER_BYTES + needed * read.dtype.itemsize}")
        self._places = self._lay_out()

    def check(self, shape: ModelShape) -> None:
        """Check that this is a model with these sizes.

        Raises:
            ValueError: It is not.
        """
        names = ("family", "layers", "hidden", "heads", "kv_head_count", "ffn_size", "max_positions", "rope_theta", "rope_scaling")
        check_sizes(str(self.path), {name: getattr(self.shape, name) for name in names}, shape)
        if shape.vocab not in {self.shape.vocab, self._rows}:
            raise ValueError(f"{self.path} has vocab = {self.shape.vocab}, {self._rows} with padding, the model {shape.vocab}")
        if self.shape.family == "gpt2" and not shape.tied:
            raise ValueError(f"{self.path} has no lm-head of its own, the model is not tied")
        if self.shape.family == "llama" and shape.tied:
            raise ValueError(f"{self.path} has an lm-head of its own, the model is tied")

    def read(self, name: str, shape: tuple[int, ...]) -> Tensor:
        """Read one weight, by its name in the library transformers, and in its form.

        Raises:
            ValueError: There is none of this name, or the file was cut off since it was opened.
        """
        if name not in self._places:
            raise ValueError(f"{self.path} has no weight {name}")
        place = self._places[name]
        value = place.piece.convert(self._read_place(place))
        return value[: shape[0]] if place.piece.padded else value

    def _read_place(self, place: _Place) -> Tensor:
        count, size = math.prod(place.shape), self._dtype.itemsize
        words = np.fromfile(self.path, dtype=f"<i{size}", count=count, offset=place.start)
        if len(words) < count:
            raise ValueError(f"{self.path} was cut off after it was opened: it ends inside of {place.piece.name}")
        return torch.from_numpy(words).view(self._dtype).reshape(place.shape)

    def _lay_out(self) -> dict[str, _Place]:
        """Find where each weight lies."""
        places: dict[str, _Place] = {}
        start = _HEADER_BYTES
        for part in list_parts(self.shape, self._rows):
            for layer in range(self.shape.layers if part.layered else 1):
                for piece in part.pieces:
                    shape = (piece.rows, *part.shape[1:])
                    places[piece.name.format(layer)] = _Place(start, shape, piece)
                    start += math.prod(shape) * self._dtype.itemsize
        return places


def _read_header(path: Path, header: list[int]) -> _Header:
    magic, version, positions, vocab, layers, heads, *rest = header[:16]
    if magic not in {GPT2_MAGIC, LLAMA_MAGIC}:
        raise ValueError(f"{path} begins with {magic}, not with {GPT2_MAGIC} (GPT-2) or {LLAMA_MAGIC} (LLaMA 3)")
    if version not in _DTYPES:
        raise ValueError(f"{path} is of version {version}, not 3 (fp32) or 5 (bf16)")
    try:
        if magic == GPT2_MAGIC:
            shape = ModelShape("gpt2", layers, rest[0], heads, vocab, positions, tied=True)
            return _Header(shape, rest[1] or -(-vocab // _PADDED_TO) * _PADDED_TO, _DTYPES[version], 1)
        kv_heads, hidden, _, multiple, _, theta, scaled, *_ = rest
        scaling = RopeScaling() if scaled else None
        shape = ModelShape("llama", layers, hidden, heads, vocab, positions, kv_heads, rope_theta=theta, rope_scaling=scaling)
        return _Header(shape, vocab, _DTYPES[version], max(multiple, 1))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def _find_ffn(path: Path, header: _Header, elements: float) -> ModelShape:
    """Find the hidden size of the MLP from how much there is in the file.

    Raises:
        ValueError: No size fits.
    """
    if not header.shape.layers:
        return header.shape
    smallest, next_one = (count_elements(replace(header.shape, ffn=size), header.rows) for size in (1, 2))
    ffn = 1 + (elements - smallest) / (next_one - smallest)
    if ffn < 1 or ffn % header.multiple:
        size = int(elements * header.dtype.itemsize) + _HEADER_BYTES
        raise ValueError(f"{path} has {size} bytes, which fit no MLP whose hidden size is a multiple of {header.multiple}")
    return replace(header.shape, ffn=int(ffn))
