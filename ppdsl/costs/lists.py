"""Files that say no more than one cost for each layer: CSV, a JSON list, or ``{"layer_costs": […]}``.

The number is taken for the forward of one microbatch in ms, and the backward for twice as much, as in a costs file that says nothing of it.
Where the numbers are relative, times come out in that unit, and everything that is compared with them is right all the same.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from io import StringIO
from itertools import islice
from math import fsum
from typing import TYPE_CHECKING

from ppdsl.costs.numbers import refuse_unknown, show, take_number
from ppdsl.costs.reading import read_costs
from ppdsl.costs.values import KINDS
from ppdsl.validation.subject import plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ppdsl.costs.shape import ModelShape
    from ppdsl.costs.values import Costs

LIST_FIELD = "layer_costs"
SPECIAL_KINDS = tuple(kind for kind in KINDS if kind != "t")
"""The kinds that may stand beside the list of decoder layers."""

_CELL = re.compile(r"(?:[EmNL]:)?\s*(\S+)")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?|[+-]?(?:inf|infinity|nan)", re.IGNORECASE)
_DECIMAL_COMMA = re.compile(r"[+-]?[0-9]+,[0-9]+(?:[eE][+-]?[0-9]{1,4})?")
_LAYER = re.compile(r"[0-9]{1,12}")
_COLUMNS = 2
_SEPARATORS = (";", "\t", ",")
"""What may stand between cells; of those in the first line that counts, the foremost here does."""


def list_costs(forwards: Sequence[float], special: Mapping[str, float] | None = None, shape: ModelShape | None = None) -> Costs:
    """Make costs of one number for each layer.

    Args:
        forwards: Forward time of each decoder layer in ms, at least one.
        special: The same of other layers, by kind. An MTP layer that is left out costs what the last decoder layer does, after which
            Megatron-LM models it; another kind costs nothing.
        shape: The model's shape, where it is known: it says how a backward falls into halves.

    Raises:
        ValueError: A number is not one that a costs file may have.
    """
    kinds = {"t": fsum(forwards) / len(forwards), "m": forwards[-1], **(special or {})}
    if min(forwards) == max(forwards):
        kinds["t"] = forwards[0]
    own = {str(layer): {"forward": time} for layer, time in enumerate(forwards) if time != kinds["t"]}
    costs = read_costs({"kinds": {kind: {"forward": time} for kind, time in kinds.items()}, "layers": own}, shape)
    return replace(costs, num_layers=len(forwards))


def read_json_list(data: object, shape: ModelShape | None = None) -> Costs:
    """Read ``[1, 1.5, …]``, or an object with that list as its ``layer_costs`` and, by kind, the costs of other layers.

    Raises:
        ValueError: It is something else, or a cost of a decoder layer is not above 0.
    """
    fields = data if isinstance(data, Mapping) else {LIST_FIELD: data}
    refuse_unknown(fields, "", "field", (LIST_FIELD, *SPECIAL_KINDS))
    listed = fields.get(LIST_FIELD)
    if not isinstance(listed, list) or not listed:
        raise ValueError(f"{LIST_FIELD} is {'an empty list' if listed == [] else show(listed)}, not a list of numbers")
    forwards = [_take_cost(value, f"{LIST_FIELD}[{index}]") for index, value in enumerate(listed)]
    return list_costs(forwards, {kind: take_number(fields[kind], kind) for kind in SPECIAL_KINDS if kind in fields}, shape)


def is_csv(text: str) -> bool:
    """Tell whether a text is a CSV file of numbers, with a heading or without.

    Raises:
        ValueError: A quoted cell is damaged; the text names the line.
    """
    return any(_is_number(cell) for _, cells in islice(_read_rows(text), 2) for cell in cells)


def find_first_line(text: str) -> tuple[int, str]:
    """Give the first line of a CSV file that counts, with its number, from 1; 0 and nothing where there is none."""
    lines = enumerate(StringIO(text, newline=None), 1)
    return next(((number, line.strip()) for number, line in lines if line.strip() and not line.startswith("#")), (0, ""))


def read_csv(text: str, shape: ModelShape | None = None) -> Costs:
    """Read a CSV file: a cost a line, or layer and cost, or all costs on one line.

    A layer is the number of a decoder layer, from 0, or E, m, N or L; the order does not matter. Between cells stand semicolons, tabs or
    commas, as the first line has them; a cell may stand in double quotes. The first line may be a heading. Lines without a filled cell and
    those that begin with ``#`` count for nothing. Of one line, two numbers are a layer and its cost; more are a list of costs, in which
    those of other layers begin with a letter and a colon, as in ``--layer-costs``.

    Raises:
        ValueError: A line is something else, a layer is missing or there twice, or a cost of a decoder layer is not above 0.
    """
    rows = [*_read_rows(text)]
    heading = [] if not rows or any(map(_is_number, rows[0][1])) else rows.pop(0)[1]
    if not rows:
        raise ValueError("there is no line with a cost")
    if len(rows) == 1 and (len(rows[0][1]) > _COLUMNS or any(":" in cell for cell in rows[0][1])):
        number, cells = rows[0]
        rows = [(number, [part.strip() for part in cell.split(":")]) for cell in cells]
        heading = []
    forwards: dict[int, float] = {}
    special: dict[str, float] = {}
    for number, cells in rows:
        _take_row(cells, f"line {number}", forwards, special)
        if heading and len(cells) != len(heading):
            raise ValueError(f"line {number} has {plural(len(cells), 'column')}, the heading has {len(heading)}")
    missing = next((layer for layer in range(max(len(forwards), 1)) if layer not in forwards), None)
    if missing is not None:
        raise ValueError(f"layer {missing} is missing")
    return list_costs([forwards[layer] for layer in range(len(forwards))], special, shape)


def _is_number(cell: str) -> bool:
    """Tell whether a cell is meant as a number, be it of another country's spelling."""
    found = _CELL.fullmatch(cell)
    return found is not None and (_NUMBER.fullmatch(found[1]) or _DECIMAL_COMMA.fullmatch(found[1])) is not None


