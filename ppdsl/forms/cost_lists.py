"""Reading the costs of layers as a user types them: ``1,1,1.5,1,L:4.5``."""

from __future__ import annotations

import re
from math import isfinite
from typing import TYPE_CHECKING

from ppdsl.forms.listing import quote
from ppdsl.forms.reading import BLANKS, bad_entry, split_entries
from ppdsl.forms.rules import ENTRIES
from ppdsl.forms.values import CostList

if TYPE_CHECKING:
    from ppdsl.diagnostics import Diagnostic

WHAT = "cost list"
MOST_COST = 1e18
"""The largest cost."""
FIELDS = {"E": "embedding", "m": "mtp", "N": "norm", "L": "loss"}
"""The letters of the special layers, and their fields in ``CostList``."""

_EXAMPLE = "write one cost for each decoder layer, with commas between, and E:, m:, N: or L: before another's: 1,1,1.5,1,L:4.5"
_LAYER_KIND = "a number above 0, up to 1e18"
_SPECIAL_KIND = "a number from 0 to 1e18"
_LETTERS = {letter.lower(): letter for letter in FIELDS}
_NUMBER = re.compile(r"\+?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


def read_cost_list(text: str) -> CostList | Diagnostic:
    """Read ``1,1,1.5,1,L:4.5``: the cost of each decoder layer in forward order, and by letter those of other layers, anywhere.

    The letters are ``E``, ``m``, ``N`` and ``L``; InfiniTrain takes them in either case, and so does this. Each stands once at most.

    Returns:
        The form, or a PP208 that quotes the first bad entry. Whether the costs fit the ranks is for ``lower`` to say.
    """
    entries = split_entries(WHAT, text, _EXAMPLE)
    if not isinstance(entries, list):
        return entries
    layers: list[float] = []
    special: dict[str, float] = {}
    for index, entry in enumerate(entries, 1):
        name, colon, number = entry.rpartition(":")
        if not colon:
            cost = read_number(entry)
            if cost is None or not is_cost(cost):
                return bad_entry(WHAT, index, entry, _LAYER_KIND, _EXAMPLE)
            layers.append(cost)
            continue
        fault = _take_special(index, entry, name.strip(BLANKS), number.strip(BLANKS), special)
        if fault is not None:
            return fault
    if not layers:
        return ENTRIES.report(f"the {WHAT} has no decoder layer", help=_EXAMPLE)
    return CostList(tuple(layers), **special)


def read_number(text: str) -> float | None:
    """Read a number in ASCII, with or without a point and an exponent; None where it is none, or as good as infinite."""
    number = float(text) if _NUMBER.fullmatch(text) else None
    return number if number is not None and isfinite(number) else None


def is_cost(value: object, *, least: float | None = None) -> bool:
    """Tell whether a value is a number that a layer may cost.

    Args:
        value: Any value.
        least: The smallest number allowed; None allows all above 0.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return (value > 0 if least is None else value >= least) and value <= MOST_COST


def _take_special(index: int, entry: str, name: str, number: str, special: dict[str, float]) -> Diagnostic | None:
    """Put the cost of a special layer with those of the others, or say what is wrong with it."""
    letter = _LETTERS.get(name.lower())
    if letter is None:
        known = "the letters are E, m, N and L; a decoder layer's cost stands alone"
        return ENTRIES.report(f"entry {index:,} of the {WHAT}, {quote(entry)}, names no layer: {quote(name)}", help=known)
    if FIELDS[letter] in special:
        return ENTRIES.report(f"entry {index:,} of the {WHAT}, {quote(entry)}, is the second for `{letter}`", help="keep one of them")
    cost = read_number(number)
    if cost is None or not is_cost(cost, least=0):
        return bad_entry(WHAT, index, entry, f"{letter}: and {_SPECIAL_KIND}", _EXAMPLE)
    special[FIELDS[letter]] = cost
    return None
