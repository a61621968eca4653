"""A stand-in for a trainer: each rank builds its parts of the model from the plan, and a batch goes through all of them.

Nothing here needs torch, and nothing asks which rank this process is: the plan takes the rank as an argument.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ppdsl import compile_layout

if TYPE_CHECKING:
    from ppdsl import Chunk, Plan

LAYOUT = "Et*3||t*3|t*6NL"


def build_part(chunk: Chunk) -> list[str]:
    """Build one chunk; a trainer would make modules of these names."""
    names = [f"layers.{layer}" for layer in range(*chunk.layers)]
    if chunk.embedding:
        names.insert(0, "embedding")
    if chunk.final_norm:
        names.append("norm")
    if chunk.loss:
        names.append("lm_head")
    return names


def build_rank(plan: Plan, pp_rank: int) -> list[list[str]]:
    """Build the parts of one rank, in the order in which it runs them."""
    return [build_part(chunk) for chunk in plan.chunks_of(pp_rank)]


def main() -> None:
    """Build every rank's parts, then send a batch through them in the order of the stages."""
    plan = compile_layout(LAYOUT, pp=2, num_layers=12)
    ranks = [build_rank(plan, rank) for rank in range(plan.pp)]
    for rank, parts in enumerate(ranks):
        print(f"rank {rank} builds {sum(map(len, parts))} modules in {len(parts)} parts")

    done = []
    for chunk in plan.chunks:
        part = ranks[chunk.pp_rank][chunk.vpp_rank]
        done += part
        print(f"stage {chunk.stage} on rank {chunk.pp_rank}: {' '.join(part) or 'passes on what it receives'}")
    print("whole model:", done == ["embedding", *(f"layers.{layer}" for layer in range(12)), "norm", "lm_head"])

    # A checkpoint that was written under another layout: which layers have to move?
    before = compile_layout("Et*4|t*8NL", pp=2, num_layers=12)
    moved = [move.layer for move in before.remap(plan) if move.kind == "decoder" and move.before[0] != move.after[0]]
    print("layers that change their rank:", *moved)


if __name__ == "__main__":
    main()

# Prints:
#
# rank 0 builds 7 modules in 2 parts
# rank 1 builds 8 modules in 2 parts
# stage 0 on rank 0: embedding layers.0 layers.1 layers.2
# stage 1 on rank 1: passes on what it receives
# stage 2 on rank 0: layers.3 layers.4 layers.5
# stage 3 on rank 1: layers.6 layers.7 layers.8 layers.9 layers.10 layers.11 norm lm_head
# whole model: True
# layers that change their rank: 4 5
