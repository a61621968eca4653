"""In which order llm.c writes weights, and what each is in the library transformers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from ppdsl_runtime.models.shapes import ModelShape


def _as_it_is(value: Tensor) -> Tensor:
    return value


@dataclass(frozen=True, slots=True)
class Piece:
    """A weight in the library's naming, inside of one in llm.c's.

    Attributes:
        name: Its global name, ``{}`` standing for the layer.
        rows: How many of the first dimension it takes; the pieces of a part lie one behind the other.
        convert: Brings it to the library's form.
        padded: Whether rows may be left out at its end.
    """

    name: str
    rows: int
    convert: Callable[[Tensor], Tensor] = _as_it_is
    padded: bool = False


@dataclass(frozen=True, slots=True)
class Part:
    """One kind of weight, as llm.c writes it.

    Attributes:
        shape: Of one layer's.
        pieces: What it is made of.
        layered: Whether there is one for each layer, one behind the other.
    """

    shape: tuple[int, ...]
    pieces: tuple[Piece, ...]
    layered: bool = True


def list_gpt2_parts(shape: ModelShape, rows: int) -> list[Part]:
    """List the parts of a GPT-2 file in order.

    Args:
        shape: The model's sizes.
        rows: Rows of the word embedding as written, padding included.
    """
    hidden, ffn, block = shape.hidden, shape.ffn_size, "transformer.h.{}."
    return [
        Part((rows, hidden), (Piece("transformer.wte.weight", rows, padded=True),), layered=False),
        _single("transformer.wpe.weight", (shape.max_positions, hidden), layered=False),
        _single(block + "ln_1.weight", (hidden,)),
        _single(block + "ln_1.bias", (hidden,)),
        _single(block + "attn.c_attn.weight", (3 * hidden, hidden), _transpose),
        _single(block + "attn.c_attn.bias", (3 * hidden,)),
        _single(block + "attn.c_proj.weight", (hidden, hidden), _transpose),
        _single(block + "attn.c_proj.bias", (hidden,)),
        _single(block + "ln_2.weight", (hidden,)),
        _single(block + "ln_2.bias", (hidden,)),
        _single(block + "mlp.c_fc.weight", (ffn, hidden), _transpose),
        _single(block + "mlp.c_fc.bias", (ffn,)),
        _single(block + "mlp.c_proj.weight", (hidden, ffn), _transpose),
        _single(block + "mlp.c_proj.bias", (hidden,)),
        _single("transformer.ln_f.weight", (hidden,), layered=False),
        _single("transformer.ln_f.bias", (hidden,), layered=False),
    ]


def list_llama_parts(shape: ModelShape, rows: int) -> list[Part]:
    """List the parts of a LLaMA 3 file in order.

    Queries, keys and values are one matrix there, and the rotary embedding turns neighbouring elements; the library turns elements half a
    head apart, so the rows of queries and keys change places.

    Args:
        shape: The model's sizes.
        rows: Rows of the word embedding.
    """
    hidden, ffn, block = shape.hidden, shape.ffn_size, "model.layers.{}."
    keys = hidden // shape.heads * shape.kv_head_count
    attention = (
        Piece(block + "self_attn.q_proj.weight", hidden, _halve_heads(shape.heads)),
        Piece(block + "self_attn.k_proj.weight", keys, _halve_heads(shape.kv_head_count)),
        Piece(block + "self_attn.v_proj.weight", keys),
    )
    return [
        _single("model.embed_tokens.weight", (rows, hidden), layered=False),
        _single(block + "input_layernorm.weight", (hidden,)),
        Part((hidden + 2 * keys, hidden), attention),
        _single(block + "self_attn.o_proj.weight", (hidden, hidden)),
        _single(block + "post_attention_layernorm.weight", (hidden,)),
        _single(block + "mlp.up_proj.weight", (ffn, hidden)),
        _single(block + "mlp.gate_proj.weight", (ffn, hidden)),
        _single(block + "mlp.down_proj.weight", (hidden, ffn)),
        _single("model.norm.weight", (hidden,), layered=False),
        _single("lm_head.weight", (rows, hidden), layered=False),
    ]


def list_parts(shape: ModelShape, rows: int) -> list[Part]:
    """List the parts of a file of either family in order."""
    return (list_gpt2_parts if shape.family == "gpt2" else list_llama_parts)(shape, rows)


def count_elements(shape: ModelShape, rows: int) -> int:
    """Count the elements of all weights of a file."""
    return sum(math.prod(part.shape) * (shape.layers if part.layered else 1) for part in list_parts(shape, rows))


def _single(name: str, shape: tuple[int, ...], convert: Callable[[Tensor], Tensor] = _as_it_is, *, layered: bool = True) -> Part:
    return Part(shape, (Piece(name, shape[0], convert),), layered)


def _transpose(value: Tensor) -> Tensor:
    """The library's Conv1D has the input first, a Linear the output."""
    return value.T.contiguous()


def _halve_heads(heads: int) -> Callable[[Tensor], Tensor]:
    def convert(value: Tensor) -> Tensor:
        size = value.shape[0] // heads
        return value.view(heads, size // 2, 2, -1).transpose(1, 2).reshape(value.shape)

    return convert
