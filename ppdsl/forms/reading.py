"""Reading the other forms as a user types them, on a command line or in a launch file."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ppdsl.forms.listing import EXAMPLE, convert_layer_lists, quote
from ppdsl.forms.rules import ENTRIES, LIST_FORM
from ppdsl.forms.values import LayerLists, OwnedChunks, Partition, RankMajor

if TYPE_CHECKING:
    from ppdsl.diagnostics import Diagnostic, Rule

MOST_TEXT = 1_048_576
"""Characters of a text that is read."""

BLANKS = " \t\r\n"
"""White space between entries."""
_MOST_DIGITS = 12
_TOKEN = re.compile(
    r"""[ \t\r\n]* (?: (?P<mark> [\[\],] )
                     | '(?P<single> [^'\\\n]* )' | "(?P<double> [^"\\\n]* )"
                     | (?P<other> ["'] [^,\]\n]* | [^ \t\r\n,\[\]]+ ) )""",
    re.VERBOSE,
)
_INNERMOST = 2


def read_partition(text: str) -> Partition | Diagnostic:
    """Read ``4,8,6,6``: decoder layers of each rank.

    Returns:
        The form, or a PP208 that quotes the first bad entry. Whether the counts fit is for ``lower`` to say.
    """
    layers = _read_counts("partition", text, "write one count for each rank, with commas between: 4,8,6,6")
    return Partition(layers) if isinstance(layers, tuple) else layers


def read_rank_major(text: str) -> RankMajor | Diagnostic:
    """Read ``3,4,4,5``: decoder layers of each chunk, all chunks of rank 0 first.

    Returns:
        The form, or a PP208 that quotes the first bad entry. Whether the counts fit is for ``lower`` to say.
    """
    layers = _read_counts("rank-major list", text, "write one count for each chunk, with commas between: 3,4,4,5")
    return RankMajor(layers) if isinstance(layers, tuple) else layers


def read_owned_chunks(text: str) -> OwnedChunks | Diagnostic:
    """Read ``0:3,1:3,1:3,0:3``: rank and decoder layers of each stage in forward order.

    Returns:
        The form, or a PP208 that quotes the first bad entry. Whether the numbers fit is for ``lower`` to say.
    """
    what, example = "chunk list", "write rank:layers for each stage, with commas between: 0:3,1:3,0:3"
    entries = split_entries(what, text, example)
    if not isinstance(entries, list):
        return entries
    chunks = []
    for index, entry in enumerate(entries, 1):
        rank, _, layers = entry.partition(":")
        numbers = _read_number(rank.strip(BLANKS)), _read_number(layers.strip(BLANKS))
        if numbers[0] is None or numbers[1] is None:
            return bad_entry(what, index, entry, "rank:layers, two whole numbers of 1 to 12 digits", example)
        chunks.append((numbers[0], numbers[1]))
    return OwnedChunks(tuple(chunks))


def read_layer_lists(text: str) -> LayerLists | Diagnostic:
    """Read ``[["embedding", "decoder"], ["decoder", "loss"]]``, as JSON or Python would write it.

    The text is taken apart here rather than evaluated, so that nothing in it can be more than brackets, commas and quoted names.

    Returns:
        The form, or a PP209 that quotes what does not fit.
    """
    too_long = _check_length(LIST_FORM, "list form", text)
    if too_long is not None:
        return too_long
    rows = _read_rows(text)
    return convert_layer_lists(rows) if isinstance(rows, list) else rows


def _read_rows(text: str) -> list[list[str]] | Diagnostic:
    stop = len(text.rstrip(BLANKS))
    if not stop:
        return LIST_FORM.report("the list form is empty", help=EXAMPLE)
    rows: list[list[str]] = []
    depth, at, wanted = 0, 0, True  # wanted: an entry may begin here; else a comma or the end of the list must follow
    while at < stop:
        match = _TOKEN.match(text, at)
        if match is None:  # pragma: no cover -- the last two alternatives take any character
            break
        mark, name = match["mark"], match["single"] if match["double"] is None else match["double"]
        if mark == "[" and wanted and depth < _INNERMOST:
            depth += 1
            if depth == _INNERMOST:
                rows.append([])
        elif mark == "]" and depth:
            depth, wanted = depth - 1, False
        elif mark == "," and depth and not wanted:
            wanted = True
        elif name is not None and wanted and depth == _INNERMOST:
            rows[-1].append(name)
            wanted = False
        else:
            token = match[0].strip(BLANKS)
            return _misfit(quote(token), match.end() - len(token))
        at = match.end()
    return _misfit("its end", stop) if depth else rows


def _misfit(what: str, at: int) -> Diagnostic:
    message = f"the list form is not a list of lists of quoted names: {what}, at character {at + 1:,}, does not fit"
    return LIST_FORM.report(message, help=EXAMPLE)


def _read_counts(what: str, text: str, example: str) -> tuple[int, ...] | Diagnostic:
    entries = split_entries(what, text, example)
    if not isinstance(entries, list):
        return entries
    counts = []
    for index, entry in enumerate(entries, 1):
        count = _read_number(entry)
        if count is None:
            return bad_entry(what, index, entry, "a whole number of 1 to 12 digits", example)
        counts.append(count)
    return tuple(counts)


def split_entries(what: str, text: str, example: str) -> list[str] | Diagnostic:
    """Take a list apart at its commas.

    Args:
        what: What it is called in a message.
        text: The text, as typed.
        example: The help that shows how one is written.

    Returns:
        The entries without white space around them, or a PP208 for a text that is empty or too long.
    """
    too_long = _check_length(ENTRIES, what, text)
    if too_long is not None:
        return too_long
    if not text.strip(BLANKS):
        return ENTRIES.report(f"the {what} is empty", help=example)
    return [entry.strip(BLANKS) for entry in text.split(",")]


def _check_length(rule: Rule, what: str, text: str) -> Diagnostic | None:
    return rule.report(f"the {what} has {len(text):,} characters, the limit is {MOST_TEXT:,}") if len(text) > MOST_TEXT else None


def _read_number(text: str) -> int | None:
    """Read ASCII digits, as few as in the language; Python's own ``int`` takes signs, underscores and other scripts' digits too."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS else None


def bad_entry(what: str, index: int, entry: str, kind: str, example: str) -> Diagnostic:
    """Report an entry, numbered from 1, that is not of the kind that it should be, or is empty (PP208)."""
    message = f"entry {index:,} of the {what}, {quote(entry)}, is not {kind}" if entry else f"entry {index:,} of the {what} is empty"
    return ENTRIES.report(message, help=example)
