"""Megatron's list form: one list of layer names a stage."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from ppdsl.formatting import format_run
from ppdsl.forms.rules import LIST_FORM
from ppdsl.forms.values import LayerLists, Lowered, refuse
from ppdsl.forms.writing import write_stages

if TYPE_CHECKING:
    from ppdsl.diagnostics import Diagnostic
    from ppdsl.options import Options

EXAMPLE = 'write it as [["embedding", "decoder"], ["decoder", "loss"]]'

_SYMBOLS = {"embedding": "E", "decoder": "t", "mtp": "m", "loss": "L"}
_MEANT = {
    **dict.fromkeys(("e", "emb", "embed", "word_embeddings"), "embedding"),
    **dict.fromkeys(("t", "d", "transformer", "layer"), "decoder"),
    "m": "mtp",
    **dict.fromkeys(("l", "head", "lm_head", "output"), "loss"),
}
_NORMS = frozenset({"n", "norm", "final_norm", "final_layernorm"})
_MOST_SHOWN = 40


def convert_layer_lists(value: object) -> LayerLists | Diagnostic:
    """Check a value, from a launch file or from Python, and make the list form of it.

    Args:
        value: A list (or tuple) of lists of layer names.

    Returns:
        The form, or a PP209 that quotes the first entry at fault. Nothing is raised for any value.
    """
    if not isinstance(value, list | tuple):
        return LIST_FORM.report(f"the list form is {_describe(value)}, not a list of lists of layer names", help=EXAMPLE)
    if not value:
        return LIST_FORM.report("the list form has no stage", help=EXAMPLE)
    for number, row in enumerate(value):
        if not isinstance(row, list | tuple):
            return LIST_FORM.report(f"stage {number:,} of the list form is {_describe(row)}, not a list of layer names", help=EXAMPLE)
        for index, name in enumerate(row, 1):
            if not isinstance(name, str):
                return LIST_FORM.report(f"entry {index:,} of stage {number:,} is {_describe(name)}, not a layer name", help=EXAMPLE)
            if _clean(name) not in _SYMBOLS:
                return _unknown_name(number, index, name)
    return LayerLists(tuple(map(tuple, value)))


def lower_layer_lists(form: LayerLists, options: Options) -> Lowered:
    """Write the layers as they are listed; whether they make a valid layout is for the rules of meaning to say."""
    checked = convert_layer_lists(form.stages)
    if not isinstance(checked, LayerLists):
        return refuse(options, checked)
    if not any(form.stages) and len(form.stages) == 1:
        return refuse(options, LIST_FORM.report("the list form has no layer", help=EXAMPLE))
    return write_stages(((_write_stage(names), 1) for names in form.stages), options)


def quote(text: str) -> str:
    """Quote what a user typed; of a long text, the beginning."""
    return f"`{text}`" if len(text) <= _MOST_SHOWN else f"`{text[:_MOST_SHOWN]}...`"


def _clean(name: str) -> str:
    return name.strip().lower()


def _write_stage(names: tuple[str, ...]) -> str:
    return "".join(format_run(_SYMBOLS[name], len([*same])) for name, same in groupby(map(_clean, names)))


def _describe(value: object) -> str:
    return quote(value) if isinstance(value, str) else f"a value of type {type(value).__name__}"


def _unknown_name(number: int, index: int, name: str) -> Diagnostic:
    cleaned = _clean(name)
    notes, meant = [], _MEANT.get(cleaned)
    if cleaned == "encoder":
        notes = ["Megatron-LM knows the name, but supports no encoder in a layout"]
    elif cleaned in _NORMS:
        notes = ["the final norm is implied in the list form"]
    elif meant is None and len(cleaned) <= _MOST_SHOWN:
        from difflib import get_close_matches  # noqa: PLC0415 -- needed for faulty lists only

        meant = next(iter(get_close_matches(cleaned, _SYMBOLS, 1)), None)
    return LIST_FORM.report(
        f"entry {index:,} of stage {number:,}, {quote(name)}, is not a layer name",
        notes=notes,
        help=f"write `{meant}`" if meant else "the names are embedding, decoder, mtp and loss",
    )
