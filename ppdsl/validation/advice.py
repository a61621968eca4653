"""What is legal but worth a word: PP601 to PP607."""

from __future__ import annotations

from itertools import islice, pairwise
from typing import TYPE_CHECKING

from ppdsl.diagnostics import Rule
from ppdsl.formatting import MOST_COUNT
from ppdsl.nodes import Group, Run
from ppdsl.parsing.wrapping import is_wrapped
from ppdsl.placing import stage_of, sum_by_rank
from ppdsl.validation.subject import MOST_REPORTED, join_words, pieces_of, plural

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ppdsl.diagnostics import Diagnostic
    from ppdsl.nodes import Item
    from ppdsl.source import Span
    from ppdsl.validation.subject import Subject

EMPTY_STAGE = Rule(
    "PP601",
    "info",
    "an empty stage",
    "A stage without layers is legal; it passes on what it receives. It is a warning behind a repeated group that ends in a bar, where "
    "one bar too many is the usual slip: `(tt|)*29|L` has an empty stage before `L`.",
    wrong="check 'E(tt|)*2|L'",
    right="check 'E(tt|)*2L'",
)
IMBALANCE = Rule(
    "PP602",
    "warning",
    "the heaviest rank carries over 1.25 times the mean",
    "A pipeline runs at the speed of its slowest rank. Layers are counted, not timed, so an uneven split may be right where `E`, `L` or "
    "`m` are heavy. A split by --layer-costs is judged by the costs.",
    wrong="check 'Et*6|ttL' --pp 2",
    right="check 'Et*4|t*4L' --pp 2",
)
IMPLIED_VPP = Rule(
    "PP603",
    "info",
    "vpp was not stated",
    "The number of stages over pp implies the virtual pipeline size. Megatron-LM takes it without a word, also for a layout given with "
    "pp = 1.",
    wrong="check 'Et|t|t|tL' --pp 2",
    right="check 'Et|t|t|tL' --pp 2 --vpp 2",
)
IDLE_RANK = Rule(
    "PP604",
    "warning",
    "a rank with no decoder layer",
    "That may be meant, for a heavy embedding or lm-head. If it is not, there is a bar too many.",
    wrong="check 'Ett|tt|tt|tt|tt|L' --pp 6",
    right="check 'Ett|tt|tt|tt|t|tL' --pp 6",
)
MTP_ALONE = Rule(
    "PP605",
    "warning",
    "a stage with `m` and no `t`",
    "Several model builders fail on a stage that has MTP layers but no decoder layer. Megatron-LM calls it MTP standalone; its newer "
    "versions support it.",
    wrong="check 'Ett|mL'",
    right="check 'Et|tmL'",
)
REMOVAL = Rule(
    "PP606",
    "warning",
    "`*0` removes what it repeats",
    "A repeat of 0 is legal, but it is more often a slip, or a script's variable that was not meant to be 0.",
    wrong="check 'Ett*0L'",
    right="check 'EtL'",
)
STRIPPED = Rule(
    "PP607",
    "info",
    "quotes or backslashes were stripped",
    "Launch scripts leave quotes around a layout, and backslashes before `|`, `(`, `)` and `*`. They are read past; Megatron-LM fails on "
    "them.",
    wrong="""check "'Ett|ttL'" """,
    right="check 'Ett|ttL'",
)
RULES = (EMPTY_STAGE, IMBALANCE, IMPLIED_VPP, IDLE_RANK, MTP_ALONE, REMOVAL, STRIPPED)

HEAVY = 1.25
"""How many times the mean the heaviest rank may carry before it is worth a word."""


def advise_empty_stages(subject: Subject) -> Iterator[Diagnostic]:
    """PP601: each run of empty stages between layers; a warning where a bar behind a repeated group makes it."""
    if not subject.listed or all(stage.runs for stage in subject.form.stages):
        return
    slips = {(bar.start, bar.end) for bar in _bars_behind_groups(subject.items)}
    last = subject.stages - 1
    empty = (run for run in subject.form.runs() if not run[1].runs and run[0] > 0 and run[0] + run[2] <= last)
    for number, stage, count in islice(empty, MOST_REPORTED):
        slip = any(stage.span.start < start and stage.span.end == end for start, end in slips)
        yield EMPTY_STAGE.report(
            f"stage {number:,} is empty" if count == 1 else f"stages {number:,} to {number + count - 1:,} are empty",
            stage.span,
            severity="warning" if slip else "info",
            notes=["the group before this bar ends in a bar already"] if slip else [],
            help="remove the bar behind the group unless an empty stage is meant" if slip else None,
        )


