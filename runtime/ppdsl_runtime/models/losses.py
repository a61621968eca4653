"""The loss of a language model, as a sum and a count, so that microbatches of any make-up weigh right."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch.nn import functional

from ppdsl_runtime.losses import IGNORED, count_targets
from ppdsl_runtime.models.modules import shift

if TYPE_CHECKING:
    from torch import Tensor

    from ppdsl_runtime.models.modules import Payload


@dataclass(frozen=True, slots=True)
class LanguageModelLoss:
    """Cross entropy over the targets other than -100, computed in fp32, of logits in fp64 in that.

    MTP layer k (from 1) is to foresee the target k places further on. Its cross entropies are added to the sum times
    ``mtp_factor`` / number of MTP layers, and the count stays that of the main targets. So the loss of a batch does not depend on how it
    is cut into microbatches.

    Attributes:
        mtp_factor: Weight of all MTP losses together.
    """

    mtp_factor: float = 0.1

    def __call__(self, output: Payload, target: Tensor) -> tuple[Tensor, Tensor]:
        """Compute the loss.

        Args:
            output: Logits (batch, seq, vocab), or a tuple of them: the main ones, then those of each MTP layer.
            target: The token that follows each token (batch, seq), int64, or -100.

        Returns:
            The sum, an fp32 (or fp64) scalar, and the count, an int64 scalar.
        """
        main, *ahead = output if isinstance(output, tuple) else (output,)
        total = sum_cross_entropy(main, target)
        for places, logits in enumerate(ahead, 1):
            total = total + self.mtp_factor / len(ahead) * sum_cross_entropy(logits, shift(target, places, IGNORED))
        return total, count_targets(target)


def sum_cross_entropy(logits: Tensor, target: Tensor) -> Tensor:
    """Sum the cross entropies of logits (batch, seq, vocab) over the targets (batch, seq) other than -100, in fp32 or fp64."""
    full = logits if logits.dtype == torch.float64 else logits.float()
    return functional.cross_entropy(full.flatten(0, -2), target.flatten(), ignore_index=IGNORED, reduction="sum")
