"""The JSON Schema of a simulation's report."""

from __future__ import annotations


def _number(description: str) -> dict[str, object]:
    return {"description": description, "type": "number", "minimum": 0}


def _integer(description: str, least: int = 0) -> dict[str, object]:
    return {"description": description, "type": "integer", "minimum": least}


def _record(description: str, fields: dict[str, dict[str, object]]) -> dict[str, object]:
    return {"description": description, "type": "object", "properties": fields, "required": [*fields], "additionalProperties": True}


def _text(description: str, pattern: str) -> dict[str, object]:
    return {"description": description, "type": "string", "pattern": pattern}


_ACTION = "^(0|[1-9][0-9]*)[FBIW](0|[1-9][0-9]*)$"
_RATIO = {"type": "number", "minimum": 0, "maximum": 1}
_TIMES = {"start_ms": _number("when it begins"), "end_ms": _number("when it is done")}
_IDLE = {
    "fill": _number("before its first B or I"),
    "drain": _number("after its last F"),
    "imbalance": _number("the rest of the waits between them"),
    "p2p": _number("of each wait between them, the part for which the message is on its way"),
}
_RANK = {
    "busy_ms": _number("time with work"),
    "idle_ms": _record("time without, from 0 to the makespan, by cause", _IDLE),
    "peak_in_flight": _integer("the most microbatches, over its chunks, whose F is done and whose B or I is not"),
    "peak_memory_bytes": _integer("the most that it holds at once"),
}
_RANK_OF_STEP = _integer("the rank that acts or sends")
_STEP = {
    "description": "an action, or a transfer of what an action made; it begins when the step before is done",
    "oneOf": [
        _record("an action", {"action": _text("stage, kind, microbatch", _ACTION), "rank": _RANK_OF_STEP, **_TIMES}),
        _record(
            "a transfer",
            {
                "transfer": _text("the action that made what is sent", _ACTION),
                "rank": _RANK_OF_STEP,
                "to_rank": _integer("the rank that receives"),
                **_TIMES,
            },
        ),
    ],
}
FIELDS: dict[str, dict[str, object]] = {
    "schema_version": _text("major.minor: a minor step adds fields, a major one changes or drops some", r"^1\.[0-9]+$"),
    "layout": {"description": "the canonical layout", "type": "string"},
    "schedule": {"description": "the name of the schedule", "type": "string"},
    "microbatches": _integer("microbatches in a step", 1),
    "makespan_ms": _number("end of the last action"),
    "span_ms": _number("the largest over ranks of last end minus own first start"),
    "bubble_ratio": {"description": "(span - mean busy time of the ranks) / span", **_RATIO},
    "bubble_ratio_makespan": {"description": "the same with the makespan", **_RATIO},
    "ranks": {"description": "one a rank, in order", "type": "array", "items": _record("a rank", _RANK), "minItems": 1},
    "critical_path": {"description": "from 0 to the makespan, without a gap", "type": "array", "items": _STEP},
}
"""The fields of a report, all of which are there."""
SCHEMA: dict[str, object] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "ppdsl simulate",
    **_record("what a schedule of a layout costs; times in ms, sizes in bytes", FIELDS),
}
