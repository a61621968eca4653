"""What one stage of a model computes. Its parameters have the names that they have in the whole model, whatever the layout."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor, nn

from ppdsl_runtime.chunks import seeding

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from ppdsl import Chunk
    from ppdsl_runtime.models.families import Family
    from ppdsl_runtime.models.shapes import ModelShape

Payload = Tensor | tuple[Tensor, ...]
"""What one stage gives the next: a hidden state, or a tuple of it and one more for each MTP layer; at the end, logits likewise."""


class MtpLayer(nn.Module):
    """A multi-token-prediction layer, as in DeepSeek-V3: two norms, a projection, a block of the model, and a norm behind it.

    Attributes:
        hnorm: Norm of the hidden state of the depth before.
        enorm: Norm of the embedded tokens.
        eh_proj: From both, embedding first, back to the hidden size.
        block: A decoder layer.
        final_norm: Norm in front of the lm-head.
    """

    def __init__(self, family: Family, number: int) -> None:
        super().__init__()
        hidden = family.shape.hidden
        self.enorm = family.make_norm()
        self.hnorm = family.make_norm()
        self.eh_proj = nn.Linear(2 * hidden, hidden, bias=False)
        self.block = family.make_block(family.shape.layers + number)
        self.final_norm = family.make_norm()

    def forward(self, hidden: Tensor, words: Tensor, context: dict[str, object]) -> Tensor:
        """Predict one token further.

        Args:
            hidden: Hidden state of the depth before, (batch, seq, hidden).
            words: Embedded tokens, shifted by as much as this depth looks ahead, of the same shape.
            context: Keywords of the block.

        Returns:
            The normed hidden state of this depth, of the same shape.
        """
        joined = self.eh_proj(torch.cat((self.enorm(words), self.hnorm(hidden)), dim=-1))
        return cast("Tensor", self.final_norm(run_block(self.block, joined, context)))


class ModelChunk(nn.Module):
    """One stage of a model; ``make_chunk_module`` says which keywords its forward takes.

    The first stage takes tokens (batch, seq), int64; each other one what the stage before gives: the hidden state (batch, seq, hidden),
    and behind the MTP layers one more for each of them. The last stage gives logits (batch, seq, vocab), a tuple where there are MTP
    layers.

    Attributes:
        shape: The model's sizes.
        chunk: Which stage of the plan this is.
        tied_names: The global name of each parameter that other chunks hold a copy of, by its local name.
    """

    def __init__(self, family: Family, chunk: Chunk) -> None:
        super().__init__()
        self.shape: ModelShape = family.shape
        self.chunk = chunk
        self._family = family
        mtp = range(*chunk.mtp_layers)
        trunk: dict[str, nn.Module] = {}
        if chunk.embedding or mtp:
            trunk[family.word_embedding] = nn.Embedding(self.shape.vocab, self.shape.hidden)
        if chunk.embedding:
            trunk.update(family.make_positions())
        trunk[family.blocks] = nn.ModuleDict({str(layer): family.make_block(layer) for layer in range(*chunk.layers)})
        if chunk.final_norm:
            trunk[family.final_norm] = family.make_norm()
        self.add_module(family.trunk, nn.ModuleDict(trunk))
        if mtp:
            self.mtp = nn.ModuleDict({"layers": nn.ModuleDict({str(number): MtpLayer(family, number) for number in mtp})})
        if chunk.loss:
            self.lm_head = nn.Linear(self.shape.hidden, self.shape.vocab, bias=False)
        self.tied_names = self._find_tied()

    @property
    def trunk(self) -> nn.ModuleDict:
        """All but the lm-head and the MTP layers."""
        return cast("nn.ModuleDict", getattr(self, self._family.trunk))

    def global_name(self, local: str) -> str:
        """Give the name that one of this chunk's parameters has in the whole model: that of the word embedding for a tied lm-head."""
        return self.tied_names.get(local, local)

    def _find_tied(self) -> dict[str, str]:
        shared = self._family.embedding_name
        if not (self.shape.tied or self.shape.mtp_layers):
            return {}
        names = [name for name, _ in self.named_parameters() if name == shared or (self.shape.tied and name == "lm_head.weight")]
        return dict.fromkeys(names, shared)

    def _run(self, payload: tuple[Tensor, ...], tokens: Tensor | None = None) -> Payload:
        hidden, *ahead = payload
        if self.chunk.embedding:
            if ahead:
                raise ValueError(f"the model takes tokens alone, and was given {len(payload)} inputs")
            hidden = self._embed(hidden)
        context = self._family.prepare(hidden)
        blocks = cast("nn.ModuleDict", self.trunk[self._family.blocks])
        for name, block in blocks.items():
            with self._seeded(int(name)):
                hidden = run_block(block, hidden, context)
        if self.chunk.final_norm:
            hidden = self.trunk[self._family.final_norm](hidden)
        if tokens is not None:
            ahead = self._look_ahead(hidden, tokens, context)
        outputs = (hidden, *ahead)
        if self.chunk.loss:
            outputs = tuple(self.lm_head(each) for each in outputs)
        return outputs if len(outputs) > 1 else outputs[0]

    def _seeded(self, layer: int) -> AbstractContextManager[None]:
        """Give a layer's dropout random numbers that do not depend on the layout."""
        return seeding.layer(layer) if self.shape.dropout and self.training else nullcontext()

    def _embed(self, tokens: Tensor) -> Tensor:
        check_tokens(tokens, self.shape)
        with self._seeded(-1):
            return self._family.embed(self.trunk[self._family.word_embedding](tokens), self.trunk)

    def _look_ahead(self, hidden: Tensor, tokens: Tensor, context: dict[str, object]) -> list[Tensor]:
        ahead = []
        check_tokens(tokens, self.shape)
        for name, layer in cast("nn.ModuleDict", self.mtp["layers"]).items():
            words = self.trunk[self._family.word_embedding](shift(tokens, int(name) + 1, 0))
            with self._seeded(self.shape.layers + int(name)):
                hidden = layer(hidden, words, context)
            ahead.append(hidden)
        return ahead


