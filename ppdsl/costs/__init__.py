"""What layers cost: the costs file, costs from a model's shape, and what the stages of a plan cost by them."""

from __future__ import annotations

from ppdsl.costs.lists import list_costs, read_csv, read_json_list
from ppdsl.costs.logs import is_record_log, read_record_logs
from ppdsl.costs.reading import read_costs
from ppdsl.costs.recognition import recognize_costs
from ppdsl.costs.schema import SCHEMA
from ppdsl.costs.shape import ModelShape, costs_from_shape
from ppdsl.costs.stages import cost_stages, count_messages
from ppdsl.costs.traces import read_trace
from ppdsl.costs.values import FREE, KINDS, UNIT_COSTS, Costs, LayerCosts, Link

__all__ = [
    "FREE",
    "KINDS",
    "SCHEMA",
    "UNIT_COSTS",
    "Costs",
    "LayerCosts",
    "Link",
    "ModelShape",
    "cost_stages",
    "costs_from_shape",
    "count_messages",
    "is_record_log",
    "list_costs",
    "read_costs",
    "read_csv",
    "read_json_list",
    "read_record_logs",
    "read_trace",
    "recognize_costs",
]
