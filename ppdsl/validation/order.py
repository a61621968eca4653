"""Which layer stands where: PP303 to PP307, PP309, PP312, PP313."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ppdsl.diagnostics import Label, Proposal, Rule
from ppdsl.formatting import format_run
from ppdsl.nodes import Run
from ppdsl.parsing.edits import Edit, apply_edits
from ppdsl.source import Span
from ppdsl.validation.subject import join_words, pieces_of, plural

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ppdsl.diagnostics import Diagnostic
    from ppdsl.validation.subject import Subject

EMBEDDING_COUNT = Rule(
    "PP303",
    "error",
    "not exactly one `E`",
    "A model has one embedding, and its layout one E.",
    wrong="check 'tt|ttL'",
    right="check 'Ett|ttL'",
)
LOSS_COUNT = Rule(
    "PP304",
    "error",
    "not exactly one `L`",
    "A model has one loss with its lm-head, and its layout one L. A loss cannot be split over stages.",
    wrong="check 'Ett|tt'",
    right="check 'Ett|ttL'",
)
EMBEDDING_PLACE = Rule(
    "PP305",
    "error",
    "`E` is not the first layer",
    "Data enters the model through the embedding, so it comes before every other layer.",
    wrong="check 'tEt|ttL'",
    right="check 'Ett|ttL'",
)
LOSS_PLACE = Rule(
    "PP306",
    "error",
    "`L` is not the last layer",
    "The loss is what the forward pass ends with, so it comes after every other layer.",
    wrong="check 'Ett|tLt'",
    right="check 'Ett|ttL'",
)
MTP_ORDER = Rule(
    "PP307",
    "error",
    "an `m` before a `t`",
    "Multi-token-prediction layers work on what the last decoder layer gives, so they come after every t.",
    wrong="check 'Etm|ttL'",
    right="check 'Ett|tmL'",
)
MTP_STAGES = Rule(
    "PP309",
    "error",
    "MTP layers in more than one stage",
    "All MTP layers must be in one stage: Megatron-LM builds them in one place. Its own help text shows `E|(t|)*3,m|m||L`, which its validator refuses.",
    wrong="check 'Ett|tt|m|mL'",
    right="check 'Ett|tt|tt|mmL'",
)
NORM_PLACE = Rule(
    "PP312",
    "error",
    "more than one `N`, or `N` before a `t`, after an `m`, or after `L`",
    "The final norm follows the last decoder layer. It may be left out: it is then built with L, or with the last t where there are MTP layers.",
    wrong="check 'EttN|ttL'",
    right="check 'Ett|ttNL'",
)
OUTER_STAGE = Rule(
    "PP313",
    "error",
    "`E` is not in stage 0, or `L` is not in the last stage",
    "An empty stage before E or behind L has nothing to receive or to send. Megatron-LM accepts such a layout and builds the embedding or the loss "
    "on a rank that does not expect it. Most often a bar stands at the end by habit.",
    wrong="check 'Ett|ttL|'",
    right="check 'Ett|ttL'",
)
RULES = (EMBEDDING_COUNT, LOSS_COUNT, EMBEDDING_PLACE, LOSS_PLACE, MTP_ORDER, MTP_STAGES, NORM_PLACE, OUTER_STAGE)


def _removed(run: Run) -> Edit:
    return Edit(run.start, run.end, "")


def check_ends(subject: Subject) -> Iterator[Diagnostic]:
    """PP303 to PP306: one E, the first layer; one L, the last."""
    tally = subject.form.tally
    yield from _check_one(subject, EMBEDDING_COUNT, "E", "embedding")
    yield from _check_one(subject, LOSS_COUNT, "L", "loss")
    first, last = tally.marks[:1], tally.marks[-1:]
    embedding, loss = tally.first("E"), tally.last("L")
    if embedding is not None and first[0].kind != "E":
        fix = apply_edits(subject.text, [_removed(embedding), Edit(subject.whole.start, subject.whole.start, "E")])
        yield EMBEDDING_PLACE.report(
            "`E` is not the first layer",
            embedding.span,
            labels=[Label(first[0].span, "this is the first")],
            help="write it first",
            proposals=[Proposal("write it first", fix)],
        )
    if loss is not None and last[0].kind != "L":
        fix = apply_edits(subject.text, [_removed(loss), Edit(subject.whole.end, subject.whole.end, "L")])
        yield LOSS_PLACE.report(
            "`L` is not the last layer",
            loss.span,
            labels=[Label(last[0].span, "this is the last")],
            help="write it last",
            proposals=[Proposal("write it last", fix)],
        )


def _check_one(subject: Subject, rule: Rule, kind: str, noun: str) -> Iterator[Diagnostic]:
    tally = subject.form.tally
    count, first, last = tally.count(kind), tally.first(kind), tally.last(kind)
    if count == 1:
        return
    if first is None or last is None:
        at = subject.whole.start if kind == "E" else subject.whole.end
        fix = apply_edits(subject.text, [Edit(at, at, kind)])
        yield rule.report(
            f"layout has no {noun}", Span(at, at), help=f"write `{kind}` here", proposals=[Proposal(f"write `{kind}` here", fix)]
        )
        return
    kept, extra = (first, last) if kind == "E" else (last, first)
    edits = [_removed(extra)] if kept is not extra else []
    edits += [Edit(kept.start, kept.end, kind)] if kept.count > 1 else []
    proposals = [Proposal("keep one", apply_edits(subject.text, edits))] if edits else []
    labels = [Label(kept.span, "another")] if kept is not extra else []
    yield rule.report(f"layout has {plural(count, f'`{kind}`')}", extra.span, labels=labels, help="keep one", proposals=proposals)


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
    places = subject.stages_with("m")
    if sum(count for _, _, count in places) < 2:  # noqa: PLR2004 -- two are more than one
        return
    numbers = [number + step for number, _, count in places for step in range(min(count, 10))]
    pieces = [piece for _, stage, _ in places for piece in pieces_of(stage, "m")]
    labels = [Label(pieces[0].span)] if pieces[0] is not pieces[-1] else []
    yield MTP_STAGES.report(
        f"MTP layers stand in stages {join_words(numbers)}",
        pieces[-1].span,
        labels=labels,
        help="write them in one stage",
        proposals=gather_mtp(subject),
    )


def gather_mtp(subject: Subject) -> list[Proposal]:
    """Propose to write all MTP layers right before the loss, where those that are written can be taken out one by one."""
    count, loss = subject.form.tally.count("m"), subject.form.tally.last("L")
    runs = [item for item in subject.items if isinstance(item, Run) and item.kind == "m"]
    if loss is None or sum(run.count for run in runs) != count:
        return []
    fix = apply_edits(subject.text, [*map(_removed, runs), Edit(loss.start, loss.start, format_run("m", count))])
    return [Proposal("write them before `L`", fix)]


def check_norm(subject: Subject) -> Iterator[Diagnostic]:
    """PP312: at most one final norm, between the last decoder layer and what follows."""
    tally = subject.form.tally
    first, last = tally.first("N"), tally.last("N")
    if first is None or last is None:
        return
    labels: list[Label] = []
    before = tally.before("N", "t")
    behind = tally.before("m", "N") or tally.before("L", "N")
    if tally.count("N") > 1:
        message, at = f"layout has {plural(tally.count('N'), '`N`')}", last
        labels = [Label(first.span, "another")] if first is not last else []
    elif before is not None:
        message, at = "the final norm stands before a decoder layer", before[1]
        labels = [Label(before[0].span, "a decoder layer behind it")]
    elif behind is not None:
        message, at = f"the final norm stands behind `{behind[1].kind}`", behind[0]
        labels = [Label(behind[1].span)]
    else:
        return
    runs = [item for item in subject.items if isinstance(item, Run) and item.kind == "N"]
    help_text = "leave it out: the final norm is implied"
    proposals = [Proposal(help_text, apply_edits(subject.text, map(_removed, runs)))] if sum(run.count for run in runs) == tally.count("N") else []
    yield NORM_PLACE.report(message, at.span, labels=labels, help=help_text, proposals=proposals)


def check_outer_stages(subject: Subject) -> Iterator[Diagnostic]:
    """PP313: no empty stage before the embedding's, and none behind the loss's."""
    tally, order = subject.form.tally, subject.form.order
    embedding, loss = tally.first("E"), tally.last("L")
    if order is None:
        return
    first, last = subject.form.stages[order[0][0]], subject.form.stages[order[-1][0]]
    if embedding is not None and tally.marks[0].kind == "E" and not first.runs:
        yield _outer(subject, embedding, first.span, "`E` is not in stage 0", "before")
    if loss is not None and tally.marks[-1].kind == "L" and not last.runs:
        yield _outer(subject, loss, last.span, "`L` is not in the last stage", "behind")


def _outer(subject: Subject, layer: Run, empty: Span, message: str, where: str) -> Diagnostic:
    bars = [item for item in subject.items if isinstance(item, Run) and item.kind == "|"]
    outer = [bar for bar in bars if (bar.end <= layer.start if where == "before" else bar.start >= layer.end)]
    proposals = [Proposal(f"remove the bar {where} it", apply_edits(subject.text, map(_removed, outer)))] if outer else []
    return OUTER_STAGE.report(
        message,
        layer.span,
        labels=[Label(empty, f"an empty stage {where} it")],
        help=f"remove the bar {where} it",
        proposals=proposals,
    )
