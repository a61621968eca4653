"""Features of the target that exclude layouts, or that layouts need: PP520 to PP527."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ppdsl.diagnostics import Rule
from ppdsl.validation.subject import join_words, plural

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ppdsl.diagnostics import Diagnostic
    from ppdsl.validation.subject import Subject

EXCLUDED = Rule(
    "PP520",
    "error",
    "a flag that excludes layouts",
    "The target refuses this flag together with a layout, since both say where layers go, or since its schedule places them itself.",
    wrong="check 'Ett|ttL' --target megatron --with decoder-first-pipeline-num-layers=2",
    right="check 'Ett|ttL' --target megatron",
)
OVERLAP_EMPTY = Rule(
    "PP521",
    "error",
    "moe-fb-overlap with an empty decoder chunk",
    "MindSpeed's overlap of forward and backward pairs the decoder layers of two chunks, so each chunk must have one.",
    wrong="check 'Et|tt||tL' --pp 2 --target mindspeed --with moe-fb-overlap --with moe-token-dispatcher-type=alltoall --with moe-grouped-gemm "
    "--with expert-tensor-parallel-size=1 --with expert-model-parallel-size=2",
    right="check 'Et|t|t|tL' --pp 2 --target mindspeed --with moe-fb-overlap --with moe-token-dispatcher-type=alltoall --with moe-grouped-gemm "
    "--with expert-tensor-parallel-size=1 --with expert-model-parallel-size=2",
)
OVERLAP_NEEDS = Rule(
    "PP522",
    "error",
    "moe-fb-overlap without what it needs",
    "MindSpeed's overlap needs the alltoall dispatcher, grouped GEMM, expert-tensor-parallel-size 1 and expert-model-parallel-size over 1.",
    wrong="check 'Et|t|t|tL' --pp 2 --target mindspeed --with moe-fb-overlap",
    right="check 'Et|t|t|tL' --pp 2 --target mindspeed --with moe-fb-overlap --with moe-token-dispatcher-type=alltoall --with moe-grouped-gemm "
    "--with expert-tensor-parallel-size=1 --with expert-model-parallel-size=2",
)
INTERLEAVING = Rule(
    "PP523",
    "error",
    "interleaving with pp = 1, or with pp = 2 and no P2P overlap",
    "The interleaved schedule sends between ranks, so it needs more than one; and with two ranks the previous and the next are the same, which "
    "works only where sends and receives overlap.",
    wrong="check 'Et|tL' --pp 1 --target megatron",
    right="check 'Et|tL' --pp 2 --target megatron",
)
NORM_STAGE = Rule(
    "PP524",
    "error",
    "`N` in another stage than `L`",
    "InfiniTrain builds the final norm together with the lm-head.",
    wrong="check 'Ett|ttN|L' --target infinitrain",
    right="check 'Ett|tt|NL' --target infinitrain",
)
UNEVEN_RANKS = Rule(
    "PP525",
    "error",
    "ranks with different numbers of chunks",
    "InfiniTrain gives every rank the same number of chunks.",
    wrong="check 'Et@0|t@1|tL@1' --target infinitrain",
    right="check 'Et@0|t@1|t@1|tL@0' --target infinitrain",
)
MTP_UNSUPPORTED = Rule(
    "PP526",
    "error",
    "MTP layers",
    "InfiniTrain has no multi-token-prediction layers.",
    wrong="check 'Ett|tmL' --target infinitrain",
    right="check 'Ett|tL' --target infinitrain",
)
ZERO_MTP = Rule(
    "PP527",
    "warning",
    "an explicit --mtp-num-layers of 0",
    "Megatron-LM asks whether mtp_num_layers is None, not whether it is 0: with an explicit 0 it builds the final norm in the stage of the last t "
    "instead of with L. Leave the flag out.",
    wrong="check 'Ett|ttL' --target megatron --mtp-num-layers 0",
    right="check 'Ett|ttL' --target megatron",
)
RULES = (EXCLUDED, OVERLAP_EMPTY, OVERLAP_NEEDS, INTERLEAVING, NORM_STAGE, UNEVEN_RANKS, MTP_UNSUPPORTED, ZERO_MTP)

_VIRTUAL = ("num-layers-per-virtual-pipeline-stage", "num-virtual-stages-per-pipeline-rank")
EXCLUDING = {
    "megatron": (
        *_VIRTUAL,
        "decoder-first-pipeline-num-layers",
        "decoder-last-pipeline-num-layers",
        "account-for-embedding-in-pipeline-split",
        "account-for-loss-in-pipeline-split",
        "hybrid-layer-pattern",
    ),
    "mindspeed": (*_VIRTUAL, "pipeline-num-transformer-layers", "noop-layers", "recompute-in-bubble", "recompute-in-advance"),
}
"""For each target, the flags that it refuses together with a layout, whatever their value."""

NEEDED_BY_OVERLAP = ("moe-token-dispatcher-type", "moe-grouped-gemm", "expert-tensor-parallel-size", "expert-model-parallel-size")

FEATURES = (
    *EXCLUDING["megatron"],
    *EXCLUDING["mindspeed"][len(_VIRTUAL) :],
    "schedules-method",
    "optimize-send-recv-comm",
    "moe-fb-overlap",
    *NEEDED_BY_OVERLAP,
    "overlap-p2p-communication",
)
"""Every feature that ``--with`` takes."""

_OFF = ("false", "none", "null", "no", "off", "0", "")


def _is_on(value: str | None) -> bool:
    """A bare flag is on; ``--with NAME=false`` is off."""
    return value is None or value.lower() not in _OFF


def check_features(subject: Subject) -> Iterator[Diagnostic]:
    """PP520 to PP523 and PP527, for Megatron-LM and MindSpeed."""
    target, features = subject.options.target, dict(subject.options.features)
    if target not in EXCLUDING:
        return
    for name in EXCLUDING[target]:
        if name in features and _is_on(features[name]):
            yield _excluded(subject, name)
    if target == "mindspeed":
        yield from _check_mindspeed(subject, features)
    vpp, pp = subject.vpp or 1, subject.dealt_pp
    if vpp > 1 and pp == 1:
        yield INTERLEAVING.report(f"vpp {vpp:,} with pp 1: interleaving needs more than one rank", subject.whole, help="raise --pp, or write one stage")
    elif vpp > 1 and pp == 2 and not _is_on(features.get("overlap-p2p-communication")):  # noqa: PLR2004 -- two ranks
        yield INTERLEAVING.report(
            f"vpp {vpp:,} with pp 2 while P2P overlap is off", subject.whole, help="turn overlap-p2p-communication on, or use more ranks"
        )
    if target == "megatron" and subject.options.mtp_num_layers == 0:
        yield ZERO_MTP.report(
            "an explicit --mtp-num-layers of 0 moves the final norm to the stage of the last `t`",
            subject.whole,
            help="leave the flag out",
        )


def _excluded(subject: Subject, name: str, why: str = "") -> Diagnostic:
    return EXCLUDED.report(
        f"{subject.options.target} refuses a layout together with --{name}{why}",
        subject.whole,
        help=f"leave --{name} out",
    )


def _check_mindspeed(subject: Subject, features: dict[str, str | None]) -> Iterator[Diagnostic]:
    if (features.get("schedules-method") or "").lower() == "dualpipev":
        yield _excluded(subject, "schedules-method", " dualpipev")
    if (subject.vpp or 1) > 1 and "optimize-send-recv-comm" in features and _is_on(features["optimize-send-recv-comm"]):
        yield _excluded(subject, "optimize-send-recv-comm", " where vpp > 1")
    if "moe-fb-overlap" not in features or not _is_on(features["moe-fb-overlap"]):
        return
    empty = [(number, stage.span) for number, stage, _ in subject.form.runs() if not stage.count("t")]
    if empty:
        yield OVERLAP_EMPTY.report(
            f"moe-fb-overlap with no decoder layer in {plural(len(empty), 'stage')[2:]} {join_words(number for number, _ in empty)}"
            if len(empty) == 1
            else f"moe-fb-overlap with no decoder layer in stages {join_words(number for number, _ in empty)}",
            empty[0][1],
            help="give each stage a decoder layer, or leave --moe-fb-overlap out",
        )
    missing = [*_missing_for_overlap(features)]
    if missing:
        yield OVERLAP_NEEDS.report(f"moe-fb-overlap needs {join_words(missing)}", subject.whole, help="add them, or leave --moe-fb-overlap out")


def _missing_for_overlap(features: dict[str, str | None]) -> Iterator[str]:
    if features.get("moe-token-dispatcher-type") != "alltoall":
        yield "--moe-token-dispatcher-type alltoall"
    if "moe-grouped-gemm" not in features or not _is_on(features["moe-grouped-gemm"]):
        yield "--moe-grouped-gemm"
    if features.get("expert-tensor-parallel-size") != "1":
        yield "--expert-tensor-parallel-size 1"
    experts = features.get("expert-model-parallel-size") or ""
    if not (experts.isascii() and experts.isdigit() and int(experts[:12]) > 1):
        yield "--expert-model-parallel-size over 1"


def check_infinitrain(subject: Subject) -> Iterator[Diagnostic]:
    """PP524 to PP526, for InfiniTrain."""
    if subject.options.target != "infinitrain":
        return
    tally = subject.form.tally
    norms, losses = subject.stages_with("N"), subject.stages_with("L")
    if len(norms) == 1 and len(losses) == 1 and norms[0][0] != losses[0][0]:
        yield NORM_STAGE.report(
            f"`N` is in stage {norms[0][0]:,}, `L` in stage {losses[0][0]:,}", (tally.first("N") or subject.items[0]).span, help="write `N` before `L`"
        )
    if subject.placement is None and subject.dealt_pp:
        chunks = [0] * subject.dealt_pp
        for _, stage, count in subject.form.runs():
            chunks[stage.owner or 0] += count
        if min(chunks) != max(chunks):
            yield UNEVEN_RANKS.report(
                f"rank {chunks.index(min(chunks))} has {plural(min(chunks), 'chunk')}, rank {chunks.index(max(chunks))} has {max(chunks):,}",
                subject.whole,
                help="give every rank the same number of stages",
            )
    mtp = tally.first("m")
    if mtp is not None:
        yield MTP_UNSUPPORTED.report(f"infinitrain has no MTP layers, the layout has {tally.count('m'):,}", mtp.span, help="leave them out")
