"""Features of the target that exclude layouts, or that layouts need: PP520 to PP527."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ppdsl.diagnostics import Proposal, Rule
from ppdsl.parsing.edits import Edit, apply_edits
from ppdsl.validation.order import outer_runs, removed
from ppdsl.validation.subject import count_chunks, join_words, name_stages, plural, runs_with

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ppdsl.diagnostics import Diagnostic
    from ppdsl.validation.subject import Subject

EXCLUDED = Rule(
    "PP520",
    "error",
    "a flag that excludes layouts",
    "The target refuses this flag together with a layout: both say where layers go, or the flag brings a schedule that places them itself.",
    wrong="check 'Ett|ttL' --target megatron --with decoder-first-pipeline-num-layers=2",
    right="check 'Ett|ttL' --target megatron",
)
OVERLAP_EMPTY = Rule(
    "PP521",
    "error",
    "moe-fb-overlap with an empty decoder chunk",
    "MindSpeed's overlap of forward and backward pairs the decoder layers of two chunks, so each chunk must have one.",
    wrong="check 'Ett|t||tL' --pp 2 --target mindspeed --with moe-fb-overlap --with moe-token-dispatcher-type=alltoall --with "
    "moe-grouped-gemm --with expert-tensor-parallel-size=1 --with expert-model-parallel-size=2",
    right="check 'Et|t|t|tL' --pp 2 --target mindspeed --with moe-fb-overlap --with moe-token-dispatcher-type=alltoall --with "
    "moe-grouped-gemm --with expert-tensor-parallel-size=1 --with expert-model-parallel-size=2",
)
OVERLAP_NEEDS = Rule(
    "PP522",
    "error",
    "moe-fb-overlap without what it needs",
    "MindSpeed's overlap needs the alltoall dispatcher, grouped GEMM, expert-tensor-parallel-size 1 and expert-model-parallel-size over 1.",
    wrong="check 'Et|t|t|tL' --pp 2 --target mindspeed --with moe-fb-overlap",
    right="check 'Et|t|t|tL' --pp 2 --target mindspeed --with moe-fb-overlap --with moe-token-dispatcher-type=alltoall --with "
    "moe-grouped-gemm --with expert-tensor-parallel-size=1 --with expert-model-parallel-size=2",
)
INTERLEAVING = Rule(
    "PP523",
    "error",
    "interleaving with pp = 1, or with pp = 2 and no P2P overlap",
    "The interleaved schedule sends between ranks, so it needs more than one. With two ranks the previous and the next one are the same, "
    "which works only where sends and receives overlap.",
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
    wrong="check 'Ett@0|t@1|tL@1' --target infinitrain",
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
    "Megatron-LM asks whether mtp_num_layers is None, not whether it is 0: with an explicit 0 it builds the final norm in the stage of "
    "the last `t` instead of with `L`. Leave the flag out.",
    wrong="check 'Ett|ttL' --target megatron --mtp-num-layers 0",
    right="check 'Ett|ttL' --target megatron",
)
RULES = (EXCLUDED, OVERLAP_EMPTY, OVERLAP_NEEDS, INTERLEAVING, NORM_STAGE, UNEVEN_RANKS, MTP_UNSUPPORTED, ZERO_MTP)

_VIRTUAL = ("num-layers-per-virtual-pipeline-stage", "num-virtual-stages-per-pipeline-rank")
_UNEVEN = ("decoder-first-pipeline-num-layers", "decoder-last-pipeline-num-layers")
_MINDSPEED_COUNTS = ("pipeline-num-transformer-layers", "noop-layers")
EXCLUDING = {
    "megatron": (
        *_VIRTUAL,
        *_UNEVEN,
        "account-for-embedding-in-pipeline-split",
        "account-for-loss-in-pipeline-split",
        "hybrid-layer-pattern",
    ),
    "mindspeed": (*_VIRTUAL, *_MINDSPEED_COUNTS, "recompute-in-bubble", "recompute-in-advance"),
}
"""For each target, the flags that it refuses together with a layout."""

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

_OFF = ("false", "none", "null", "no", "off", "")
_NUMBERS = (*_VIRTUAL, *_UNEVEN, *_MINDSPEED_COUNTS)
"""Flags whose 0 is a number like any other: the targets ask whether they were given at all."""


def _is_on(features: Mapping[str, str | None], name: str) -> bool:
    """Tell whether a flag is given and on: a bare flag is, ``--with NAME=false`` is not."""
    value = features.get(name, "off")
    return value is None or not (value.lower() in _OFF or (value == "0" and name not in _NUMBERS))


def check_features(subject: Subject) -> Iterator[Diagnostic]:
    """PP520 to PP523 and PP527, for Megatron-LM and MindSpeed."""
    target = subject.options.target
    if target not in EXCLUDING:
        return
    features = dict(subject.options.features)
    for name in EXCLUDING[target]:
        if _is_on(features, name):
            yield _excluded(subject, name)
    if target == "mindspeed":
        yield from _check_mindspeed(subject, features)
    yield from _check_interleaving(subject, features)
    if target == "megatron" and subject.options.mtp_num_layers == 0:
        yield ZERO_MTP.report(
            "an explicit --mtp-num-layers of 0 moves the final norm to the stage of the last `t`",
            subject.whole,
            help="leave the flag out",
        )


def _check_interleaving(subject: Subject, features: Mapping[str, str | None]) -> Iterator[Diagnostic]:
    vpp, pp = subject.vpp or 1, subject.dealt_pp
    if vpp > 1 and pp == 1:
        message = f"vpp {vpp:,} with pp 1: interleaving needs more than one rank"
        yield INTERLEAVING.report(message, subject.whole, help="raise --pp, or write one stage")
    overlap = "overlap-p2p-communication"
    if vpp > 1 and pp == 2 and overlap in features and not _is_on(features, overlap):  # noqa: PLR2004 -- two ranks
        message = f"vpp {vpp:,} with pp 2 while P2P overlap is off"
        yield INTERLEAVING.report(message, subject.whole, help=f"turn {overlap} on, or use more ranks")


def _excluded(subject: Subject, name: str, why: str = "") -> Diagnostic:
    return EXCLUDED.report(
        f"{subject.options.target} refuses a layout together with --{name}{why}",
        subject.whole,
        help=f"leave --{name} out",
    )


def _check_mindspeed(subject: Subject, features: Mapping[str, str | None]) -> Iterator[Diagnostic]:
    if (features.get("schedules-method") or "").lower() == "dualpipev":
        yield _excluded(subject, "schedules-method", " dualpipev")
    if (subject.vpp or 1) > 1 and _is_on(features, "optimize-send-recv-comm"):
        yield _excluded(subject, "optimize-send-recv-comm", " where vpp > 1")
    if not _is_on(features, "moe-fb-overlap"):
        return
    empty = [(number, stage, count) for number, stage, count in subject.form.runs() if not stage.count("t")] if subject.listed else []
    if empty:
        yield OVERLAP_EMPTY.report(
            f"moe-fb-overlap with no decoder layer in {name_stages((number, count) for number, _, count in empty)}",
            empty[0][1].span,
            help="give each stage a decoder layer, or leave --moe-fb-overlap out",
        )
    missing = [*_missing_for_overlap(features)]
    if missing:
        message = f"moe-fb-overlap needs {join_words(missing)}"
        yield OVERLAP_NEEDS.report(message, subject.whole, help="add what is missing, or leave --moe-fb-overlap out")


def _missing_for_overlap(features: Mapping[str, str | None]) -> Iterator[str]:
    if features.get("moe-token-dispatcher-type") != "alltoall":
        yield "--moe-token-dispatcher-type alltoall"
    if not _is_on(features, "moe-grouped-gemm"):
        yield "--moe-grouped-gemm"
    if features.get("expert-tensor-parallel-size") != "1":
        yield "--expert-tensor-parallel-size 1"
    experts = features.get("expert-model-parallel-size") or ""
    if not (experts.isascii() and experts.isdigit()) or experts.lstrip("0") in ("", "1"):
        yield "--expert-model-parallel-size over 1"


def check_infinitrain(subject: Subject) -> Iterator[Diagnostic]:
    """PP524 to PP526, for InfiniTrain."""
    if subject.options.target != "infinitrain":
        return
    if subject.listed:
        yield from _check_norm_stage(subject)
    if subject.placement is None and subject.dealt_pp is not None:
        chunks = count_chunks(subject.form)
        fewest, most = min(chunks, key=chunks.__getitem__), max(chunks, key=chunks.__getitem__)
        if chunks[fewest] != chunks[most]:
            yield UNEVEN_RANKS.report(
                f"rank {fewest:,} has {plural(chunks[fewest], 'chunk')}, rank {most:,} has {chunks[most]:,}",
                subject.whole,
                help="give every rank the same number of stages",
            )
    mtp = subject.form.tally.first("m")
    if mtp is not None:
        runs = outer_runs(subject, "m")
        yield MTP_UNSUPPORTED.report(
            f"layout has {plural(subject.form.tally.count('m'), 'MTP layer')}, infinitrain has none",
            mtp.span,
            help="leave them out",
            proposals=[Proposal("leave them out", apply_edits(subject.text, map(removed, runs)))] if runs else [],
        )


def _check_norm_stage(subject: Subject) -> Iterator[Diagnostic]:
    norm, loss = subject.form.tally.first("N"), subject.form.tally.last("L")
    if norm is None or loss is None or subject.form.tally.count("N") > 1 or subject.form.tally.count("L") > 1:
        return
    norms, losses = runs_with(subject.form, "N"), runs_with(subject.form, "L")
    if norms[0][0] == losses[0][0]:
        return
    fix = apply_edits(subject.text, [removed(norm), Edit(loss.start, loss.start, "N")])
    yield NORM_STAGE.report(
        f"`N` is in stage {norms[0][0]:,}, `L` in stage {losses[0][0]:,}",
        norm.span,
        help="write `N` before `L`",
        proposals=[Proposal("write `N` before `L`", fix)],
    )