class PlainChunk(ModelChunk):
    """A stage that needs nothing but what the stage before gives."""

    def forward(self, *payload: Tensor) -> Payload:
        """Run the stage; the class's own text has the shapes."""
        return self._run(payload)


class MtpChunk(ModelChunk):
    """A stage with MTP layers."""

    def forward(self, *payload: Tensor, tokens: Tensor) -> Payload:
        """Run the stage.

        Args:
            payload: What the stage before gives.
            tokens: The tokens (batch, seq) that the model was given.
        """
        return self._run(payload, tokens)


def make_chunk_module(family: Family, chunk: Chunk) -> ModelChunk:
    """Make a stage's module, of the class whose forward names the keywords that the stage needs, and no others."""
    return (MtpChunk if chunk.mtp_layers[0] < chunk.mtp_layers[1] else PlainChunk)(family, chunk)


def run_block(block: nn.Module, hidden: Tensor, context: dict[str, object]) -> Tensor:
    """Run a decoder layer of the library, whose older versions give a tuple."""
    output = block(hidden, **context)
    return cast("Tensor", output[0] if isinstance(output, tuple) else output)


def shift(tokens: Tensor, places: int, fill: int) -> Tensor:
    """Move each sequence (batch, seq) to the left, and fill it up at its end."""
    shifted = torch.full_like(tokens, fill)
    if places < tokens.shape[1]:
        shifted[:, : tokens.shape[1] - places] = tokens[:, places:]
    return shifted


def check_tokens(tokens: Tensor, shape: ModelShape) -> None:
    """Check the shape of tokens, without waiting for a device.

    Raises:
        ValueError: They are not (batch, seq), no integers, or longer than the model's positions.
    """
    if tokens.ndim != 2 or tokens.is_floating_point():  # noqa: PLR2004 -- batch and sequence
        raise ValueError(f"tokens are {tokens.dtype} of shape {[*tokens.shape]}, not integers of shape [batch, seq]")
    if tokens.shape[1] > shape.max_positions:
        raise ValueError(f"a sequence has {tokens.shape[1]} tokens, the model has {shape.max_positions} positions")
