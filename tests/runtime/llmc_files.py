"""llm.c's model files, written and computed plainly from their description: an oracle for what reads them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch.nn import functional

if TYPE_CHECKING:
    from pathlib import Path

Weights = dict[str, torch.Tensor]

GPT2 = {"positions": 16, "vocab": 250, "layers": 3, "heads": 4, "hidden": 32}
"""A small GPT-2, whose 250 words are padded to 256 rows."""
LLAMA = {"positions": 16, "vocab": 96, "layers": 3, "heads": 4, "kv_heads": 2, "hidden": 32, "ffn": 48, "multiple": 16, "theta": 500}
"""A small LLaMA."""


def draw_gpt2() -> Weights:
    """Draw weights, each layered one with the layers as its first dimension; all Linear weights are (out, in)."""
    size, layers, hidden = GPT2, GPT2["layers"], GPT2["hidden"]
    shapes = {
        "wte": (256, hidden),
        "wpe": (size["positions"], hidden),
        "ln_1.weight": (layers, hidden),
        "ln_1.bias": (layers, hidden),
        "c_attn.weight": (layers, 3 * hidden, hidden),
        "c_attn.bias": (layers, 3 * hidden),
        "attn_proj.weight": (layers, hidden, hidden),
        "attn_proj.bias": (layers, hidden),
        "ln_2.weight": (layers, hidden),
        "ln_2.bias": (layers, hidden),
        "c_fc.weight": (layers, 4 * hidden, hidden),
        "c_fc.bias": (layers, 4 * hidden),
        "mlp_proj.weight": (layers, hidden, 4 * hidden),
        "mlp_proj.bias": (layers, hidden),
        "ln_f.weight": (hidden,),
        "ln_f.bias": (hidden,),
    }
    weights = _draw(shapes)
    weights["wte"][size["vocab"] :] = 0
    return weights


def draw_llama() -> Weights:
    """Draw weights likewise; ``c_attn`` holds queries, keys and values, ``c_fc2`` is the gate."""
    layers, hidden, ffn = LLAMA["layers"], LLAMA["hidden"], LLAMA["ffn"]
    keys = hidden // LLAMA["heads"] * LLAMA["kv_heads"]
    return _draw(
        {
            "wte": (LLAMA["vocab"], hidden),
            "ln_1": (layers, hidden),
            "c_attn": (layers, hidden + 2 * keys, hidden),
            "attn_proj": (layers, hidden, hidden),
            "ln_2": (layers, hidden),
            "c_fc": (layers, ffn, hidden),
            "c_fc2": (layers, ffn, hidden),
            "mlp_proj": (layers, hidden, ffn),
            "ln_f": (hidden,),
            "lm_head": (LLAMA["vocab"], hidden),
        }
    )


def write_gpt2(path: Path, weights: Weights, version: int = 3) -> None:
    """Write a GPT-2 file."""
    _write(path, [20240326, version, *(GPT2[name] for name in ("positions", "vocab", "layers", "heads", "hidden"))], weights, version)


def write_llama(path: Path, weights: Weights, version: int = 3, *, scaled: bool = False) -> None:
    """Write a LLaMA 3 file; the MLP's factor and the epsilon are cut to integers, as llm.c does."""
    sizes = [LLAMA[name] for name in ("positions", "vocab", "layers", "heads", "kv_heads", "hidden")]
    _write(path, [20240803, version, *sizes, 1, LLAMA["multiple"], 0, LLAMA["theta"], int(scaled), 4, 3, 1], weights, version)


