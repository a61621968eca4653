"""The other ways to say a layout, as values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from ppdsl.diagnostics import Diagnostic
    from ppdsl.options import Options


@dataclass(frozen=True, slots=True)
class Uniform:
    """An even split of ``options.num_layers`` over pp x vpp stages; the remainder goes one each to the earliest stages."""


@dataclass(frozen=True, slots=True)
class Partition:
    """Decoder layers of each pipeline rank; vpp is 1.

    Attributes:
        layers: One positive count a rank.
    """

    layers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class OwnedChunks:
    """Stages with owners of their own; any rank may follow any.

    Attributes:
        chunks: (pipeline rank, decoder layers) of each stage in forward order. A stage may be empty.
    """

    chunks: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class FirstLast:
    """Megatron's uneven pipeline. Only one of the two pairs may be used.

    Attributes:
        first: Decoder layers of the first rank, over all its chunks; None for as many as every other rank.
        last: The same of the last rank.
        account_for_embedding: Whether the embedding takes the place of one decoder layer.
        account_for_loss: Whether the loss does.
    """

    first: int | None = None
    last: int | None = None
    account_for_embedding: bool = False
    account_for_loss: bool = False


@dataclass(frozen=True, slots=True)
class LayerLists:
    """Megatron's list form.

    Attributes:
        stages: The layer names of each stage in forward order: ``embedding``, ``decoder``, ``mtp``, ``loss``. Case and surrounding white
            space do not matter.
    """

    stages: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class RankMajor:
    """Decoder layers of each chunk, rank by rank.

    Attributes:
        layers: All chunks of rank 0 first, in forward order, then those of rank 1, and so on. A chunk may be empty.
    """

    layers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class CostList:
    """What each layer costs, in any unit; the layers are split so that the heaviest rank is as light as it can be. vpp is 1.

    Attributes:
        layers: The cost of each decoder layer in forward order, positive.
        embedding: The cost of the embedding, which the first stage bears.
        mtp: The cost of one MTP layer, of which the last stage has as many as the options count; None is that of the last decoder
            layer, after which Megatron-LM models it.
        norm: The cost of the final norm, which the last stage bears.
        loss: The cost of the lm-head with the loss, which the last stage bears.
    """

    layers: tuple[float, ...]
    embedding: float = 0.0
    mtp: float | None = None
    norm: float = 0.0
    loss: float = 0.0


Form: TypeAlias = Uniform | Partition | OwnedChunks | FirstLast | LayerLists | RankMajor | CostList


@dataclass(frozen=True, slots=True)
class Lowered:
    """What a form comes to.

    Attributes:
        text: The canonical text of the layout; None if and only if there is an error.
        options: What the text is to be checked against: the options given, with the sizes that the form implies.
        diagnostics: Every fault of the form.
        judged: The codes of advice that the form has given itself, by what it knows better than the text says.
    """

    text: str | None
    options: Options
    diagnostics: tuple[Diagnostic, ...] = ()
    judged: frozenset[str] = frozenset()


def refuse(options: Options, *faults: Diagnostic) -> Lowered:
    """Make the answer to a form that is at fault."""
    return Lowered(None, options, faults)
