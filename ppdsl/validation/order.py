"""Which layer stands where: PP303 to PP307, PP309, PP312, PP313."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ppdsl.diagnostics import Label, Proposal, Rule
from ppdsl.formatting import format_run
from ppdsl.nodes import Owner, Run
from ppdsl.parsing.edits import Edit, apply_edits
from ppdsl.source import Span
from ppdsl.validation.subject import name_stages, pieces_of, plural

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ppdsl.diagnostics import Diagnostic
    from ppdsl.nodes import Item
    from ppdsl.validation.subject import Subject

EMBEDDING_COUNT = Rule(
    "PP303",
    "error",
    "not exactly one `E`",
    "A model has one embedding, and its layout has one `E`.",
    wrong="check 'tt|ttL'",
    right="check 'Ett|ttL'",
)
LOSS_COUNT = Rule(
    "PP304",
    "error",
    "not exactly one `L`",
    "A model has one lm-head with its loss, and its layout has one `L`. They cannot be split over stages.",
    wrong="check 'Ett|tt'",
    right="check 'Ett|ttL'",
)
EMBEDDING_PLACE = Rule(
    "PP305",
    "error",
    "`E` is not the first layer",
    "Tokens enter the model through the embedding, so it comes before every other layer.",
    wrong="check 'tEt|ttL'",
    right="check 'Ett|ttL'",
)
LOSS_PLACE = Rule(
    "PP306",
    "error",
    "`L` is not the last layer",
    "The forward pass ends with the loss, so it comes after every other layer.",
    wrong="check 'Ett|tLt'",
    right="check 'Ett|ttL'",
)
MTP_ORDER = Rule(
    "PP307",
    "error",
    "an `m` before a `t`",
    "Multi-token-prediction layers work on what the last decoder layer gives, so they come after every `t`.",
    wrong="check 'Etm|ttL'",
    right="check 'Ett|tmL'",
)
MTP_STAGES = Rule(
    "PP309",
    "error",
    "MTP layers in more than one stage",
    "All MTP layers must be in one stage, since Megatron-LM builds them in one place. Its own help text shows `E|(t|)*3,m|m||L`, which its "
    "validator refuses.",
    wrong="check 'Ett|tt|m|mL'",
    right="check 'Ett|tt|ttmmL'",
)
NORM_PLACE = Rule(
    "PP312",
    "error",
    "more than one `N`, or `N` before a `t`, after an `m`, or after `L`",
    "The final norm follows the last decoder layer. It may be left out: it is then built with `L`, or with the last `t` where there are "
    "MTP layers.",
    wrong="check 'EttN|ttL'",
    right="check 'Ett|ttNL'",
)
OUTER_STAGE = Rule(
    "PP313",
    "error",
    "`E` is not in stage 0, or `L` is not in the last stage",
    "An empty stage before `E` or behind `L` has nothing to receive or to send. Megatron-LM accepts such a layout, but builds the "
    "embedding in the first stage and the lm-head in the last one all the same. Most often a bar stands at the end by habit.",
    wrong="check 'Ett|ttL|'",
    right="check 'Ett|ttL'",
)
RULES = (EMBEDDING_COUNT, LOSS_COUNT, EMBEDDING_PLACE, LOSS_PLACE, MTP_ORDER, MTP_STAGES, NORM_PLACE, OUTER_STAGE)

_NOUNS = {"E": "embedding", "L": "loss"}


def check_ends(subject: Subject) -> Iterator[Diagnostic]:
    """PP303 to PP306: one E, the first layer; one L, the last."""
    tally = subject.form.tally
    if tally.count("E") != 1:
        yield _not_one(subject, EMBEDDING_COUNT, "E")
    if tally.count("L") != 1:
        yield _not_one(subject, LOSS_COUNT, "L")
    if tally.count("E") and tally.marks[0].kind != "E":
        yield _misplaced(subject, EMBEDDING_PLACE, "E", "first", tally.marks[0])
    if tally.count("L") and tally.marks[-1].kind != "L":
        yield _misplaced(subject, LOSS_PLACE, "L", "last", tally.marks[-1])


def _not_one(subject: Subject, rule: Rule, kind: str) -> Diagnostic:
    tally = subject.form.tally
    first, last = tally.first(kind), tally.last(kind)
    if first is None or last is None:
        at = _end_of(subject, kind)
        fix = apply_edits(subject.text, [Edit(at, at, kind)])
        return rule.report(f"layout has no {_NOUNS[kind]}", Span(at, at), proposals=[Proposal(f"write `{kind}` here", fix)])
    kept, extra = (first, last) if kind == "E" else (last, first)
    edits = [removed(extra)] if kept is not extra else []
    edits += [Edit(kept.start, kept.end, kind)] if kept.count > 1 else []
    return rule.report(
        f"layout has {plural(tally.count(kind), f'`{kind}`')}",
        extra.span,
        labels=[Label(kept.span, "another")] if kept is not extra else [],
        help="keep one",
        proposals=[Proposal("keep one", apply_edits(subject.text, edits))],
    )


def _misplaced(subject: Subject, rule: Rule, kind: str, place: str, instead: Run) -> Diagnostic:
    """Report an E that is not the first layer, or an L that is not the last one."""
    tally = subject.form.tally
    layer = (tally.first(kind) if kind == "E" else tally.last(kind)) or instead
    at = _end_of(subject, kind)
    return rule.report(
        f"`{kind}` is not the {place} layer",
        layer.span,
        labels=[Label(instead.span, f"this is the {place}")],
        proposals=[Proposal(f"write it {place}", apply_edits(subject.text, [removed(layer), Edit(at, at, kind)]))],
    )


def _end_of(subject: Subject, kind: str) -> int:
    """Give the offset where E would stand first, or L last: an owner stays the last in its stage."""
    if kind == "E":
        return subject.items[0].start
    last = subject.items[-1]
    return last.start if isinstance(last, Owner) else last.end


def check_mtp_order(subject: Subject) -> Iterator[Diagnostic]:
    """PP307: no MTP layer before a decoder layer."""
    found = subject.form.tally.before("m", "t")
    if found is not None:
        decoder, mtp = found
        yield MTP_ORDER.report(
            "an MTP layer stands before a decoder layer",
            mtp.span,
            labels=[Label(decoder.span, "a decoder layer behind it")],
            help="move it behind the last decoder layer",
            proposals=gather_mtp(subject),
        )


def check_mtp_stages(subject: Subject) -> Iterator[Diagnostic]:
    """PP309: all MTP layers in one stage."""
    runs = subject.mtp_runs
    if sum(count for _, _, count in runs) > 1:
        first, last = pieces_of(runs[0][1], "m")[0], pieces_of(runs[-1][1], "m")[-1]
        yield MTP_STAGES.report(
            f"MTP layers stand in {name_stages((number, count) for number, _, count in runs)}",
            last.span,
            labels=[Label(first.span)] if first is not last else [],
            help="write them in one stage",
            proposals=gather_mtp(subject),
        )


def gather_mtp(subject: Subject) -> list[Proposal]:
    """Propose to write all MTP layers right before the loss, where those that are written can be taken out one by one."""
    runs, loss = outer_runs(subject, "m"), subject.form.tally.last("L")
    if loss is None or not runs:
        return []
    together = format_run("m", subject.form.tally.count("m"))
    return [Proposal("write them before `L`", apply_edits(subject.text, [*map(removed, runs), Edit(loss.start, loss.start, together)]))]


def outer_runs(subject: Subject, kind: str) -> list[Run]:
    """Give the runs of a kind of layer, where all of them stand outside of groups; else nothing."""
    runs = [item for item in subject.items if isinstance(item, Run) and item.kind == kind]
    return runs if sum(run.count for run in runs) == subject.form.tally.count(kind) else []


def removed(item: Item) -> Edit:
    """Give the edit that takes an item out."""
    return Edit(item.start, item.end, "")


def check_norm(subject: Subject) -> Iterator[Diagnostic]:
    """PP312: at most one final norm, between the last decoder layer and what follows."""
    tally = subject.form.tally
    norms = [run for run in tally.marks if run.kind == "N"]
    if not norms:
        return
    count, first, last = tally.count("N"), norms[0], norms[-1]
    labels: list[Label] = []
    before = tally.before("N", "t")
    behind = tally.before("m", "N") or tally.before("L", "N")
    if count > 1:
        message, at = f"layout has {plural(count, '`N`')}", last
        labels = [Label(first.span, "another")] if first is not last else []
    elif before is not None:
        message, at = "the final norm stands before a decoder layer", before[1]
        labels = [Label(before[0].span, "a decoder layer behind it")]
    elif behind is not None:
        message, at = f"the final norm stands behind `{behind[1].kind}`", behind[0]
        labels = [Label(behind[1].span)]
    else:
        return
    help_text, runs = "leave it out, since it is implied", outer_runs(subject, "N")
    proposals = [Proposal(help_text, apply_edits(subject.text, map(removed, runs)))] if runs else []
    yield NORM_PLACE.report(message, at.span, labels=labels, help=help_text, proposals=proposals)


def check_outer_stages(subject: Subject) -> Iterator[Diagnostic]:
    """PP313: no empty stage before the embedding's, and none behind the loss's."""
    marks, form = subject.form.tally.marks, subject.form
    if form.order is None or not marks:
        return
    (first, before), (last, behind) = form.order[0], form.order[-1]
    if not form.stages[first].runs and marks[0].kind == "E":
        label = Label(form.stages[first].span, f"{plural(before, 'empty stage')} before it")
        yield _outer(subject, marks[0], "`E` is not in stage 0", label, "remove what stands before it")
    if not form.stages[last].runs and marks[-1].kind == "L":
        label = Label(form.stages[last].span, f"{plural(behind, 'empty stage')} behind it")
        yield _outer(subject, marks[-1], "`L` is not in the last stage", label, "remove what stands behind it")


def _outer(subject: Subject, layer: Run, message: str, label: Label, help_text: str) -> Diagnostic:
    return OUTER_STAGE.report(
        message,
        layer.span,
        labels=[label],
        help=help_text,
        proposals=[Proposal(help_text, apply_edits(subject.text, [_cut(subject, layer)]))] if layer in subject.items else [],
    )


def _cut(subject: Subject, layer: Run) -> Edit:
    """Cut off what stands before E, or behind L and the owner of its stage: no other layer does."""
    if layer.kind == "E":
        return Edit(subject.whole.start, layer.start, "")
    behind = subject.items[subject.items.index(layer) + 1]
    return Edit(behind.end if isinstance(behind, Owner) else layer.end, subject.whole.end, "")
