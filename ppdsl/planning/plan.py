"""The chunk-ownership table: plain frozen data that model construction, runtime, checkpoint loading and exporters all read."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

PlanPlacement = Literal["loop", "v", "owners"]


class Chunk(NamedTuple):  # a plan may hold a million of them, and a frozen dataclass takes three times as long to make
    """One stage, and where it is.

    Attributes:
        stage: Its number in forward order, from 0.
        pp_rank: The pipeline rank that owns it.
        vpp_rank: Its number among that rank's chunks, in forward order.
        layers: Half-open range of decoder layers, numbered over the whole model; empty for a stage with none.
        mtp_layers: The same for multi-token-prediction layers.
        embedding: Whether it holds the embedding.
        final_norm: Whether it holds the final norm, written or implied.
        loss: Whether it holds the lm-head and the loss.
    """

    stage: int
    pp_rank: int
    vpp_rank: int
    layers: tuple[int, int]
    mtp_layers: tuple[int, int]
    embedding: bool
    final_norm: bool
    loss: bool


class LayerMove(NamedTuple):
    """Where one layer is under two plans.

    Attributes:
        kind: ``embedding``, ``decoder``, ``mtp``, ``final_norm`` or ``loss``.
        layer: Its number among the layers of its kind.
        before: (pp_rank, vpp_rank, index inside the chunk) under the first plan.
        after: The same under the second.
    """

    kind: str
    layer: int
    before: tuple[int, int, int]
    after: tuple[int, int, int]


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """Which layers live in which chunk on which rank.

    Two plans are equal when they mean the same: the same stages, owners and stage of the final norm, however they were written.

    Attributes:
        layout: The canonical layout.
        pp: Number of pipeline ranks.
        vpp: The largest number of chunks on a rank.
        placement: ``loop``, ``v`` or ``owners``.
        num_layers: Decoder layers of the model.
        mtp_num_layers: Multi-token-prediction layers of the model.
        chunks: Every chunk, by stage.
    """

    layout: str
    pp: int
    vpp: int
    placement: PlanPlacement
    num_layers: int
    mtp_num_layers: int
    chunks: tuple[Chunk, ...]
    _owned: tuple[tuple[Chunk, ...], ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        owned: list[list[Chunk]] = [[] for _ in range(self.pp)]
        for chunk in self.chunks:
            owned[chunk.pp_rank].append(chunk)
        object.__setattr__(self, "_owned", tuple(map(tuple, owned)))

    def __eq__(self, other: object) -> bool:
        """Compare the meaning."""
        return self.meaning() == other.meaning() if isinstance(other, Plan) else NotImplemented

    def __hash__(self) -> int:
        """Hash the meaning."""
        return hash(self.meaning())

    def meaning(self) -> str:
        """Give the text whose SHA-256 is the fingerprint: version, stages, owners and the stage of the final norm, a line each."""
        from ppdsl.planning.writing import write_meaning  # noqa: PLC0415 -- asked for seldom

        return write_meaning(self)

    @property
    def fingerprint(self) -> str:
        """``sha256:`` and the hex digest of the plan's meaning."""
        from hashlib import sha256  # noqa: PLC0415 -- asked for seldom

        return "sha256:" + sha256(self.meaning().encode()).hexdigest()

    def embedding_ranks(self, *, tied: bool) -> list[int]:
        """Give the ranks that hold a copy of the word embedding, sorted.

        Args:
            tied: Whether the lm-head shares the embedding's weight.
        """
        ranks = {c.pp_rank for c in self.chunks if c.embedding or c.mtp_layers[0] < c.mtp_layers[1] or (tied and c.loss)}
        return sorted(ranks)

    def chunk(self, pp_rank: int, vpp_rank: int) -> Chunk:
        """Give one chunk of a rank.

        Raises:
            IndexError: The rank or the chunk does not exist.
        """
        chunks = self.chunks_of(pp_rank)
        _within("vpp_rank", vpp_rank, len(chunks))
        return chunks[vpp_rank]

    def chunks_of(self, pp_rank: int) -> tuple[Chunk, ...]:
        """Give a rank's chunks in forward order.

        Raises:
            IndexError: The rank is outside 0..pp-1.
        """
        _within("pp_rank", pp_rank, self.pp)
        return self._owned[pp_rank]

    def layer_ranges(self, pp_rank: int) -> list[tuple[int, int]]:
        """Give a rank's half-open ranges of decoder layers, one a chunk.

        Raises:
            IndexError: The rank is outside 0..pp-1.
        """
        return [chunk.layers for chunk in self.chunks_of(pp_rank)]

    def stage_for_layer(self, layer: int) -> Chunk:
        """Give the chunk that owns a decoder layer.

        Raises:
            IndexError: The layer is outside 0..num_layers-1.
        """
        from bisect import bisect_right  # noqa: PLC0415 -- asked for seldom

        _within("layer", layer, self.num_layers)
        return self.chunks[bisect_right(self.chunks, layer, key=_first_layer) - 1]

    def rank_for_layer(self, layer: int) -> int:
        """Give the rank that owns a decoder layer.

        Raises:
            IndexError: The layer is outside 0..num_layers-1.
        """
        return self.stage_for_layer(layer).pp_rank

    def local_layer(self, layer: int) -> tuple[int, int, int]:
        """Map a decoder layer to (pp_rank, vpp_rank, index inside the chunk).

        Raises:
            IndexError: The layer is outside 0..num_layers-1.
        """
        chunk = self.stage_for_layer(layer)
        return chunk.pp_rank, chunk.vpp_rank, layer - chunk.layers[0]

    def owns_embedding(self, pp_rank: int) -> bool:
        """Whether a rank holds the embedding layer itself. Raises IndexError outside 0..pp-1."""
        return any(chunk.embedding for chunk in self.chunks_of(pp_rank))

    def owns_final_norm(self, pp_rank: int) -> bool:
        """Whether a rank holds the final norm. Raises IndexError outside 0..pp-1."""
        return any(chunk.final_norm for chunk in self.chunks_of(pp_rank))

    def owns_lm_head(self, pp_rank: int) -> bool:
        """Whether a rank holds the lm-head and the loss. Raises IndexError outside 0..pp-1."""
        return any(chunk.loss for chunk in self.chunks_of(pp_rank))

    def num_layers_to_build(self, pp_rank: int, vpp_rank: int) -> int:
        """Megatron's question: how many decoder layers a chunk has. Raises IndexError where there is no such chunk."""
        start, stop = self.chunk(pp_rank, vpp_rank).layers
        return stop - start

    def layer_offset(self, pp_rank: int, vpp_rank: int) -> int:
        """Megatron's question: how many decoder layers stand before a chunk. Raises IndexError where there is no such chunk."""
        return self.chunk(pp_rank, vpp_rank).layers[0]

    def layer_ids(self, pp_rank: int, vpp_rank: int) -> list[int]:
        """Megatron's question: the numbers of a chunk's decoder layers. Raises IndexError where there is no such chunk."""
        return [*range(*self.chunk(pp_rank, vpp_rank).layers)]

    def needs_tokens(self, stage: int) -> bool:
        """Whether a stage reads the tokens: it holds the embedding, or MTP layers. Raises IndexError where there is no such stage."""
        _within("stage", stage, len(self.chunks))
        chunk = self.chunks[stage]
        return chunk.embedding or chunk.mtp_layers[0] < chunk.mtp_layers[1]

    def needs_labels(self, stage: int) -> bool:
        """Whether a stage reads the labels: it holds the loss; MTP losses are taken there too. Raises IndexError for no such stage."""
        _within("stage", stage, len(self.chunks))
        return self.chunks[stage].loss

    def table(self) -> str:
        """Draw the rank x vpp table as text."""
        from ppdsl.planning.tables import draw_table  # noqa: PLC0415 -- asked for seldom

        return draw_table(self)

    def remap(self, other: Plan) -> list[LayerMove]:
        """Say where each layer is under this plan and under another, for converting checkpoints.

        Returns:
            A move for every layer of the model, in forward order, those that stay where they are included.

        Raises:
            ValueError: The two plans are of models with different numbers of layers.
        """
        from ppdsl.planning.remapping import list_moves  # noqa: PLC0415 -- asked for seldom

        return list_moves(self, other)

    def to_json(self) -> dict[str, object]:
        """Give the plan as data that ``json.dumps`` takes, its fingerprint included."""
        from ppdsl.planning.writing import plan_as_json  # noqa: PLC0415 -- asked for seldom

        return plan_as_json(self)

    @classmethod
    def from_json(cls, data: Mapping[str, object] | str) -> Plan:
        """Read a plan that ``to_json`` wrote, as data or as JSON text.

        Raises:
            ValueError: The data is damaged, or comes from a later version; the text says what is wrong.
        """
        from ppdsl.planning.loading import load_plan  # noqa: PLC0415 -- asked for seldom

        return load_plan(data)


def _first_layer(chunk: Chunk) -> int:
    return chunk.layers[0]


def _within(name: str, index: int, size: int) -> None:
    if not hasattr(index, "__index__"):
        raise TypeError(f"{name} must be a whole number, not {type(index).__name__}")
    if not 0 <= index < size:
        message = f"{name} {index} is outside 0..{size - 1}" if size else f"{name} {index}: there are none"
        raise IndexError(message)
