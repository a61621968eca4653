"""What depends on how stages are dealt to ranks: PP301, PP310, PP311, PP314, PP316."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from ppdsl.diagnostics import Proposal, Rule
from ppdsl.formatting import MOST_COUNT, format_run, write_stages
from ppdsl.placing import rank_of, stage_of
from ppdsl.validation.order import gather_mtp
from ppdsl.validation.subject import MOST_REPORTED, count_chunks, join_words, pieces_of, plural

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ppdsl.diagnostics import Diagnostic
    from ppdsl.validation.subject import Subject

DIVISIBILITY = Rule(
    "PP301",
    "error",
    "the number of stages is not a multiple of pp",
    "Stages are dealt to the ranks in whole passes, so that each rank gets as many as every other. This fault is usual after a change of "
    "the pipeline size.",
    wrong="check 'Ett|tt|ttL' --pp 2",
    right="check 'Ett|tt|t|tL' --pp 2",
)
MTP_CHUNK = Rule(
    "PP310",
    "error",
    "MTP layers not in the last chunk of their rank",
    "Megatron-LM builds MTP layers only in the last virtual stage of a rank.",
    wrong="check 'Ett|ttm||L' --pp 2",
    right="check 'Ett|t||tmL' --pp 2",
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
    "The ranks are 0 to pp - 1, and each of them owns at least one stage.",
    wrong="check 'Et@0|tL@2' --pp 2",
    right="check 'Et@0|tL@1' --pp 2",
)
MTP_FIRST_RANK = Rule(
    "PP316",
    "warning",
    "MTP layers on the first rank",
    "Megatron-LM documents MTP layers on the first pipeline rank as unsupported, though its check lets them pass where a rank has one "
    "chunk.",
    wrong="check 'Et|tt|tm|L' --pp 2",
    right="check 'Et|t|tt|tmL' --pp 2",
)
RULES = (DIVISIBILITY, MTP_CHUNK, VPP, OWNER_RANGE, MTP_FIRST_RANK)


def check_divisibility(subject: Subject) -> Iterator[Diagnostic]:
    """PP301: stages in whole passes over the ranks (loop and v)."""
    pp, stages = subject.pp, subject.stages
    if pp is None or subject.placement is None or stages % pp == 0:
        return
    anew = pp * (subject.options.vpp or max(1, (stages + pp // 2) // pp))
    yield DIVISIBILITY.report(
        f"{plural(stages, 'stage')} cannot be dealt to {plural(pp, 'rank')}: not a multiple",
        subject.whole,
        notes=[f"{stages:,} mod {pp:,} = {stages % pp:,}"] if subject.listed and stages > pp else [],
        help=f"write a multiple of {pp:,} stages",
        proposals=_deal_anew(subject, anew, f"the same layers over {plural(anew, 'stage')}"),
    )


def _deal_anew(subject: Subject, stages: int, help_text: str) -> list[Proposal]:
    """Propose the same layers, split evenly over a number of stages, the earliest ones first; nothing where that is another model."""
    tally = subject.form.tally
    decoders, mtps, norms = tally.count("t"), tally.count("m"), tally.count("N")
    one_each = tally.count("E") == tally.count("L") == 1 and norms <= 1
    if not one_each or max(decoders, mtps) > MOST_COUNT or not 1 < stages <= subject.options.limits.stages:
        return []
    share, longer = divmod(decoders, stages)
    short, long = format_run("t", share), format_run("t", share + 1)
    inner_long = max(longer - 1, 0)
    runs = [
        (f"E{long if longer else short}", 1),
        (long, inner_long),
        (short, stages - 2 - inner_long),
        (f"{short}{'N' * norms}{format_run('m', mtps)}L", 1),
    ]
    fix = write_stages(runs, subject.options.limits.text)
    return [] if fix is None else [Proposal(help_text, fix)]


def check_vpp(subject: Subject) -> Iterator[Diagnostic]:
    """PP311: the vpp that was given against the one that stages and pp imply."""
    wanted, found, pp = subject.options.vpp, subject.vpp, subject.pp
    if wanted is None or wanted == found:
        return
    stages = plural(subject.stages, "stage")
    if found is None or pp is None:
        if pp is None and subject.listed and subject.stages % wanted:
            yield VPP.report(
                f"{stages} cannot be {plural(wanted, 'chunk')} on each rank",
                subject.whole,
                help=f"write a multiple of {wanted:,} stages, or change --vpp",
            )
    elif subject.placement is None:
        message = f"the largest number of chunks on a rank is {found:,}, --vpp says {wanted:,}"
        yield VPP.report(message, subject.whole, help=f"say --vpp {found}")
    else:
        message = f"vpp is {found:,} for {stages} over {plural(pp, 'rank')}, --vpp says {wanted:,}"
        help_text = f"say --vpp {found}, or write {plural(pp * wanted, 'stage')}"
        yield VPP.report(message, subject.whole, help=help_text, proposals=_deal_anew(subject, pp * wanted, help_text))


def check_owner_range(subject: Subject) -> Iterator[Diagnostic]:
    """PP314: every owner is a rank, and every rank is an owner."""
    pp = subject.pp
    if pp is None or subject.placement is not None or subject.dealt_pp is not None:
        return
    outside = ((stage.owner, stage.span) for _, stage, _ in subject.form.runs() if (stage.owner or 0) >= pp)
    reported = False
    for owner, span in islice(outside, MOST_REPORTED):
        reported = True
        yield OWNER_RANGE.report(f"owner {owner:,} is outside 0..{pp - 1:,}", span, help=f"write a rank below {pp:,}")
    used = count_chunks(subject.form)
    if not reported and used and len(used) < pp:
        missing = pp - len(used)
        names = join_words((rank for rank in range(pp) if rank not in used), missing)
        yield OWNER_RANGE.report(
            f"rank {names} owns no stage" if missing == 1 else f"{missing:,} ranks own no stage: {names}",
            subject.whole,
            help=f"give each rank a stage, or {'lower --pp' if max(used) + 1 < pp else 'number the ranks without a gap'}",
        )


def check_mtp_chunk(subject: Subject) -> Iterator[Diagnostic]:
    """PP310: MTP layers in the last chunk of their rank, in forward order; PP316: not on the first rank (loop)."""
    pp = subject.dealt_pp if subject.placement == "loop" else None
    for (number, stage, count), (rank, last) in zip(subject.mtp_runs, _last_chunks(subject), strict=False):
        if last > number:
            yield MTP_CHUNK.report(
                f"MTP layers in stage {number:,} are not in the last chunk of rank {rank:,}",
                pieces_of(stage, "m")[0].span,
                notes=[f"stage {last:,} is on rank {rank:,} too"],
                help="move them to the last pass over the ranks",
                proposals=gather_mtp(subject),
            )
            return  # more of them are PP309
        if pp is not None and pp > 1 and -number % pp < count:
            yield MTP_FIRST_RANK.report(
                f"MTP layers in stage {number + -number % pp:,} are on the first rank",
                pieces_of(stage, "m")[0].span,
                notes=["Megatron-LM documents this as unsupported"],
                help="move them to another rank",
                proposals=gather_mtp(subject),
            )
            return


def _last_chunks(subject: Subject) -> Iterator[tuple[int, int]]:
    """Give the rank of each run of stages with MTP layers, and the last stage on it; nothing where ranks are not known."""
    pp, placement = subject.dealt_pp, subject.placement
    if placement is None:
        lasts = {stage.owner or 0: number + count - 1 for number, stage, count in subject.form.runs()}
        for _, stage, _ in subject.mtp_runs:
            yield stage.owner or 0, lasts[stage.owner or 0]
    elif pp is not None:
        for number, _, _ in subject.mtp_runs:
            rank = rank_of(number, pp, placement)
            yield rank, stage_of(rank, subject.stages // pp - 1, pp, placement)
