"""What changes between two plans: which layers move, and how the load of each rank changes. Ranges are compared, not layers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ppdsl.planning import Chunk, Plan

Place = tuple[int, int]
"""A rank, and the number of a chunk among its chunks."""


@dataclass(frozen=True, slots=True)
class Move:
    """Layers that go together from one chunk to another.

    Attributes:
        kind: ``embedding``, ``decoder``, ``final_norm``, ``mtp`` or ``loss``.
        layers: Half-open range of their numbers among the layers of that kind.
        before: Where they are under the first plan.
        after: Where they are under the second.
    """

    kind: str
    layers: tuple[int, int]
    before: Place
    after: Place


@dataclass(frozen=True, slots=True)
class Comparison:
    """What changes from one plan to another.

    Attributes:
        same: Whether the two mean the same.
        moves: The layers that both have and that are in another chunk; in forward order, kind by kind.
        loads: Decoder layers of each rank, before and after; a rank that one plan lacks has none there.
    """

    same: bool
    moves: tuple[Move, ...]
    loads: tuple[tuple[int, int], ...]

    def moved(self, kind: str) -> int:
        """How many layers of a kind move to another rank."""
        return sum(move.layers[1] - move.layers[0] for move in self.moves if move.kind == kind and move.before[0] != move.after[0])

    def shifted(self, kind: str) -> int:
        """How many layers of a kind go to another chunk of their rank."""
        return sum(move.layers[1] - move.layers[0] for move in self.moves if move.kind == kind and move.before[0] == move.after[0])


def compare(before: Plan, after: Plan) -> Comparison:
    """Compare two plans."""
    moves = [
        *_move_single("embedding", before, after),
        *_move_ranges(
            "decoder", _ranges(chunk.layers for chunk in before.chunks), before, _ranges(chunk.layers for chunk in after.chunks), after
        ),
        *_move_single("final_norm", before, after),
        *_move_ranges(
            "mtp", _ranges(chunk.mtp_layers for chunk in before.chunks), before, _ranges(chunk.mtp_layers for chunk in after.chunks), after
        ),
        *_move_single("loss", before, after),
    ]
    ranks = max(before.pp, after.pp)
    loads = tuple(zip(_loads(before, ranks), _loads(after, ranks), strict=True))
    return Comparison(before == after, tuple(moves), loads)


def _loads(plan: Plan, ranks: int) -> list[int]:
    loads = [0] * ranks
    for chunk in plan.chunks:
        loads[chunk.pp_rank] += chunk.layers[1] - chunk.layers[0]
    return loads


def _place(chunk: Chunk) -> Place:
    return chunk.pp_rank, chunk.vpp_rank


def _move_single(kind: str, before: Plan, after: Plan) -> Iterator[Move]:
    """Compare a layer of which there is one; ``kind`` is the chunk's field that says where it is."""
    old, new = (next((_place(chunk) for chunk in plan.chunks if getattr(chunk, kind)), None) for plan in (before, after))
    if old is not None and new is not None and old != new:
        yield Move(kind, (0, 1), old, new)


def _ranges(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Number the chunks: (stage, end of its layers), without those that have none."""
    return [(stage, stop) for stage, (start, stop) in enumerate(ranges) if start < stop]


def _move_ranges(kind: str, old: list[tuple[int, int]], before: Plan, new: list[tuple[int, int]], after: Plan) -> Iterator[Move]:
    """Walk both plans' ranges at once, and give the pieces between their ends that are in another chunk."""
    start = i = j = 0
    while i < len(old) and j < len(new):
        stop = min(old[i][1], new[j][1])
        places = _place(before.chunks[old[i][0]]), _place(after.chunks[new[j][0]])
        if places[0] != places[1]:
            yield Move(kind, (start, stop), *places)
        start = stop
        i += old[i][1] == stop
        j += new[j][1] == stop
