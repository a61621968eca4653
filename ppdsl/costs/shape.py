"""Costs from the shape of a model: the counts of arXiv 2411.05288, Table 4, made to fit grouped queries and other MLPs as well."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ppdsl.costs.values import Costs, LayerCosts

_HALF_PRECISION_BYTES = 2


@dataclass(frozen=True, slots=True)
class ModelShape:
    """Sizes of a transformer, and how fast it is computed.

    Attributes:
        hidden: Hidden size h.
        seq: Sequence length s.
        vocab: Vocabulary size V.
        batch: Sequences of one microbatch, b.
        tflops: What a rank computes, in 10^12 floating-point operations a second.
        heads: Attention heads; needed only beside ``kv_heads``.
        kv_heads: Heads of keys and values where queries share them; None is one for each head.
        ffn: Hidden size of the MLP; None is 4h.
        gated: Whether the MLP has a gate, a third matrix.

    Raises:
        ValueError: A size is not positive, or the sizes do not fit each other.
    """

    hidden: int
    seq: int
    vocab: int
    batch: int
    tflops: float
    heads: int | None = None
    kv_heads: int | None = None
    ffn: int | None = None
    gated: bool = False

    def __post_init__(self) -> None:
        for name in ("hidden", "seq", "vocab", "batch", "heads", "kv_heads", "ffn"):
            size = getattr(self, name)
            if size is not None and (not isinstance(size, int) or isinstance(size, bool) or size < 1):
                raise ValueError(f"{name} is {size!r}, not an integer from 1")
        if isinstance(self.tflops, bool) or not (self.tflops > 0 and math.isfinite(self.tflops)):
            raise ValueError(f"tflops is {self.tflops!r}, not a finite number above 0")
        if self.kv_heads is not None:
            if self.heads is None:
                raise ValueError("kv_heads is given without heads")
            if self.heads % self.kv_heads:
                raise ValueError(f"heads is {self.heads}, which is not a multiple of kv_heads = {self.kv_heads}")

    @property
    def layer_params(self) -> int:
        """Parameters of a decoder layer, norms and biases left out: 12h^2 where queries are not grouped and the MLP is the usual one."""
        keys = self.hidden if self.kv_heads is None or self.heads is None else self.hidden * self.kv_heads // self.heads
        attention = 2 * self.hidden * self.hidden + 2 * self.hidden * keys
        return attention + (3 if self.gated else 2) * self.hidden * (self.ffn or 4 * self.hidden)

    @property
    def layer_flops(self) -> tuple[int, int, int]:
        """Operations of a decoder layer's forward, input gradient and weight gradient for one microbatch.

        Together bsh(72h+12s) in the usual shape: bsh(24h+4s), bsh(24h+8s) and bsh(24h).
        """
        tokens = self.batch * self.seq
        products = 2 * tokens * self.layer_params
        scores = 4 * tokens * self.seq * self.hidden
        return products + scores, products + 2 * scores, products


def costs_from_shape(shape: ModelShape) -> Costs:
    """Estimate what layers cost.

    A decoder layer is bsh(72h+12s) operations and 12h^2 parameters, the input layer 3bsh and hV, the output layer 6bshV and hV. An MTP
    layer is taken for a decoder layer, and the final norm for nothing. Activations are not estimated: they depend on what is recomputed.
    """
    ms = 1 / (shape.tflops * 1e9)
    states = shape.batch * shape.seq * shape.hidden
    table = shape.hidden * shape.vocab
    forward, input_grad, weight_grad = shape.layer_flops
    layer = LayerCosts.of(forward * ms, input_grad * ms, weight_grad * ms, shape.layer_params)
    logits = 2 * states * shape.vocab * ms
    kinds = {
        "E": LayerCosts.of(states * ms, 0.0, 2 * states * ms, table),
        "t": layer,
        "m": layer,
        "L": LayerCosts.of(logits, logits, logits, table),
    }
    return Costs(kinds, message_bytes=_HALF_PRECISION_BYTES * states, split=True)
