"""The JSON Schema of the costs file."""

from __future__ import annotations

from ppdsl.costs.numbers import MOST
from ppdsl.costs.reading import LAYER_FIELDS, LEAST_SPEED, LINK_FIELDS
from ppdsl.costs.values import BYTES_PER_PARAM, KINDS

_WHAT = {
    "forward": "forward time of one microbatch, in ms",
    "backward": "time of the whole backward, in ms; by default twice the forward, or input_grad + weight_grad",
    "input_grad": "time of the first half of the backward, in ms",
    "weight_grad": "time of the second half, in ms",
    "params": "number of parameters",
    "activation_bytes": "what a microbatch holds from its forward to its backward",
    "activation_bytes_after_input_grad": "what is left of that until the second half of the backward, where the two are apart",
    "workspace_bytes": "the most that its forward, its backward or a half of it takes beside what is held, while it runs",
    "latency_us": "time from the end of sending to arrival, in µs",
    "gigabytes_per_s": "how fast a message is sent, in 10^9 bytes a second; by default at once",
    "message_bytes": "size of what one microbatch sends from stage to stage",
    "E": "the embedding",
    "t": "a decoder layer",
    "m": "an MTP layer; by default as a decoder layer",
    "N": "the final norm",
    "L": "the lm-head and the loss",
}


def _number(description: str) -> dict[str, object]:
    return {"description": description, "type": "number", "minimum": 0, "maximum": MOST}


def _layer(description: str, *required: str) -> dict[str, object]:
    return {
        "description": description,
        "type": "object",
        "properties": {name: _number(_WHAT[name]) for name in LAYER_FIELDS},
        "required": [*required],
        "additionalProperties": False,
    }


_LINK: dict[str, object] = {
    "description": "the way from one rank to another: one message at a time in each direction",
    "type": "object",
    "properties": {name: _number(_WHAT[name]) for name in LINK_FIELDS},
    "additionalProperties": False,
}
_LINK_SPEED: dict[str, object] = {"properties": {"gigabytes_per_s": {"minimum": LEAST_SPEED}}}
SCHEMA: dict[str, object] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "costs file",
    "description": "what the layers of a model cost; times in ms, sizes in bytes",
    "type": "object",
    "properties": {
        "schema_version": {
            "description": "major.minor: a minor step adds fields, a major one changes or drops some",
            "type": "string",
            "pattern": r"^1\.[0-9]+$",
        },
        "kinds": {
            "description": "the costs of one layer, by kind",
            "type": "object",
            "properties": {kind: _layer(_WHAT[kind], *(["forward"] if kind == "t" else [])) for kind in KINDS},
            "required": ["t"],
            "additionalProperties": False,
        },
        "layers": {
            "description": "decoder layers that differ from the kind t, by number from 0; what is left out is as in the kind t",
            "type": "object",
            "patternProperties": {"^(0|[1-9][0-9]{0,11})$": _layer("one decoder layer")},
            "additionalProperties": False,
        },
        "p2p_ms": _number("time from the end of an action to the arrival of its output on another rank, in ms"),
        "link": {**_LINK, "allOf": [_LINK_SPEED]},
        "bytes_per_param": _number(f"what a parameter holds: weight, gradient, optimizer state; by default {BYTES_PER_PARAM}"),
        "memory_limit_bytes": _number("memory of a rank"),
    },
    "required": ["kinds"],
    "additionalProperties": False,
    "not": {"required": ["p2p_ms", "link"]},
}