def run_gpt2(weights: Weights, tokens: torch.Tensor) -> torch.Tensor:
    """Compute the logits over the vocabulary without its padding."""
    hidden = weights["wte"][tokens] + weights["wpe"][: tokens.shape[1]]
    heads = GPT2["heads"]
    for layer in range(GPT2["layers"]):
        get = {name: value[layer] for name, value in weights.items() if name not in {"wte", "wpe", "ln_f.weight", "ln_f.bias"}}
        normed = functional.layer_norm(hidden, hidden.shape[-1:], get["ln_1.weight"], get["ln_1.bias"])
        parts = functional.linear(normed, get["c_attn.weight"], get["c_attn.bias"]).chunk(3, -1)
        attended = _attend(*(part.reshape(*tokens.shape, heads, -1).transpose(1, 2) for part in parts))
        hidden = hidden + functional.linear(attended, get["attn_proj.weight"], get["attn_proj.bias"])
        normed = functional.layer_norm(hidden, hidden.shape[-1:], get["ln_2.weight"], get["ln_2.bias"])
        inner = functional.gelu(functional.linear(normed, get["c_fc.weight"], get["c_fc.bias"]), approximate="tanh")
        hidden = hidden + functional.linear(inner, get["mlp_proj.weight"], get["mlp_proj.bias"])
    hidden = functional.layer_norm(hidden, hidden.shape[-1:], weights["ln_f.weight"], weights["ln_f.bias"])
    return hidden @ weights["wte"][: GPT2["vocab"]].T


def run_llama(weights: Weights, tokens: torch.Tensor) -> torch.Tensor:
    """Compute the logits, with the rotary embedding as a product of complex numbers of neighbouring elements."""
    hidden, size = weights["wte"][tokens], LLAMA["hidden"] // LLAMA["heads"]
    angles = torch.outer(torch.arange(tokens.shape[1]), LLAMA["theta"] ** (-torch.arange(0, size, 2) / size))
    turns = torch.polar(torch.ones_like(angles), angles)

    def turn(value: torch.Tensor) -> torch.Tensor:
        return torch.view_as_real(torch.view_as_complex(value.reshape(*value.shape[:-1], -1, 2).contiguous()) * turns).flatten(-2)

    keys = size * LLAMA["kv_heads"]
    for layer in range(LLAMA["layers"]):
        get = {name: value[layer] for name, value in weights.items() if name not in {"wte", "ln_f", "lm_head"}}
        parts = torch.split(_rms(hidden, get["ln_1"]) @ get["c_attn"].T, [LLAMA["hidden"], keys, keys], -1)
        query, key, value = (part.reshape(*tokens.shape, -1, size).transpose(1, 2) for part in parts)
        repeats = LLAMA["heads"] // LLAMA["kv_heads"]
        attended = _attend(turn(query), turn(key).repeat_interleave(repeats, 1), value.repeat_interleave(repeats, 1))
        hidden = hidden + attended @ get["attn_proj"].T
        normed = _rms(hidden, get["ln_2"])
        hidden = hidden + (functional.silu(normed @ get["c_fc2"].T) * (normed @ get["c_fc"].T)) @ get["mlp_proj"].T
    return _rms(hidden, weights["ln_f"]) @ weights["lm_head"].T


def _draw(shapes: dict[str, tuple[int, ...]]) -> Weights:
    generator = torch.Generator().manual_seed(0)
    # whole multiples of 1/64 below 2, so that bf16 holds them exactly
    return {name: torch.randint(-16, 17, shape, generator=generator) / 64 for name, shape in shapes.items()}


def _write(path: Path, header: list[int], weights: Weights, version: int) -> None:
    words = np.zeros(256, dtype="<i4")
    words[: len(header)] = header
    with path.open("wb") as file:
        file.write(words.tobytes())
        for value in weights.values():
            plain = value.float().numpy().astype("<f4")
            # bf16 is the upper half of fp32
            file.write((plain if version == 3 else (plain.view("<u4") >> 16).astype("<u2")).tobytes())


def _attend(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """Attend causally; (batch, heads, seq, size) each, back to (batch, seq, hidden)."""
    scores = query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1])
    future = torch.ones(query.shape[-2], query.shape[-2], dtype=torch.bool).triu(1)
    return (scores.masked_fill(future, -math.inf).softmax(-1) @ value).transpose(1, 2).flatten(-2)


def _rms(value: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return value * torch.rsqrt(value.pow(2).mean(-1, keepdim=True) + 1e-5) * weight
