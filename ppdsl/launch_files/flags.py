"""The flags and keys that are taken from launch files: one table of canonical names and the other spellings of each."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Kind = Literal["layout", "form", "size", "feature"]


@dataclass(frozen=True, slots=True)
class Flag:
    """What is known of a flag or key.

    Attributes:
        name: Megatron's name, with dashes.
        kind: ``layout``; ``form``, another way to say a layout; ``size``, which a layout is checked against, or which another flag
            needs; ``feature``, which may exclude a layout, and so counts only where it surely is on together with it.
        switch: Whether it may stand without a value.
        inverted: Whether this spelling means the opposite of the name.
        weak: Whether this spelling is so short that it may mean something else. It counts only in the layout's own scope or one around
            it, and only where that scope has no full spelling.
    """

    name: str
    kind: Kind
    switch: bool = False
    inverted: bool = False
    weak: bool = False

    @property
    def holds_layout(self) -> bool:
        """Whether it says a layout, in whatever form."""
        return self.kind in {"layout", "form"}


# (kind, name, other full spellings, short spellings). The full ones are those of Megatron-LM's command line, its configuration
# classes, Megatron-Bridge, NeMo, MindSpeed and InfiniTrain.
_VALUES: tuple[tuple[Kind, str, str, str], ...] = (
    ("layout", "pipeline-model-parallel-layout", "pp-layout", ""),
    ("form", "pipeline-layer-partition", "", ""),
    ("form", "pipeline-layer-costs", "", ""),
    ("form", "pipeline-chunk-layout", "", ""),
    ("size", "pipeline-model-parallel-size", "", "pipeline-parallel-size pipeline-parallel pp-size pp"),
    (
        "size",
        "virtual-pipeline-model-parallel-size",
        "",
        "virtual-pipeline-parallel-size virtual-pipeline-parallel vpp-size vp-size vpp vp",
    ),
    ("size", "num-layers", "", ""),
    ("size", "mtp-num-layers", "", ""),
    ("size", "micro-batch-size", "", "mbs"),
    ("size", "global-batch-size", "", "gbs"),
    ("size", "data-parallel-size", "", "dp-size dp"),
    ("size", "microbatch-group-size-per-vp-stage", "microbatch-group-size-per-virtual-pipeline-stage", ""),
    ("size", "expert-tensor-parallel-size", "", ""),
    ("size", "expert-model-parallel-size", "", ""),
    ("size", "moe-token-dispatcher-type", "", ""),
    ("feature", "num-layers-per-virtual-pipeline-stage", "", ""),
    ("feature", "num-virtual-stages-per-pipeline-rank", "", ""),
    ("feature", "decoder-first-pipeline-num-layers", "num-layers-in-first-pipeline-stage", ""),
    ("feature", "decoder-last-pipeline-num-layers", "num-layers-in-last-pipeline-stage", ""),
    ("feature", "hybrid-layer-pattern", "hybrid-override-pattern", ""),
    ("feature", "pipeline-num-transformer-layers", "", ""),
    ("feature", "noop-layers", "", ""),
    ("feature", "schedules-method", "", ""),
)
# (kind, name, spellings with the same meaning, spellings with the opposite one).
_SWITCHES: tuple[tuple[Kind, str, str, str], ...] = (
    ("feature", "untie-embeddings-and-output-weights", "", "share-embeddings-and-output-weights"),
    ("feature", "overlap-p2p-communication", "overlap-p2p-comm", "no-overlap-p2p-communication"),
    ("size", "moe-grouped-gemm", "", ""),
    ("feature", "account-for-embedding-in-pipeline-split", "", ""),
    ("feature", "account-for-loss-in-pipeline-split", "", ""),
    ("feature", "recompute-in-bubble", "", ""),
    ("feature", "recompute-in-advance", "", ""),
    ("feature", "optimize-send-recv-comm", "", ""),
    ("feature", "moe-fb-overlap", "", ""),
)


def _table() -> dict[str, Flag]:
    table: dict[str, Flag] = {}
    for kind, name, full, short in _VALUES:
        table.update((spelling, Flag(name, kind)) for spelling in (name, *full.split()))
        table.update((spelling, Flag(name, kind, weak=True)) for spelling in short.split())
    for kind, name, same, opposite in _SWITCHES:
        table.update((spelling, Flag(name, kind, switch=True)) for spelling in (name, *same.split()))
        table.update((spelling, Flag(name, kind, switch=True, inverted=True)) for spelling in opposite.split())
    return table


FLAGS = _table()


def _pattern(spellings: list[str]) -> str:
    return "|".join(spelling.replace("-", "[-_]") for spelling in sorted(spellings, key=len, reverse=True))


# A file that matches this nowhere says no layout, and need not be read any further.
LAYOUT_NAME = re.compile(rf"(?<![A-Za-z0-9])(?:{_pattern([name for name, flag in FLAGS.items() if flag.holds_layout])})(?![A-Za-z0-9])")
_WORD = re.compile(r"(?<![A-Za-z0-9_-])(--)?([A-Za-z][A-Za-z0-9_-]*)")


def mentions_flag(text: str) -> bool:
    """Tell whether a text may hold a known flag of a command line, or a dotted override of one.

    Args:
        text: The text of a command, a word, or prose.

    Returns:
        Whether ``--flag``, ``--flag=value`` or ``flag=value`` is in it.
    """
    for word in _WORD.finditer(text):
        follower = text[word.end() : word.end() + 1]
        if (follower == "=" or (word[1] and (not follower or follower.isspace()))) and find_flag(word[2]) is not None:
            return True
    return False


def find_flag(spelling: str) -> Flag | None:
    """Look a flag or key up.

    Args:
        spelling: As the file has it: with dashes or underscores, with or without leading dashes.

    Returns:
        The flag; None where it is none of those that matter here.
    """
    return FLAGS.get(spelling.strip(" \t-").replace("_", "-"))
