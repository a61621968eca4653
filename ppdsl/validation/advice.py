"""What is legal but worth a word: PP601 to PP607."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ppdsl.diagnostics import Rule
from ppdsl.nodes import Group, Run
from ppdsl.parsing.wrapping import is_wrapped
from ppdsl.placing import rank_cycle, sum_by_rank
from ppdsl.validation.subject import join_words, pieces_of, plural

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ppdsl.diagnostics import Diagnostic
    from ppdsl.nodes import Item
    from ppdsl.normal_form import Stage
    from ppdsl.source import Span
    from ppdsl.validation.subject import Subject

EMPTY_STAGE = Rule(
    "PP601",
    "info",
    "an empty stage",
    "A stage without layers is legal; it passes on what it receives. It is a warning behind a repeated group that ends in a bar, where one bar too "
    "many is the usual slip: (tt|)*29|L has an empty stage before L.",
    wrong="check 'E(tt|)*2|L'",
    right="check 'E(tt|)*2L'",
)
IMBALANCE = Rule(
    "PP602",
    "warning",
    "the heaviest rank carries over 1.25 times the mean",
    "A pipeline runs at the speed of its slowest rank. Layers are counted, not timed, so an uneven split may be right where E, L or m are heavy.",
    wrong="check 'Et*6|ttL' --pp 2",
    right="check 'Et*4|t*4L' --pp 2",
)
IMPLIED_VPP = Rule(
    "PP603",
    "info",
    "vpp was not stated",
    "The number of stages over pp implies the virtual pipeline size. Megatron-LM takes it silently, also for a layout given with pp = 1.",
    wrong="check 'Et|t|t|tL' --pp 2",
    right="check 'Et|t|t|tL' --pp 2 --vpp 2",
)
IDLE_RANK = Rule(
    "PP604",
    "warning",
    "a rank with no decoder layer",
    "It may be meant, for a heavy embedding or lm-head. Else a bar is too many.",
    wrong="check 'Ettt|L' --pp 2",
    right="check 'Ett|tL' --pp 2",
)
MTP_ALONE = Rule(
    "PP605",
    "warning",
    "a stage with `m` and no `t`",
    "Several model builders fail on a stage that has MTP layers but no decoder layer; Megatron-LM calls it MTP standalone, and newer versions support it.",
    wrong="check 'Ett|mL'",
    right="check 'Et|tmL'",
)
REMOVAL = Rule(
    "PP606",
    "warning",
    "`*0` removes what it repeats",
    "A repeat of 0 is legal, but more often a slip or a script's variable.",
    wrong="check 'Ett*0L'",
    right="check 'EtL'",
)
STRIPPED = Rule(
    "PP607",
    "info",
    "quotes or backslashes were stripped",
    "Launch scripts leave quotes around a layout and backslashes before | ( ) *. They are read past; Megatron-LM would fail on them.",
    wrong="""check "'Ett|ttL'" """,
    right="check 'Ett|ttL'",
)
RULES = (EMPTY_STAGE, IMBALANCE, IMPLIED_VPP, IDLE_RANK, MTP_ALONE, REMOVAL, STRIPPED)

_HEAVY = 1.25
_MOST = 20
"""How many diagnostics of one code are given at most."""


def advise_empty_stages(subject: Subject) -> Iterator[Diagnostic]:
    """PP601: each run of empty stages; a warning where a bar behind a repeated group makes it."""
    miscounted = {(bar.start, bar.end) for bar in _bars_behind_groups(subject.items)}
    empty = [(number, stage.span, count) for number, stage, count in subject.form.runs() if not stage.runs]
    for number, span, count in empty[:_MOST]:
        slip = any(span.start < start and span.end == end for start, end in miscounted)
        message = f"stage {number:,} is empty" if count == 1 else f"stages {number:,} to {number + count - 1:,} are empty"
        yield EMPTY_STAGE.report(
            message,
            span,
            severity="warning" if slip else "info",
            notes=["the group before this bar ends in a bar already"] if slip else [],
            help="remove the bar behind the group unless an empty stage is meant" if slip else None,
        )


def _bars_behind_groups(items: tuple[Item, ...]) -> Iterator[Run]:
    stack = [items]
    while stack:
        level = stack.pop()
        for before, after in zip(level, level[1:], strict=False):
            if isinstance(before, Group) and before.repeat and _is_bar(before.items[-1]) and isinstance(after, Run) and _is_bar(after):
                yield after
        stack += [item.items for item in level if isinstance(item, Group)]


def _is_bar(item: Item) -> bool:
    return isinstance(item, Run) and item.kind == "|"


def advise_loads(subject: Subject) -> Iterator[Diagnostic]:
    """PP602 and PP604: the heaviest rank, and ranks with no decoder layer."""
    pp, total = subject.dealt_pp, subject.form.tally.count("t")
    if pp is None or total == 0:
        return
    loads = sum_by_rank(subject.form, [stage.count("t") for stage in subject.form.stages], pp, subject.placement)
    heaviest = max(loads)
    if heaviest * pp > _HEAVY * total:
        ranks = [rank for rank, load in enumerate(loads) if load == heaviest]
        mean = total / pp
        yield IMBALANCE.report(
            f"{_named(ranks, 'carries', 'carry')} {plural(heaviest, 'decoder layer')}, {heaviest / mean:.2f} times the mean of {mean:,.2f}",
            _stage_on(subject, ranks[0], pp),
        )
    idle = [rank for rank, load in enumerate(loads) if load == 0]
    if idle:
        yield IDLE_RANK.report(f"{_named(idle, 'has', 'have')} no decoder layer", _stage_on(subject, idle[0], pp))


def _named(ranks: list[int], one: str, several: str) -> str:
    return f"rank {ranks[0]:,} {one}" if len(ranks) == 1 else f"ranks {join_words(ranks)} {several}"


def _stage_on(subject: Subject, rank: int, pp: int) -> Span:
    """Give the place of the stage of a rank that has the most decoder layers."""
    cycle = rank_cycle(pp, subject.placement) if subject.placement else ()

    def is_on(number: int, stage: Stage, count: int) -> bool:
        if not cycle:
            return stage.owner == rank
        return count >= len(cycle) or any(cycle[step % len(cycle)] == rank for step in range(number, number + count))

    stages = [stage for number, stage, count in subject.form.runs() if is_on(number, stage, count)]
    return max(stages, key=lambda stage: stage.count("t")).span


def advise_implied_vpp(subject: Subject) -> Iterator[Diagnostic]:
    """PP603: the vpp that stages and pp imply."""
    if subject.options.vpp is None and subject.placement is not None and subject.vpp is not None and subject.pp is not None:
        yield IMPLIED_VPP.report(
            f"vpp was not stated; {plural(subject.stages, 'stage')} over {plural(subject.pp, 'rank')} imply vpp = {subject.vpp:,}", subject.whole
        )


def advise_mtp_alone(subject: Subject) -> Iterator[Diagnostic]:
    """PP605: a stage with MTP layers and no decoder layer."""
    for number, stage, _ in subject.stages_with("m")[:_MOST]:
        if not stage.count("t"):
            yield MTP_ALONE.report(
                f"stage {number:,} has MTP layers and no decoder layer",
                pieces_of(stage, "m")[0].span,
                notes=["several model builders fail on such a stage"],
            )


def advise_removals(subject: Subject) -> Iterator[Diagnostic]:
    """PP606: what a ``*0`` removes."""
    for item in subject.form.tally.removed[:_MOST]:
        yield REMOVAL.report("`*0` removes what it repeats", item.span, help="delete it if it is meant to go")


def advise_stripping(subject: Subject) -> Iterator[Diagnostic]:
    """PP607: quotes and backslashes that were read past."""
    if is_wrapped(subject.text):
        yield STRIPPED.report("quotes or backslashes were stripped", subject.whole, notes=["Megatron-LM would not read past them"])
