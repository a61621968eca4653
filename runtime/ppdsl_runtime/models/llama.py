"""LLaMA: rotary positions, RMSNorm, and the library's own LlamaDecoderLayer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor, nn
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaDecoderLayer, LlamaRMSNorm, LlamaRotaryEmbedding

from ppdsl_runtime.models.families import Family

if TYPE_CHECKING:
    from ppdsl_runtime.models.shapes import ModelShape


class LlamaFamily(Family):
    """Parts of a LLaMA.

    Attributes:
        config: The same sizes, as the library takes them.
    """

    trunk = "model"
    blocks = "layers"
    word_embedding = "embed_tokens"
    final_norm = "norm"

    def __init__(self, shape: ModelShape) -> None:
        super().__init__(shape)
        self.config = make_llama_config(shape)
        # It has no parameters, and must stay in fp32 when a chunk is cast, so it is no part of the chunk.
        self._rotary = cast("nn.Module", LlamaRotaryEmbedding(config=self.config))

    def make_block(self, layer: int) -> nn.Module:
        """Make a LlamaDecoderLayer."""
        return cast("nn.Module", LlamaDecoderLayer(self.config, layer_idx=layer))

    def make_norm(self) -> nn.Module:
        """Make an RMSNorm."""
        return cast("nn.Module", LlamaRMSNorm(self.shape.hidden, eps=self.shape.norm_eps))

    def make_positions(self) -> dict[str, nn.Module]:
        """Make nothing: each layer turns its queries and keys itself."""
        return {}

    def embed(self, words: Tensor, trunk: nn.ModuleDict) -> Tensor:  # noqa: ARG002 -- the positions come in each layer
        """Give the words as they are."""
        return words

    def prepare(self, hidden: Tensor) -> dict[str, object]:
        """Give the cosines and sines of the positions, (1, seq, hidden / heads) each."""
        return {"position_embeddings": self._keep(hidden, lambda positions: self._turn(hidden, positions))}

    def residual_names(self) -> tuple[str, ...]:
        """Name none: LLaMA's weights all start alike."""
        return ()

    def _turn(self, hidden: Tensor, positions: Tensor) -> tuple[Tensor, ...]:
        with torch.no_grad():
            cosines, sines = self._rotary.to(hidden.device)(hidden, positions)
        return cosines, sines


def make_llama_config(shape: ModelShape) -> LlamaConfig:
    """Give the library's configuration of a shape; attention is torch's scaled_dot_product_attention."""
    scaling = shape.rope_scaling
    rope = (
        {"rope_type": "default"}
        if scaling is None
        else {
            "rope_type": "llama3",
            "factor": float(scaling.factor),
            "low_freq_factor": float(scaling.low_freq_factor),
            "high_freq_factor": float(scaling.high_freq_factor),
            "original_max_position_embeddings": scaling.original_positions,
        }
    )
    make: Any = LlamaConfig  # it takes more keywords than its signature tells
    config: LlamaConfig = make(
        num_hidden_layers=shape.layers,
        hidden_size=shape.hidden,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_head_count,
        intermediate_size=shape.ffn_size,
        vocab_size=shape.vocab,
        max_position_embeddings=shape.max_positions,
        rms_norm_eps=shape.norm_eps,
        attention_dropout=shape.dropout,
        tie_word_embeddings=shape.tied,
        rope_theta=float(shape.rope_theta),
        rope_scaling=rope,
        bos_token_id=None,
        eos_token_id=None,
        use_cache=False,
        attn_implementation="sdpa",
    )
    return config
