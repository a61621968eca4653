"""How many layers there are, against how many there must be: PP302, PP308, PP401, PP404, and the remedies for them."""

from __future__ import annotations

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
    "The t of a layout must add up to the layers of the model. Megatron-LM asserts it while the model is built; shipped scripts have had layouts "
    "that add up to 85 where the model has 78 layers.",
    wrong="check 'Et*3||t*3|t*6NL' --num-layers 13",
    right="check 'Et*3||t*4|t*6NL' --num-layers 13",
)
MTP_COUNT = Rule(
    "PP308",
    "error",
    "MTP layers differ from --mtp-num-layers",
    "The m of a layout must add up to the multi-token-prediction layers of the model. Under --target megatron a count that is not given means "
    "none, as it does there.",
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
    "Nested repeats multiply. More layers of a kind than twelve digits can count are taken for a mistake.",
    wrong="check 'E((t*999999)*999999)*9L'",
    right="check 'Et*999999L'",
)
RULES = (LAYER_COUNT, MTP_COUNT, TOO_MANY_STAGES, TOO_MANY_LAYERS)

_NOUNS = {"E": "embedding", "t": "decoder layer", "m": "MTP layer", "N": "final norm", "L": "loss"}
_MOST_LABELS = 6
_MOST_PROPOSALS = 6


def check_limits(subject: Subject) -> Iterator[Diagnostic]:
    """PP401 and PP404: too many stages to list, or too many layers of a kind."""
    limit = subject.options.limits.stages
    if subject.stages > limit:
        yield TOO_MANY_STAGES.report(
            f"layout has {plural(subject.stages, 'stage')}, the limit is {limit:,}",
            subject.whole,
            help="raise the limit with --max-stages if so many are meant",
        )
    for kind, noun in _NOUNS.items():
        if subject.form.tally.count(kind) > MOST_COUNT:
            yield TOO_MANY_LAYERS.report(
                f"layout has over {MOST_COUNT:,} {noun}s", (subject.form.tally.first(kind) or subject.items[0]).span, help="lower the counts"
            )


def check_layer_count(subject: Subject) -> Iterator[Diagnostic]:
    """PP302: decoder layers against num_layers."""
    wanted, found = subject.options.num_layers, subject.form.tally.count("t")
    if wanted is None or wanted == found:
        return
    message = f"layout has {plural(found, 'decoder layer')}, --num-layers says {wanted:,}"
    yield _count_fault(LAYER_COUNT, subject, "t", message, wanted - found)


def check_mtp_count(subject: Subject) -> Iterator[Diagnostic]:
    """PP308: MTP layers against mtp_num_layers."""
    wanted, found = subject.options.mtp_num_layers, subject.form.tally.count("m")
    says = f"--mtp-num-layers says {wanted}"
    if wanted is None and subject.options.target in ("megatron", "mindspeed"):
        wanted, says = 0, "--mtp-num-layers is not given, which means none"
    if wanted is not None and wanted != found:
        message = f"layout has {plural(found, 'MTP layer')}, {says}"
        yield _count_fault(MTP_COUNT, subject, "m", message, wanted - found)


def _count_fault(rule: Rule, subject: Subject, kind: str, message: str, missing: int) -> Diagnostic:
    places = [(item, count, stage) for item, count, stage in _places(subject.items, kind) if count]
    proposals = [*_change_counts(subject, places, kind, missing)]
    if not places:
        span = _insertion_point(subject, kind)
        text = format_run(kind, missing)
        fix = apply_edits(subject.text, [Edit(span.start, span.start, text)])
        return rule.report(message, span, proposals=[Proposal(f"add `{text}`", fix)])
    labels = [Label(item.span, plural(count, "layer")) for item, count, _ in places[:-1][-_MOST_LABELS:]]
    last, count, _ = places[-1]
    return rule.report(message, last.span, label=plural(count, "layer"), labels=labels, proposals=proposals[:_MOST_PROPOSALS])


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


def _change_counts(subject: Subject, places: list[tuple[Item, int, int]], kind: str, missing: int) -> Iterator[Proposal]:
    """Propose to change one run so that the counts agree: the lightest where layers are missing, else the heaviest."""
    ends = {0, subject.stages - 1}
    total = sum(count for _, count, _ in places) + missing
    runs = [place for place in places if isinstance(place[0], Run)]
    for item, count, stage in sorted(runs, key=lambda place: (place[1] if missing > 0 else -place[1], place[2] in ends)):
        if 0 <= count + missing <= MOST_COUNT:
            text = format_run(kind, count + missing)
            fix = apply_edits(subject.text, [Edit(item.start, item.end, text)])
            yield Proposal(f"`{text}` in stage {stage:,} gives {total:,}" if text else f"without it there are {total:,}", fix)
    for item, count, _ in places:
        if isinstance(item, Group) and item.repeat and (count + missing) * item.repeat % count == 0:
            repeat = (count + missing) * item.repeat // count
            if 1 <= repeat <= MOST_COUNT:
                written = subject.text[item.start : item.end]
                text = f"{written[: written.rindex('*')]}*{repeat}"
                fix = apply_edits(subject.text, [Edit(item.start, item.end, text)])
                yield Proposal(f"a repeat of {repeat:,} gives {total:,}", fix)


def _insertion_point(subject: Subject, kind: str) -> Span:
    """Give the place where a layer of a kind that is missing altogether would go: before L, or behind E."""
    before = subject.form.tally.last("L") if kind == "m" else None
    if before is not None:
        return Span(before.start, before.start)
    embedding = subject.form.tally.first("E")
    at = embedding.end if embedding is not None else subject.whole.start
    return Span(at, at) if kind == "t" else Span(subject.whole.end, subject.whole.end)
