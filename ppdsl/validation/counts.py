"""How many layers there are, against how many there must be: PP302, PP308, PP401, PP404, and the remedies for them."""

from __future__ import annotations

from itertools import chain, islice
from typing import TYPE_CHECKING

from ppdsl.diagnostics import Label, Proposal, Rule
from ppdsl.formatting import MOST_COUNT, format_run
from ppdsl.nodes import Group, Run
from ppdsl.normal_form.tally import tally
from ppdsl.parsing.edits import Edit, apply_edits
from ppdsl.source import Span
from ppdsl.validation.subject import plural

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ppdsl.diagnostics import Diagnostic
    from ppdsl.nodes import Item
    from ppdsl.validation.subject import Subject

LAYER_COUNT = Rule(
    "PP302",
    "error",
    "decoder layers differ from --num-layers",
    "The `t` of a layout must add up to the decoder layers of the model. Megatron-LM notices only after the job has started; a script "
    "has been published whose layout adds up to 85 where the model has 78 layers.",
    wrong="check 'Et*3||t*3|t*6NL' --num-layers 13",
    right="check 'Et*3||t*4|t*6NL' --num-layers 13",
)
MTP_COUNT = Rule(
    "PP308",
    "error",
    "MTP layers differ from --mtp-num-layers",
    "The `m` of a layout must add up to the multi-token-prediction layers of the model. Under --target megatron or mindspeed a count "
    "that is not given means none, as it does there.",
    wrong="check 'Ett|tmL' --mtp-num-layers 2",
    right="check 'Ett|tmmL' --mtp-num-layers 2",
)
TOO_MANY_STAGES = Rule(
    "PP401",
    "error",
    "more stages than the limit",
    "A layout is counted, never expanded, so even a huge one is answered at once; but a table of stages is made only below the limit. "
    "--max-stages raises it.",
    wrong="check 'E(t|)*999L' --max-stages 100",
    right="check 'E(t|)*99L' --max-stages 100",
)
TOO_MANY_LAYERS = Rule(
    "PP404",
    "error",
    "over 999,999,999,999 layers of a kind",
    "Nested repeats multiply. More layers of one kind than twelve digits can count are taken for a mistake.",
    wrong="check 'E((t*999999)*999999)*9L'",
    right="check 'Et*999999L'",
)
RULES = (LAYER_COUNT, MTP_COUNT, TOO_MANY_STAGES, TOO_MANY_LAYERS)

_NOUNS = {"E": "embedding", "t": "decoder layer", "m": "MTP layer", "N": "final norm", "L": "lm-head"}
_MOST_LABELS = 6
_MOST_PROPOSALS = 6


def check_limits(subject: Subject) -> Iterator[Diagnostic]:
    """PP401 and PP404: too many stages to list, or too many layers of a kind."""
    limit, whole = subject.options.limits.stages, subject.form.tally
    if whole.stages > limit:
        yield TOO_MANY_STAGES.report(
            f"layout has {plural(whole.stages, 'stage')}, the limit is {limit:,}",
            subject.whole,
            help="raise the limit with --max-stages if so many are meant",
        )
    for kind, count in whole.counts.items():
        first = whole.first(kind) if count > MOST_COUNT else None
        if first is not None:
            yield TOO_MANY_LAYERS.report(f"layout has over {plural(MOST_COUNT, _NOUNS[kind])}", first.span, help="lower the counts")


def check_layer_count(subject: Subject) -> Iterator[Diagnostic]:
    """PP302: decoder layers against num_layers."""
    wanted, found = subject.options.num_layers, subject.form.tally.count("t")
    if wanted is not None and wanted != found:
        yield _count_fault(subject, LAYER_COUNT, "t", f"--num-layers says {wanted:,}", wanted - found)


def check_mtp_count(subject: Subject) -> Iterator[Diagnostic]:
    """PP308: MTP layers against mtp_num_layers."""
    wanted, found = subject.options.mtp_num_layers, subject.form.tally.count("m")
    if wanted is not None and wanted != found:
        yield _count_fault(subject, MTP_COUNT, "m", f"--mtp-num-layers says {wanted:,}", wanted - found)
    first = subject.form.tally.first("m") if found and wanted is None else None
    if first is not None and subject.options.target in ("megatron", "mindspeed"):
        yield MTP_COUNT.report(
            f"layout has {plural(found, 'MTP layer')}, --mtp-num-layers is not given, which means none",
            first.span,
            help=f"give --mtp-num-layers {found}" if found <= MOST_COUNT else None,
        )