def _read_rows(text: str) -> Iterator[tuple[int, list[str]]]:
    """Give the number and the cells of each line that counts."""
    from csv import Error, reader  # noqa: PLC0415 -- most costs files are JSON

    first = find_first_line(text)[1]
    separator = next((each for each in _SEPARATORS if each in first), ",")
    lines = ("\n" if line.startswith("#") else line for line in StringIO(text, newline=None))
    rows = reader(lines, delimiter=separator, skipinitialspace=True, strict=True)
    while True:
        number = rows.line_num + 1
        try:
            row = next(rows, None)
        except Error as error:
            raise ValueError(f"line {number} is not CSV: {error}") from None
        if row is None:
            return
        cells = [cell.strip() for cell in row]
        if any(cells):
            yield number, cells


def _take_row(cells: list[str], where: str, forwards: dict[int, float], special: dict[str, float]) -> None:
    """Put the cost of one line with those of the others."""
    if len(cells) > _COLUMNS:
        raise ValueError(f"{where} has {len(cells)} columns, not layer,cost or a cost alone")
    name = cells[0] if len(cells) == _COLUMNS else str(len(forwards))
    if _DECIMAL_COMMA.fullmatch(cells[-1]):
        raise ValueError(f"{where}: {show(cells[-1])} has a decimal comma, not a point")
    if not _NUMBER.fullmatch(cells[-1]):
        raise ValueError(f"{where}: {show(cells[-1])} is not a number")
    if name not in SPECIAL_KINDS and not _LAYER.fullmatch(name):
        raise ValueError(f"{where}: {show(name)} is neither the number of a decoder layer nor E, m, N or L")
    if name in special or (name not in SPECIAL_KINDS and int(name) in forwards):
        raise ValueError(f"{where}: layer {name} stands twice")
    cost = float(cells[-1])
    if name in SPECIAL_KINDS:
        special[name] = take_number(cost, where)
    else:
        forwards[int(name)] = _take_cost(cost, where)


def _take_cost(value: object, path: str) -> float:
    """Give the cost of a decoder layer, which is above 0."""
    cost = take_number(value, path) if not isinstance(value, (int, float)) or value > 0 else 0
    if not cost:
        raise ValueError(f"{path} is {show(value)}, not a number above 0")
    return cost
