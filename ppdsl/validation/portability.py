"""What the target's own parser would refuse or misread: PP501 to PP505, and the string that it accepts instead."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ppdsl.diagnostics import Proposal, Rule
from ppdsl.formatting import format_run, write_stages
from ppdsl.nodes import SEPARATORS, Group, Item, Run
from ppdsl.placing import rank_cycle
from ppdsl.source import Span

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ppdsl.diagnostics import Diagnostic
    from ppdsl.normal_form import NormalForm
    from ppdsl.options import Placement
    from ppdsl.validation.subject import Subject

NESTED = Rule(
    "PP501",
    "error",
    "a nested group, which the target's parser misreads",
    "Megatron-LM unrolls repeats by substituting text and cannot see groups inside groups.",
    wrong="check 'E((t|)*2tt|)*3L' --target megatron",
    right="check 'E(t|t|tt|)*3L' --target megatron",
)
NORM = Rule(
    "PP502",
    "error",
    "`N`, which the target's parser does not know",
    "Megatron-LM builds the final norm with L, or with the last t where there are MTP layers. Where N stands in that stage it can be left out.",
    wrong="check 'Ett|ttNL' --target megatron",
    right="check 'Ett|ttL' --target megatron",
)
BARE_GROUP = Rule(
    "PP503",
    "error",
    "a group without a count, which the target's parser does not know",
    "Megatron-LM reads parentheses only in front of a repeat.",
    wrong="check 'E(tt)|ttL' --target megatron",
    right="check 'E(tt)*1|ttL' --target megatron",
)
BLANKS = Rule(
    "PP504",
    "error",
    "white space, quotes or backslashes, which the target's parser does not read past",
    "Megatron-LM deletes commas and nothing else.",
    wrong="check 'Ett | ttL' --target megatron",
    right="check 'Ett,|,ttL' --target megatron",
)
PLACEMENT = Rule(
    "PP505",
    "error",
    "`@` or a placement that is not the loop",
    "Megatron-LM deals stages to ranks in a loop, and so does MindSpeed. A layout with other owners cannot be said in their language.",
    wrong="check 'Et@0|t@1|t@1|tL@0' --target megatron",
    right="check 'Et|t|t|tL' --pp 2 --target megatron",
)
RULES = (NESTED, NORM, BARE_GROUP, BLANKS, PLACEMENT)

_MEGATRON_LIKE = ("megatron", "mindspeed")


def norm_is_implied(form: NormalForm) -> bool:
    """Tell whether the layout means the same without its ``N``."""
    return all(number == form.implied_norm_stage() for number, stage, _ in form.runs() if stage.count("N"))


def is_loop(form: NormalForm, pp: int, placement: Placement | None) -> bool:
    """Tell whether the stages are on the ranks on which a loop would put them."""
    if placement is not None:
        return placement == "loop" or form.tally.stages <= pp
    cycle = rank_cycle(pp, "loop")
    return all(
        all(cycle[step % pp] == stage.owner for step in range(number, number + min(count, pp + 1))) for number, stage, count in form.runs()
    )


def megatron_text(form: NormalForm, limit: int) -> str | None:
    """Write a layout as Megatron-LM reads it: no nested groups, white space, ``N`` or owners.

    It means the same only where ``norm_is_implied`` and ``is_loop`` hold.

    Args:
        form: The layout.
        limit: How many characters the text may have.
    """
    if form.order is None:
        return None
    texts = ["".join(format_run(kind, count) for kind, count in stage.runs if kind != "N") for stage in form.stages]
    return write_stages(((texts[index], count) for index, count in form.order), limit)


def check_portability(subject: Subject) -> Iterator[Diagnostic]:
    """PP501 to PP505, where a target is named whose parser is stricter."""
    if subject.options.target not in _MEGATRON_LIKE:
        return
    text = megatron_text(subject.form, subject.options.limits.text)
    proposals = [Proposal(f"write what {subject.options.target} reads", text)] if text else []
    if not norm_is_implied(subject.form):
        proposals = []
    for group, depth in _groups(subject.items):
        if depth:
            yield NESTED.report("a nested group", group.span, notes=["Megatron-LM's parser cannot see groups inside groups"], proposals=proposals)
            break
    for group, _ in _groups(subject.items):
        if group.repeat is None:
            yield BARE_GROUP.report("a group without a count", group.span, help="write a repeat behind it", proposals=proposals)
            break
    norm = subject.form.tally.first("N")
    if norm is not None:
        notes = [] if proposals else [f"the final norm is implied in stage {subject.form.implied_norm_stage():,}; it cannot be put elsewhere"]
        yield NORM.report(f"{subject.options.target} does not know `N`", norm.span, notes=notes, proposals=proposals)
    yield from _check_blanks(subject, proposals)
    pp = subject.pp
    if subject.placement != "loop" and pp is not None:
        loop = subject.dealt_pp is not None and is_loop(subject.form, pp, subject.placement)
        if subject.placement is None or not loop:
            yield PLACEMENT.report(
                f"{subject.options.target} deals stages to ranks in a loop",
                subject.whole,
                notes=[] if loop else ["the owners are not those of the loop"],
                proposals=proposals if loop else [],
            )


def _groups(items: tuple[Item, ...]) -> Iterator[tuple[Group, int]]:
    """Give every group with its depth, in the order of the text."""
    stack: list[tuple[Item, int]] = [(item, 0) for item in reversed(items)]
    while stack:
        item, depth = stack.pop()
        if isinstance(item, Group):
            yield item, depth
            stack += [(inner, depth + 1) for inner in reversed(item.items)]


def _check_blanks(subject: Subject, proposals: list[Proposal]) -> Iterator[Diagnostic]:
    strange = [at for at, char in enumerate(subject.text) if char in SEPARATORS.replace(",", "") or char in "'\"\\"]
    if strange:
        char = subject.text[strange[0]]
        what = "white space" if char in SEPARATORS else "a backslash" if char == "\\" else "a quote"
        yield BLANKS.report(
            f"{what} in the layout, which {subject.options.target} does not read past", Span(strange[0], strange[0] + 1), proposals=proposals
        )
