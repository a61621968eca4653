"""GPT-2: learned positions, LayerNorm, and the library's own GPT2Block."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from torch import Tensor, nn
from transformers import GPT2Config
from transformers.models.gpt2.modeling_gpt2 import GPT2Block

from ppdsl_runtime.models.families import Family

if TYPE_CHECKING:
    from ppdsl_runtime.models.shapes import ModelShape


class Gpt2Family(Family):
    """Parts of a GPT-2.

    Attributes:
        config: The same sizes, as the library takes them.
    """

    trunk = "transformer"
    blocks = "h"
    word_embedding = "wte"
    final_norm = "ln_f"

    def __init__(self, shape: ModelShape) -> None:
        super().__init__(shape)
        self.config = make_gpt2_config(shape)

    def make_block(self, layer: int) -> nn.Module:
        """Make a GPT2Block."""
        make: Any = GPT2Block  # it has no types
        return cast("nn.Module", make(self.config, layer_idx=layer))

    def make_norm(self) -> nn.Module:
        """Make a LayerNorm."""
        return nn.LayerNorm(self.shape.hidden, eps=self.shape.norm_eps)

    def make_positions(self) -> dict[str, nn.Module]:
        """Make the learned positions, and the dropout behind them."""
        return {"wpe": nn.Embedding(self.shape.max_positions, self.shape.hidden), "drop": nn.Dropout(self.shape.dropout)}

    def embed(self, words: Tensor, trunk: nn.ModuleDict) -> Tensor:
        """Add the positions."""
        (positions,) = self._keep(words, lambda positions: (positions,))
        return cast("Tensor", trunk["drop"](words + trunk["wpe"](positions)))

    def prepare(self, hidden: Tensor) -> dict[str, object]:  # noqa: ARG002 -- the positions are in the hidden state
        """Give nothing: without a mask the blocks are causal."""
        return {}

    def residual_names(self) -> tuple[str, ...]:
        """Name the output projections of attention and MLP."""
        return ("c_proj.weight",)


def make_gpt2_config(shape: ModelShape) -> GPT2Config:
    """Give the library's configuration of a shape; attention is torch's scaled_dot_product_attention."""
    make: Any = GPT2Config  # it takes more keywords than its signature tells
    config: GPT2Config = make(
        n_layer=shape.layers,
        n_embd=shape.hidden,
        n_head=shape.heads,
        n_inner=shape.ffn,
        vocab_size=shape.vocab,
        n_positions=shape.max_positions,
        layer_norm_epsilon=shape.norm_eps,
        resid_pdrop=shape.dropout,
        embd_pdrop=shape.dropout,
        attn_pdrop=shape.dropout,
        tie_word_embeddings=shape.tied,
        bos_token_id=None,
        eos_token_id=None,
        use_cache=False,
        attn_implementation="sdpa",
    )
    return config
