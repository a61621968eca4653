"""Batches by number: the same on every rank, whoever asks, in any order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

if TYPE_CHECKING:
    from torch import Tensor

    from ppdsl_runtime.data.tokens import TokenData


class Batches:
    """Cuts tokens into batches, one behind the other, and begins anew where they end.

    Attributes:
        data: The tokens.
        batch: Sequences of a batch.
        seq: Tokens of a sequence.
    """

    def __init__(self, data: TokenData, *, batch: int, seq: int, vocab: int) -> None:
        """Check the data.

        Args:
            data: The tokens.
            batch: Sequences of a batch.
            seq: Tokens of a sequence.
            vocab: The size of the model's vocabulary; every token is looked at.

        Raises:
            ValueError: A size is not positive, there are too few tokens for one batch and the token behind it, or one is not in the
                vocabulary.
        """
        if min(batch, seq) < 1:
            raise ValueError(f"batch is {batch} and seq {seq}, not two integers from 1")
        if len(data.tokens) < batch * seq + 1:
            raise ValueError(f"{data.name} has {len(data.tokens)} tokens, a batch of {batch} x {seq} needs {batch * seq + 1}")
        data.check(vocab)
        self.data = data
        self.batch = batch
        self.seq = seq

    def get(self, step: int) -> tuple[Tensor, Tensor]:
        """Give one batch.

        Args:
            step: Its number, from 0.

        Returns:
            Tokens and targets, each (batch, seq), int64, on the CPU: a target is the token behind. Behind the last one comes the first.

        Raises:
            ValueError: The number is negative.
        """
        if step < 0:
            raise ValueError(f"step is {step}, not an integer from 0")
        count, size = len(self.data.tokens), self.batch * self.seq
        start = step * size % count
        first = self.data.tokens[start : start + size + 1]
        stretch = np.concatenate((first, self.data.tokens[: size + 1 - len(first)])).astype(np.int64)
        tokens = torch.from_numpy(stretch)
        shape = (self.batch, self.seq)
        return tokens[:-1].reshape(shape).clone(), tokens[1:].reshape(shape).clone()
