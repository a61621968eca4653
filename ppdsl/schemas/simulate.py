"""The schema of what ``ppdsl simulate --output-format json`` writes: a simulation's report, and what it is based on."""

from __future__ import annotations

from ppdsl.schemas.fields import DRAFT, Schema, choice, integer, number, or_null, record, string
from ppdsl.schemas.suggest import STALLS
from ppdsl.simulation.schema import FIELDS

_FIELDS: dict[str, Schema] = {
    **FIELDS,
    "ppdsl_version": string("the version of ppdsl that wrote this"),
    "pp": integer("number of pipeline ranks", 1),
    "vpp": integer("the largest number of chunks on a rank", 1),
    "placement": choice("which rank owns which stage", "loop", "v", "owners"),
    "costs_from": choice("a costs file; the model's shape; or nothing, then all layers cost the same", "file", "shape", "none"),
    "depth": integer("how many actions ahead of its use a receive is posted"),
    "stalls": STALLS,
    "memory_limit_bytes": or_null(number("memory of a rank by the costs file; null where it does not say")),
}
SCHEMA: Schema = {
    "$schema": DRAFT,
    "title": "ppdsl simulate",
    **record("what a schedule of a layout costs; times in ms, sizes in bytes", _FIELDS),
}
