"""The codes of faults in how a layout is said, as ``ppdsl explain`` tells them."""

from __future__ import annotations

from ppdsl.diagnostics import Rule

FIRST_LAST = Rule(
    "PP207",
    "error",
    "first / last counts leave layers unassigned, or take more than there are",
    "The layers that the first and the last rank leave must split evenly over the other ranks, and each rank's over its chunks. "
    "Megatron-LM checks most of this, but drops layers in silence where one rank is both the first and the last.",
    wrong="check --first-stage-layers 3 --last-stage-layers 3 --num-layers 8 --pp 2",
    right="check --first-stage-layers 3 --last-stage-layers 5 --num-layers 8 --pp 2",
)
ENTRIES = Rule(
    "PP208",
    "error",
    "a partition, rank-major, chunk or cost list with the wrong number of entries or the wrong sum, or an entry that is not allowed",
    "A partition has one positive count a rank, a rank-major list one count a chunk; both add up to the layers of the model. Owned chunks "
    "are written rank:layers. A cost list has one positive cost a decoder layer, at least as many as there are ranks, and may have one "
    "each of E:, m:, N: and L: for the other layers: --layer-costs 1,1,1,1,L:2.",
    wrong="check --partition 5,7,6 --num-layers 24",
    right="check --partition 5,7,6,6 --num-layers 24",
)
LIST_FORM = Rule(
    "PP209",
    "error",
    "a list form that is not a list of lists of known layer names",
    "Megatron-LM's list form has one list a stage, of the names embedding, decoder, mtp and loss in quotes. The final norm is implied.",
    wrong="""check --list '[["embedding", "decodr"], ["decoder", "loss"]]'""",
    right="""check --list '[["embedding", "decoder"], ["decoder", "loss"]]'""",
)

RULES = (FIRST_LAST, ENTRIES, LIST_FORM)
