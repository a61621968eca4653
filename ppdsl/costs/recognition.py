"""Costs in whatever form a file has them, told by its content."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ppdsl.costs.lists import LIST_FIELD, find_first_line, is_csv, read_csv, read_json_list
from ppdsl.costs.logs import is_record_log, read_record_logs
from ppdsl.costs.numbers import show
from ppdsl.costs.reading import decode_json, read_costs
from ppdsl.costs.traces import is_trace, read_trace

if TYPE_CHECKING:
    from ppdsl.costs.shape import ModelShape
    from ppdsl.costs.values import Costs
    from ppdsl.planning.plan import Plan

_EMPTY = "it is empty"
_UNKNOWN = "it is neither a JSON object or list, nor a record log, nor CSV with semicolons, tabs or commas"


def recognize_costs(text: str, name: str, *, shape: ModelShape | None = None, plan: Plan | None = None, warmup_samples: int = 1) -> Costs:
    """Read a file that says what layers cost.

    Read are the costs file (JSON), a CSV file or JSON list of one cost a layer, InfiniTrain's record log, and a trace of a run.

    Args:
        text: What is in the file.
        name: Its name, for messages about lines of a record log.
        shape: The model's shape, where it is known.
        plan: The layout that a trace was made with; only a trace needs it.
        warmup_samples: How many samples of each layer in a record log are dropped.

    Raises:
        ValueError: It is damaged, or a trace without the layout that it belongs to. One line says what is wrong; of a record log it begins
            with the file's name.
    """
    if is_record_log(text):
        return read_record_logs({name: text}, warmup_samples, shape)
    if not text.lstrip().startswith(("{", "[")):
        number, line = find_first_line(text)
        if not text.strip():
            raise ValueError(_EMPTY)
        if number and not is_csv(text):
            raise ValueError(f"{_UNKNOWN}: line {number} is {show(line)}")
        return read_csv(text, shape)
    data = decode_json(text)
    if is_trace(data):
        if plan is None:
            raise ValueError(
                "a trace is divided over the stages of a layout, and there is none whose ranks are known: suggest takes it as --compare"
            )
        return read_trace(data, plan)
    if isinstance(data, list) or (isinstance(data, Mapping) and LIST_FIELD in data):
        return read_json_list(data, shape)
    return read_costs(data, shape)  # type: ignore[arg-type]  # anything but an object is refused there
