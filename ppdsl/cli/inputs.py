"""What a command is to work on: the layouts that were typed, read from standard input, or found in launch files."""

from __future__ import annotations

import sys
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from ppdsl.cli.options import compile_options, refuse
from ppdsl.diagnostics import Diagnostic
from ppdsl.sizes import conflicting_forms
from ppdsl.source import Source, Span

if TYPE_CHECKING:
    from ppdsl.cli.launches import Origin
    from ppdsl.cli.options import Values
    from ppdsl.forms import Form
    from ppdsl.options import Options

STDIN = "<stdin>"
MOST_BYTES = 2**26
"""How much of standard input is read: 64 MiB."""


class Entry(NamedTuple):
    """One layout to work on, or the reason why there is none.

    Attributes:
        layout: The layout; None where it could not be read, which an error among ``diagnostics`` explains.
        options: What to check it against.
        page: What the spans of ``diagnostics`` count in: a whole file; None where there is none.
        diagnostics: What was found while reading.
        written: Where in the input the layout stands; None for what was typed in another form than text.
        origins: Where the sizes come from; empty where all of them were typed.
    """

    layout: Source | Form | None
    options: Options
    page: Source | None = None
    diagnostics: tuple[Diagnostic, ...] = ()
    written: Source | None = None
    origins: tuple[Origin, ...] = ()


class Inputs(NamedTuple):
    """All that a command is to work on.

    Attributes:
        entries: One for each layout, in the order of the input.
        many: Whether the input may hold any number of layouts, so that a list of results is printed.
    """

    entries: tuple[Entry, ...]
    many: bool


def read_inputs(values: Values) -> Inputs:
    """Find the layouts that a command is to work on.

    Args:
        values: What was typed.

    Returns:
        The layouts. What cannot be read is an entry that says so.

    Raises:
        click.UsageError: No layout is given, or more than one.
    """
    options = compile_options(values)
    names = form_names(values)
    if not names:
        refuse("no layout is given: write LAYOUT, - for standard input, --from FILE, or a form such as --uniform")
    conflict = conflicting_forms(names, placement=options.placement is not None)
    if conflict is not None:
        many = bool(values.get("files") or values.get("launch_files") or "-" in values.get("layouts", ()))
        return Inputs((Entry(None, options, diagnostics=(conflict,)),), many)
    if values.get("files") or values.get("launch_files"):
        from ppdsl.cli.launches import read_launches  # noqa: PLC0415 -- loads the readers of launch files

        paths = values.get("launch_files", ()) or values.get("layouts", ())
        return Inputs(tuple(read_launches(paths, options, values)), many=True)
    return _read_typed(values, options)


def form_names(values: Values) -> list[str]:
    """Name each way in which a layout is given, as typed.

    Raises:
        click.UsageError: More than one layout is given as text.
    """
    layouts = values.get("layouts", ())
    if len(layouts) > 1 and not values.get("files"):
        refuse(f"one LAYOUT is taken, {len(layouts)} are given; put a layout that has spaces in quotes")
    uneven = (
        ("--first-stage-layers", values.get("first_stage_layers") is not None),
        ("--last-stage-layers", values.get("last_stage_layers") is not None),
        ("--account-for-embedding", values.get("account_for_embedding")),
        ("--account-for-loss", values.get("account_for_loss")),
    )
    given = (
        ("--files", values.get("files")),
        ("LAYOUT", layouts and not values.get("files")),
        ("--pipeline-model-parallel-layout", values.get("given_layout") is not None),
        ("--from", values.get("launch_files")),
        ("--uniform", values.get("uniform")),
        ("--partition", values.get("partition") is not None),
        ("--chunks", values.get("chunks") is not None),
        ("--list", values.get("lists") is not None),
        ("--rank-major", values.get("rank_major") is not None),
        ("--layer-costs", values.get("layer_costs") is not None),
        (next((name for name, there in uneven if there), ""), any(there for _, there in uneven)),
    )
    return [name for name, there in given if there]


def _read_typed(values: Values, options: Options) -> Inputs:
    """Read a layout, or another form of one, that was typed."""
    text = next(iter(values.get("layouts", ())), values.get("given_layout"))
    if text == "-" and values.get("layouts"):
        return Inputs(_read_stdin(options, allow_none=values.get("allow_none", False)), many=True)
    if text is not None:
        return Inputs((read_text(text, options),), many=False)
    form = _read_form(values)
    if isinstance(form, Diagnostic):
        return Inputs((Entry(None, options, diagnostics=(form,)),), many=False)
    return Inputs((Entry(form, options),), many=False)


def read_text(text: str, options: Options, name: str = "<layout>") -> Entry:
    """Take a layout that was typed; what could not be decoded is refused."""
    fault = _undecoded(text, "the layout")
    if fault is not None:
        return Entry(None, options, diagnostics=(fault,))
    source = Source(text, name)
    return Entry(source, options, written=source)


def place_on_page(written: Source) -> Span:
    """Give the characters of a text in the file that it was found in."""
    start = written.position(0)
    return Span(start, written.position(len(written.text) - 1) + 1 if written.text else start)


def _undecoded(text: str, name: str) -> Diagnostic | None:
    """Refuse text that holds bytes which could not be decoded (PP206)."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return Diagnostic("PP206", "error", f"{name} is not valid UTF-8")
    return None


def _read_form(values: Values) -> Form | Diagnostic:
    """Read the one other form that was given."""
    from ppdsl import forms  # noqa: PLC0415 -- most layouts are text

    for name, text, read in (
        ("--partition", values.get("partition"), forms.read_partition),
        ("--chunks", values.get("chunks"), forms.read_owned_chunks),
        ("--list", values.get("lists"), forms.read_layer_lists),
        ("--rank-major", values.get("rank_major"), forms.read_rank_major),
        ("--layer-costs", values.get("layer_costs"), forms.read_cost_list),
    ):
        if text is not None:
            return _undecoded(text, name) or read(text)
    if values.get("uniform"):
        return forms.Uniform()
    return forms.FirstLast(
        values.get("first_stage_layers"),
        values.get("last_stage_layers"),
        values.get("account_for_embedding", False),
        values.get("account_for_loss", False),
    )


def read_stdin_text() -> str | Diagnostic:
    """Read standard input as text in UTF-8, or say why it cannot be read (PP206)."""
    if sys.stdin is None:
        return Diagnostic("PP206", "error", "standard input is closed")
    try:
        content = sys.stdin.buffer.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            return Diagnostic("PP206", "error", f"standard input is longer than {MOST_BYTES:,} bytes")
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        return Diagnostic("PP206", "error", f"standard input is not valid UTF-8 at byte {error.start:,}")
    except OSError as error:
        return Diagnostic("PP206", "error", f"standard input cannot be read: {error.strerror or error}".lower())


def _read_stdin(options: Options, *, allow_none: bool) -> tuple[Entry, ...]:
    """Read one layout a line; blank lines and lines that begin with ``#`` are no layouts."""
    text = read_stdin_text()
    if isinstance(text, Diagnostic):
        return (Entry(None, options, diagnostics=(text,)),)
    starts = [*Source(text).line_starts(), len(text)]
    entries = []
    for start, behind in pairwise(starts):
        line = text[start:behind].rstrip("\r\n")
        if line.strip(" \t") and not line.startswith("#"):
            source = Source(line, STDIN, text, range(start, start + len(line) + 1))
            entries.append(Entry(source, options, written=source))
    if not entries and not allow_none:
        return (Entry(None, options, diagnostics=(Diagnostic("PP204", "error", "standard input holds no layout"),)),)
    return tuple(entries)
