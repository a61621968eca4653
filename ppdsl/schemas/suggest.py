"""The schema of what ``ppdsl suggest --output-format json`` writes."""

from __future__ import annotations

from ppdsl.schemas.fields import DRAFT, VERSION, Schema, array, boolean, choice, integer, number, or_null, record, string
from ppdsl.simulation.schema import FIELDS as SIMULATED

_LAYOUT = string("the canonical layout")
_MEMORY = integer("the most bytes that a rank holds at once")
_RIVAL = {
    "layout": _LAYOUT,
    "step_ms": or_null(number("its simulated time; null where no schedule fits")),
    "schedule": or_null(string("the schedule that it was simulated with: that of the answer where it is legal")),
    "peak_memory_bytes": _MEMORY,
}
_STALL = {
    "stage": integer("the stage that has to wait"),
    "rank": integer("its rank"),
    "source_stage": integer("the stage whose output it waits for"),
    "source_rank": integer("the rank of that"),
    "time_ms": number("how long, all in all"),
    "waits": integer("how often", 1),
}
STALLS = array("which chunk keeps which waiting between fill and drain, the longest first", record("a pair", _STALL))
"""The waits of a simulation, by who waits for whom."""
_PLACEMENT = choice("which rank owns which stage", "loop", "v", "owners")
_GROUP = or_null(integer("the microbatch group of interleaved_1f1b; null for the usual one", 1))
_POINT = {
    "layout": _LAYOUT,
    "placement": _PLACEMENT,
    "schedule": string("the schedule that its time is for; auto is made with this peak memory as the limit"),
    "microbatch_group_size": _GROUP,
    "step_ms": number("its simulated time"),
    "lower_bound_ms": number("no layout within its memory is faster"),
    "peak_memory_bytes": _MEMORY,
}
_FIELDS: dict[str, Schema] = {
    "schema_version": VERSION,
    "ppdsl_version": string("the version of ppdsl that wrote this"),
    "layout": _LAYOUT,
    "per_stage": array("decoder layers of each stage", integer("decoder layers"), least=1),
    "step_ms": number("simulated step time: the makespan, or what --objective says"),
    "lower_bound_ms": number("no layout that was allowed is faster; the step time where the layout is optimal"),
    "gap": number("the part of the step time that another layout could save at most"),
    "optimal": boolean("whether it is proved that no layout that was allowed is faster"),
    "uniform": record("the even split over the same stages", _RIVAL),
    "compared": or_null(record("the layout that --compare gave", _RIVAL)),
    "megatron_layout": or_null(string("the string that Megatron-LM accepts; null where it has no words for the layout")),
    "partition": or_null(string("what --partition takes; null where that cannot say the layout")),
    "chunks": or_null(string("what --chunks takes; null where that cannot say the layout")),
    "objective": choice("what is to be small", "makespan", "span"),
    "pp": integer("number of pipeline ranks", 1),
    "vpp": integer("the largest number of chunks on a rank", 1),
    "placement": _PLACEMENT,
    "schedule": string("the name of the schedule"),
    "microbatches": integer("microbatches in a step", 1),
    "microbatch_group_size": _GROUP,
    "costs_from": choice("a costs file; the model's shape; or nothing, then all layers cost the same", "file", "shape", "none"),
    "memory_limit_bytes": or_null(number("memory of a rank; null where nothing is said of it")),
    "peak_memory_bytes": _MEMORY,
    "layouts_timed": integer("how many layouts were simulated on the way"),
    "interrupted": boolean("whether the search was stopped by an interrupt"),
    "ranks": SIMULATED["ranks"],
    "stalls": STALLS,
    "pareto": or_null(array("step time against peak memory, the fastest first", record("a layout", _POINT), least=1)),
}
SCHEMA: Schema = {
    "$schema": DRAFT,
    "title": "ppdsl suggest",
    **record("the best layout that was found; times in ms, sizes in bytes", _FIELDS),
}