def _bars_behind_groups(items: tuple[Item, ...]) -> Iterator[Run]:
    stack = [items]
    while stack:
        level = stack.pop()
        for before, after in pairwise(level):
            if isinstance(before, Group) and before.repeat and isinstance(after, Run) and after.kind == "|":
                yield after
        stack += [item.items for item in level if isinstance(item, Group)]


def advise_loads(subject: Subject) -> Iterator[Diagnostic]:
    """PP602 and PP604: the heaviest rank, and ranks with no decoder layer."""
    pp, total = subject.dealt_pp, subject.form.tally.count("t")
    if pp is None or not 0 < total <= MOST_COUNT:
        return
    loads = sum_by_rank(subject.form, [stage.count("t") for stage in subject.form.stages], pp, subject.placement)
    heaviest, mean = max(loads), total / pp
    if heaviest > HEAVY * mean:
        ranks = [rank for rank, load in enumerate(loads) if load == heaviest]
        yield IMBALANCE.report(
            f"{_named(ranks, 'carries', 'carry')} {plural(heaviest, 'decoder layer')}, {heaviest / mean:.2f} times the mean of {mean:,.2f}",
            _stage_on(subject, ranks[0], pp),
        )
    if min(loads) == 0:
        idle = [rank for rank, load in enumerate(loads) if load == 0]
        yield IDLE_RANK.report(f"{_named(idle, 'has', 'have')} no decoder layer", _stage_on(subject, idle[0], pp))


def _named(ranks: list[int], one: str, several: str) -> str:
    return f"rank {ranks[0]:,} {one}" if len(ranks) == 1 else f"ranks {join_words(ranks)} {several}"


def _stage_on(subject: Subject, rank: int, pp: int) -> Span:
    """Give the place of the stage of a rank that has the most decoder layers."""
    placement, most, place = subject.placement, -1, subject.whole
    # Both placements repeat after two passes over the ranks, in which each rank has two stages.
    one, other = (0, 0) if placement is None else (stage_of(rank, 0, pp, placement), stage_of(rank, 1, pp, placement))
    for number, stage, count in subject.form.runs():
        layers = stage.count("t")
        if layers > most and (
            stage.owner == rank if placement is None else (one - number) % (2 * pp) < count or (other - number) % (2 * pp) < count
        ):
            most, place = layers, stage.span
    return place


def advise_implied_vpp(subject: Subject) -> Iterator[Diagnostic]:
    """PP603: the vpp that stages and pp imply."""
    vpp, pp = subject.vpp, subject.dealt_pp
    if subject.options.vpp is None and subject.placement is not None and vpp is not None and pp is not None:
        verb = "implies" if subject.stages == 1 else "imply"
        message = f"vpp was not stated; {plural(subject.stages, 'stage')} over {plural(pp, 'rank')} {verb} vpp = {vpp:,}"
        yield IMPLIED_VPP.report(message, subject.whole)


def advise_mtp_alone(subject: Subject) -> Iterator[Diagnostic]:
    """PP605: a stage with MTP layers and no decoder layer."""
    if len(subject.mtp_runs) == 1:
        ((number, stage, count),) = subject.mtp_runs
        if count == 1 and not stage.count("t"):  # more than one stage is PP309
            message = f"stage {number:,} has MTP layers and no decoder layer"
            yield MTP_ALONE.report(message, pieces_of(stage, "m")[0].span, notes=["several model builders fail on such a stage"])


def advise_removals(subject: Subject) -> Iterator[Diagnostic]:
    """PP606: what a ``*0`` removes."""
    for item in subject.form.tally.removed[:MOST_REPORTED]:
        yield REMOVAL.report("`*0` removes what it repeats", item.span, help="delete it if it is meant to go")


def advise_stripping(subject: Subject) -> Iterator[Diagnostic]:
    """PP607: quotes and backslashes that were read past."""
    if is_wrapped(subject.text):
        yield STRIPPED.report("quotes or backslashes were stripped", subject.whole, notes=["Megatron-LM would not read past them"])
