"""What is checked before any layout is looked at: the range of each size, what a form needs, and that there is one form only."""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

from ppdsl.diagnostics import Rule
from ppdsl.formatting import MOST_COUNT
from ppdsl.options import SCHEDULES, Limits, Target
from ppdsl.validation.subject import join_words
from ppdsl.validation.targets import FEATURES

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TypeGuard

    from ppdsl.diagnostics import Diagnostic
    from ppdsl.options import Options

TWO_FORMS = Rule(
    "PP201",
    "error",
    "two forms of the layout, or a form and a placement, at once",
    "A layout is given once: as text, or in one of the other forms. Owned chunks say themselves which rank each stage is on, so they take "
    "no placement either. First / last layer counts and account-for-embedding or account-for-loss exclude each other, in Megatron-LM too.",
    wrong="check --partition 4,4 --chunks 0:4,1:4",
    right="check --partition 4,4",
)
MISSING_SIZE = Rule(
    "PP202",
    "error",
    "a form lacks a size it needs",
    "An even split needs the number of layers and of ranks, and so do first / last layer counts; a rank-major list needs that of ranks.",
    wrong="check --uniform --pp 4",
    right="check --uniform --pp 4 --num-layers 30",
)
SIZE_RANGE = Rule(
    "PP203",
    "error",
    "a size out of range",
    "There is at least one rank, one chunk on each and one microbatch; layers may be none at all. Sizes beyond any machine are taken for "
    "a slip.",
    wrong="check 'Ett|ttL' --pp 0",
    right="check 'Ett|ttL' --pp 2",
)
RULES = (TWO_FORMS, MISSING_SIZE, SIZE_RANGE)

MOST_RANKS = 1_048_576
"""The largest pp, and the largest vpp."""
_MOST_MICROBATCHES = 10**9
_MOST_STAGES = 16_777_216
_MOST_TEXT = 2**28
_READABLE = 10**15
_PLACING = frozenset({"@", "chunks", "pipeline-chunk-layout"})
"""The options, without their dashes, whose form says itself which rank a stage is on; and the symbol that does."""


def check_sizes(options: Options) -> list[Diagnostic]:
    """Find the sizes that are out of range, and the settings that do not exist (PP203), in no relation to any layout."""
    if not isinstance(options.limits, Limits):
        return [SIZE_RANGE.report(f"limits is {_quote(options.limits)}, not a Limits")]
    sizes = (
        ("--pp", options.pp, 1, MOST_RANKS),
        ("--vpp", options.vpp, 1, MOST_RANKS),
        ("--num-layers", options.num_layers, 0, MOST_COUNT),
        ("--mtp-num-layers", options.mtp_num_layers, 0, MOST_COUNT),
        ("--microbatches", options.microbatches, 1, _MOST_MICROBATCHES),
        ("--microbatch-group-size", options.microbatch_group_size, 1, _MOST_MICROBATCHES),
        ("--max-stages", options.limits.stages, 1, _MOST_STAGES),
        ("--max-text", options.limits.text, 1, _MOST_TEXT),
    )
    settings = (
        ("--placement", options.placement, ("loop", "v")),
        ("--target", options.target, get_args(Target)),
        ("--schedule", options.schedule, SCHEDULES),
    )
    given: object = options.features
    features = given if isinstance(given, tuple) else (given,)
    faults = [_check_size(flag, value, least, most) for flag, value, least, most in sizes if value is not None]
    faults += [_check_setting(flag, value, known) for flag, value, known in settings if value is not None]
    faults += [_check_feature(feature) for feature in features]
    return [fault for fault in faults if fault is not None]


def _check_feature(feature: object) -> Diagnostic | None:
    if not isinstance(feature, tuple) or [*map(type, feature)] not in ([str, str], [str, type(None)]):
        return SIZE_RANGE.report(f"feature {_quote(feature)} is not a name and a text or None")
    return _check_setting("--with", feature[0], FEATURES)


def _check_size(flag: str, value: object, least: int, most: int) -> Diagnostic | None:
    if not is_whole(value):
        return SIZE_RANGE.report(f"{flag} is {_quote(value)}, not a whole number")
    return None if least <= value <= most else size_fault(flag, value, least, most)


def _check_setting(flag: str, value: object, known: Sequence[str]) -> Diagnostic | None:
    if value in known:
        return None
    return SIZE_RANGE.report(f"{flag} is {_quote(value)}, which does not exist", help=f"say one of {', '.join(known)}")


def is_whole(value: object) -> TypeGuard[int]:
    """Tell whether a value is a whole number; a bool is none."""
    return isinstance(value, int) and not isinstance(value, bool)


def _quote(value: object) -> str:
    most = 40
    text = repr(value)
    return text if len(text) <= most else f"{text[: most - 3]}..."


def size_fault(flag: str, value: int, least: int, most: int) -> Diagnostic:
    """Report a size that is out of range."""
    return SIZE_RANGE.report(f"{flag} is {show_number(value)}, the range is {least:,} to {most:,}")


def show_number(value: object) -> str:
    """Write a number for a reader; one that is too long to read is not written out, and what is none is quoted."""
    if not is_whole(value):
        return _quote(value)
    if abs(value) <= _READABLE:
        return f"{value:,}"
    return "below -10^15" if value < 0 else "over 10^15"


def missing_sizes(what: str, **sizes: int | None) -> Diagnostic:
    """Report the sizes that something needs and that are not known (PP202).

    Args:
        what: What needs them.
        sizes: The value of each size that it needs, by its option's name with underscores; at least one is None.
    """
    names = join_words(f"--{name.replace('_', '-')}" for name, value in sizes.items() if value is None)
    return MISSING_SIZE.report(f"{what} needs {names}", help=f"give {names}")


def conflicting_forms(names: Sequence[str], *, placement: bool) -> Diagnostic | None:
    """Report two forms of the layout at once, or a form that places its own stages beside a placement (PP201).

    Args:
        names: The options by which forms were given, as typed, each form once; text is one of them.
        placement: Whether ``--placement`` was given.
    """
    if len(names) > 1:
        return TWO_FORMS.report(f"{len(names)} forms of the layout at once: {join_words(names)}", help="give one of them")
    placing = [name for name in names if name.lstrip("-").replace("_", "-") in _PLACING]
    if placement and placing:
        return placed_twice(placing[0])
    return None


def placed_twice(form: str) -> Diagnostic:
    """Report a form that places its own stages beside a placement (PP201)."""
    return TWO_FORMS.report(f"{form} and --placement both say which rank a stage is on", help="leave out --placement")
