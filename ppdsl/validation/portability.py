"""What the target's own parser would refuse or misread: PP501 to PP505, and the string that it accepts instead."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ppdsl.diagnostics import Label, Proposal, Rule
from ppdsl.formatting import format_run, write_stages
from ppdsl.nodes import Group, Item
from ppdsl.source import Span
from ppdsl.validation.subject import plural, runs_with

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
    "Megatron-LM builds the final norm with `L`, or with the last `t` where there are MTP layers. Where `N` stands in that stage, it can "
    "be left out.",
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
_MOST_LABELS = 6
_STRANGE = {**dict.fromkeys(" \t\r\n", "white space"), **dict.fromkeys("'\"", "a quote"), "\\": "a backslash"}


def norm_is_implied(form: NormalForm) -> bool:
    """Tell whether the layout means the same without its ``N``."""
    return all(number == form.implied_norm_stage() for number, _, _ in runs_with(form, "N"))


def is_loop(form: NormalForm, pp: int, placement: Placement | None) -> bool:
    """Tell whether the stages are on the ranks on which a loop would put them."""
    if placement is not None:
        return placement == "loop" or pp == 1 or form.tally.stages <= pp
    return form.tally.stages % pp == 0 and all(
        stage.owner == number % pp and (count == 1 or pp == 1) for number, stage, count in form.runs()
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
    loop = subject.placement == "loop" or (subject.pp is not None and is_loop(subject.form, subject.pp, subject.placement))
    if "(" in subject.text:
        yield from _check_groups(subject, loop=loop)
    yield from _check_norm(subject, loop=loop)
    yield from _check_blanks(subject, loop=loop)
    if subject.placement is None or (not loop and subject.pp is not None):
        message = f"{subject.options.target} deals stages to ranks in a loop"
        note, help_text = ("the placement is v", "leave --placement out") if subject.placement else _compare_owners(subject)
        help_text = "leave the owners out" if loop else help_text
        yield PLACEMENT.report(
            message, subject.whole, notes=[] if loop else [note], help=help_text, proposals=_rewritten(subject, loop=loop)
        )


def _compare_owners(subject: Subject) -> tuple[str, str]:
    """Say why owners are not those of the loop, and what to do about it."""
    stages, pp = subject.stages, subject.pp or 1
    if stages % pp:
        return f"{plural(stages, 'stage')} over {plural(pp, 'rank')} are no loop: not a multiple", f"write a multiple of {pp:,} stages"
    return "the owners are not those of the loop", "put stage k on rank k mod pp"


def _rewritten(subject: Subject, *, loop: bool) -> list[Proposal]:
    """Propose the text that the target reads, where there is one that means the same."""
    text = megatron_text(subject.form, subject.options.limits.text) if loop and norm_is_implied(subject.form) else None
    return [] if text is None else [Proposal(f"write what {subject.options.target} reads", text)]


def _check_groups(subject: Subject, *, loop: bool) -> Iterator[Diagnostic]:
    groups = [*_groups(subject.items)]
    nested = [group for group, depth in groups if depth]
    if nested:
        yield NESTED.report(
            "a nested group",
            nested[0].span,
            labels=[Label(group.span, "another") for group in nested[1:_MOST_LABELS]],
            notes=["Megatron-LM's parser cannot see groups inside groups"],
            help="write the inner group out",
            proposals=_rewritten(subject, loop=loop),
        )
    bare = [group for group, _ in groups if group.repeat is None]
    if bare:
        yield BARE_GROUP.report(
            "a group without a count",
            bare[0].span,
            labels=[Label(group.span, "another") for group in bare[1:_MOST_LABELS]],
            help="write a repeat behind it",
            proposals=_rewritten(subject, loop=loop),
        )


def _groups(items: tuple[Item, ...]) -> Iterator[tuple[Group, int]]:
    """Give every group with its depth, in the order of the text."""
    stack: list[tuple[Item, int]] = [(item, 0) for item in reversed(items)]
    while stack:
        item, depth = stack.pop()
        if isinstance(item, Group):
            yield item, depth
            stack += [(inner, depth + 1) for inner in reversed(item.items)]


def _check_norm(subject: Subject, *, loop: bool) -> Iterator[Diagnostic]:
    norm = subject.form.tally.first("N")
    if norm is not None:
        stage = subject.form.implied_norm_stage()
        implied = not subject.listed or norm_is_implied(subject.form)
        yield NORM.report(
            f"{subject.options.target} does not know `N`",
            norm.span,
            notes=[] if implied else [f"the final norm is implied in stage {stage:,}; it cannot be put elsewhere"],
            help="leave it out" if implied else "leave it out if that stage will do",
            proposals=_rewritten(subject, loop=loop),
        )


def _check_blanks(subject: Subject, *, loop: bool) -> Iterator[Diagnostic]:
    for at, char in enumerate(subject.text):
        if char in _STRANGE:
            yield BLANKS.report(
                f"{_STRANGE[char]} in the layout, which {subject.options.target} does not read past",
                Span(at, at + 1),
                help="delete it",
                proposals=_rewritten(subject, loop=loop),
            )
            return