def _count_fault(subject: Subject, rule: Rule, kind: str, says: str, missing: int) -> Diagnostic:
    """Report that the layers of a kind are too few (``missing`` is positive) or too many (it is negative)."""
    message = f"layout has {plural(subject.form.tally.count(kind), _NOUNS[kind])}, {says}"
    places = [(item, count, stage) for item, count, stage in _places(subject.items, kind) if count]
    if not places:
        at = _insertion_point(subject, kind)
        return rule.report(message, Span(at, at), proposals=_add(subject, kind, missing))
    remedies = chain(_change_run(subject, places, kind, missing), _change_group(subject, places, missing), _add(subject, kind, missing))
    *others, (last, count, _) = places
    return rule.report(
        message,
        last.span,
        label=plural(count, "layer"),
        labels=[Label(item.span, plural(count, "layer")) for item, count, _ in others[-_MOST_LABELS:]],
        proposals=islice(remedies, _MOST_PROPOSALS),
    )


def _places(items: tuple[Item, ...], kind: str) -> Iterator[tuple[Item, int, int]]:
    """Give each outermost item, how many layers of a kind it brings, and the stage in which it begins."""
    stage = 0
    for item in items:
        if isinstance(item, Run):
            yield item, item.count if item.kind == kind else 0, stage
            stage += item.count if item.kind == "|" else 0
        elif isinstance(item, Group):
            whole = tally((item,))
            yield item, whole.count(kind), stage
            stage += whole.count("|")


def _change_run(subject: Subject, places: list[tuple[Item, int, int]], kind: str, missing: int) -> Iterator[Proposal]:
    """Propose to change one run so that the counts agree: the lightest where layers are missing, else the heaviest; outer stages last."""
    outer = {0, subject.stages - 1}
    total = sum(count for _, count, _ in places) + missing
    sign = 1 if missing > 0 else -1
    for item, count, stage in sorted(places, key=lambda place: (sign * place[1], place[2] in outer)):
        if isinstance(item, Run) and 0 <= count + missing <= MOST_COUNT:
            text = format_run(kind, count + missing)
            fix = apply_edits(subject.text, [Edit(item.start, item.end, text)])
            yield Proposal(f"`{text}` in stage {stage:,} gives {total:,}" if text else f"without it there are {total:,}", fix)


def _change_group(subject: Subject, places: list[tuple[Item, int, int]], missing: int) -> Iterator[Proposal]:
    """Propose to change the repeat of one group so that the counts agree."""
    total = sum(count for _, count, _ in places) + missing
    for item, count, _ in places:
        if isinstance(item, Group) and item.repeat:
            repeat, rest = divmod((count + missing) * item.repeat, count)
            if rest == 0 and 1 <= repeat <= MOST_COUNT:
                pattern = subject.text[item.start : subject.text.rindex("*", item.start, item.end)]
                fix = apply_edits(subject.text, [Edit(item.start, item.end, f"{pattern}*{repeat}")])
                yield Proposal(f"a repeat of {repeat:,} gives {total:,}", fix)


def _add(subject: Subject, kind: str, missing: int) -> Iterator[Proposal]:
    """Propose to write the layers that are missing."""
    if missing > 0:
        at, text = _insertion_point(subject, kind), format_run(kind, missing)
        yield Proposal(f"add `{text}`", apply_edits(subject.text, [Edit(at, at, text)]))


def _insertion_point(subject: Subject, kind: str) -> int:
    """Give the offset where the first layers of a kind would go: decoder layers behind E, MTP layers before L."""
    neighbour = subject.form.tally.first("E") if kind == "t" else subject.form.tally.last("L")
    if neighbour is None:
        return subject.whole.start if kind == "t" else subject.whole.end
    return neighbour.end if kind == "t" else neighbour.start
