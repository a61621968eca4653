"""What depends on how stages are dealt to ranks: PP301, PP310, PP311, PP314, PP316."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ppdsl.diagnostics import Proposal, Rule
from ppdsl.formatting import format_run, write_stages
from ppdsl.placing import rank_cycle
from ppdsl.validation.order import gather_mtp
from ppdsl.validation.subject import join_words, pieces_of, plural

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ppdsl.diagnostics import Diagnostic
    from ppdsl.validation.subject import Subject

DIVISIBILITY = Rule(
    "PP301",
    "error",
    "the number of stages is not a multiple of pp",
    "Stages are dealt to the ranks in whole passes, so each rank gets as many as every other. This fault is usual after a change of the pipeline size.",
    wrong="check 'Ett|tt|ttL' --pp 2",
    right="check 'Ett|tt|t|tL' --pp 2",
)
MTP_CHUNK = Rule(
    "PP310",
    "error",
    "MTP layers not in the last chunk of their rank",
    "Megatron-LM builds MTP layers only in the last virtual stage of a rank.",
    wrong="check 'Ett|ttm|L|' --pp 2",
    right="check 'Ett|tt||mL' --pp 2",
)
VPP = Rule(
    "PP311",
    "error",
    "--vpp differs from stages / pp",
    "The number of stages and pp say how many chunks a rank has. A vpp that is given as well must agree.",
    wrong="check 'Ett|tt|tt|ttL' --pp 2 --vpp 4",
    right="check 'Ett|tt|tt|ttL' --pp 2 --vpp 2",
)
OWNER_RANGE = Rule(
    "PP314",
    "error",
    "an owner outside 0..pp-1, or a rank that owns no stage",
    "Every rank takes part in the pipeline, and no other does.",
    wrong="check 'Et@0|tL@2' --pp 2",
    right="check 'Et@0|tL@1' --pp 2",
)
MTP_FIRST_RANK = Rule(
    "PP316",
    "warning",
    "MTP layers on the first rank",
    "Megatron-LM documents MTP on the first pipeline rank as unsupported, though its check lets it pass where a rank has one chunk.",
    wrong="check 'Etm|L' --pp 2",
    right="check 'Et|mL' --pp 2",
)
RULES = (DIVISIBILITY, MTP_CHUNK, VPP, OWNER_RANGE, MTP_FIRST_RANK)


def check_divisibility(subject: Subject) -> Iterator[Diagnostic]:
    """PP301: stages in whole passes over the ranks (loop and v)."""
    pp = subject.pp
    if pp is None or subject.placement is None or subject.stages % pp == 0:
        return
    passes = subject.options.vpp or max(1, round(subject.stages / pp))
    yield DIVISIBILITY.report(
        f"{plural(subject.stages, 'stage')} cannot be dealt to {plural(pp, 'rank')}: not a multiple",
        subject.whole,
        notes=[f"{subject.stages:,} mod {pp:,} = {subject.stages % pp:,}"] if subject.stages > pp else [],
        help=f"write a multiple of {pp:,} stages",
        proposals=_deal_anew(subject, pp, passes),
    )


def _deal_anew(subject: Subject, pp: int, vpp: int) -> list[Proposal]:
    """Propose the same layers, split evenly over pp x vpp stages, the earliest ones first."""
    tally, stages = subject.form.tally, pp * vpp
    if stages < 2:  # noqa: PLR2004 -- one stage is the first and the last
        return []
    share, longer = divmod(tally.count("t"), stages)
    tail = ("N" if tally.count("N") else "") + format_run("m", tally.count("m")) + "L"
    sizes = [(share + 1, longer), (share, stages - longer)] if longer else [(share, stages)]
    runs = [(format_run("t", size), number) for size, number in sizes]
    (first, first_number), (last, last_number) = runs[0], runs[-1]
    if len(runs) == 1:
        inner = [(first, stages - 2)]
    else:
        inner = [(first, first_number - 1), (last, last_number - 1)]
    layout = write_stages([(f"E{first}", 1), *inner, (last + tail, 1)], subject.options.limits.text)
    return [Proposal(f"the same layers over {plural(stages, 'stage')}", layout)] if layout else []


def check_vpp(subject: Subject) -> Iterator[Diagnostic]:
    """PP311: the vpp that was given against the one that stages and pp imply."""
    wanted, found = subject.options.vpp, subject.vpp
    if wanted is None:
        return
    if subject.pp is None and subject.form.order is not None and subject.stages % wanted:
        yield VPP.report(
            f"{plural(subject.stages, 'stage')} cannot be {plural(wanted, 'chunk')} on each rank", subject.whole, help="change --vpp"
        )
    elif found is not None and found != wanted and subject.pp is not None:
        if subject.placement is None:
            message = f"the largest number of chunks on a rank is {found}, --vpp says {wanted}"
        else:
            message = f"{plural(subject.stages, 'stage')} over {plural(subject.pp, 'rank')} give vpp {found}, --vpp says {wanted}"
        yield VPP.report(message, subject.whole, help=f"say --vpp {found}, or write {subject.pp * wanted:,} stages")


def check_owner_range(subject: Subject) -> Iterator[Diagnostic]:
    """PP314: every owner is a rank, and every rank is an owner."""
    pp = subject.pp
    if pp is None or subject.placement is not None:
        return
    used: set[int] = set()
    outside = []
    for _, stage, _ in subject.form.runs():
        owner = stage.owner or 0
        used.add(owner)
        if owner >= pp:
            outside.append((owner, stage.span))
    for owner, span in outside[:20]:
        yield OWNER_RANGE.report(f"owner {owner:,} is outside 0..{pp - 1:,}", span, help=f"write a rank below {pp:,}")
    missing = pp - len(used - {owner for owner, _ in outside})
    if missing and not outside:
        names = join_words(sorted(_first_missing(used, pp)))
        yield OWNER_RANGE.report(
            f"rank {names} owns no stage" if missing == 1 else f"{missing:,} ranks own no stage: {names}",
            subject.whole,
            help="give each rank a stage, or lower --pp",
        )


def _first_missing(used: set[int], pp: int) -> list[int]:
    missing: list[int] = []
    for rank in range(pp):
        if rank not in used:
            missing.append(rank)
        if len(missing) > 100:  # noqa: PLR2004 -- more are not written out
            break
    return missing


def check_mtp_chunk(subject: Subject) -> Iterator[Diagnostic]:
    """PP310: MTP layers in the last chunk of their rank, in forward order; PP316: not on the first rank (loop)."""
    pp = subject.dealt_pp
    if pp is None:
        return
    for number, stage, count in subject.stages_with("m"):
        piece = pieces_of(stage, "m")[0]
        later = _later_chunk(subject, number, pp)
        if later is not None:
            rank, chunk = later
            yield MTP_CHUNK.report(
                f"MTP layers in stage {number:,} are not in the last chunk of rank {rank:,}",
                piece.span,
                notes=[f"stage {chunk:,} is on rank {rank:,} too"],
                help="move them to the last pass over the ranks",
                proposals=gather_mtp(subject),
            )
        elif subject.placement == "loop" and pp > 1 and (number + count - 1) % pp == 0:
            yield MTP_FIRST_RANK.report(
                f"MTP layers in stage {number:,} are on the first rank",
                piece.span,
                notes=["Megatron-LM documents this as unsupported"],
                help="move them to another rank",
            )


def _later_chunk(subject: Subject, number: int, pp: int) -> tuple[int, int] | None:
    """Find a stage behind a stage, on the same rank: (rank, stage); None where there is none."""
    last = subject.stages - 1
    if subject.placement is None:
        owner = next(stage.owner or 0 for start, stage, _ in subject.form.runs() if start == number)
        owned = [start + times - 1 for start, stage, times in subject.form.runs() if stage.owner == owner]
        return (owner, max(owned)) if max(owned) > number else None
    cycle = rank_cycle(pp, subject.placement)
    rank = cycle[number % len(cycle)]
    if number < subject.stages - pp:
        after = next(stage for stage in range(max(number + 1, last - pp + 1), last + 1) if cycle[stage % len(cycle)] == rank)
        return rank, after
    return None
