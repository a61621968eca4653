"""Pieces that the schemas share."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Schema = dict[str, object]

DRAFT = "https://json-schema.org/draft/2020-12/schema"


def record(description: str, fields: Mapping[str, Schema], optional: Iterable[str] = ()) -> Schema:
    """Describe an object whose fields must all be there, but for the optional ones; more of them are allowed."""
    spared = {*optional}
    return {
        "description": description,
        "type": "object",
        "properties": {**fields},
        "required": [name for name in fields if name not in spared],
        "additionalProperties": True,
    }


def array(description: str, items: Schema, *, least: int = 0) -> Schema:
    """Describe a list of any length from ``least``."""
    return {"description": description, "type": "array", "items": items, **({"minItems": least} if least else {})}


def integer(description: str, least: int = 0) -> Schema:
    """Describe an integer from ``least``."""
    return {"description": description, "type": "integer", "minimum": least}


def number(description: str) -> Schema:
    """Describe a number from 0."""
    return {"description": description, "type": "number", "minimum": 0}


def boolean(description: str) -> Schema:
    """Describe true or false."""
    return {"description": description, "type": "boolean"}


def string(description: str, pattern: str | None = None) -> Schema:
    """Describe a string, and the pattern that it matches."""
    return {"description": description, "type": "string", **({"pattern": pattern} if pattern else {})}


def choice(description: str, *values: str) -> Schema:
    """Describe one of a few strings."""
    return {"description": description, "enum": [*values]}


def or_null(schema: Schema) -> Schema:
    """Describe the same, or null."""
    bare = {name: value for name, value in schema.items() if name != "description"}
    return {"description": schema["description"], "anyOf": [bare, {"type": "null"}]}


def half_open(description: str) -> Schema:
    """Describe a half-open range of layers."""
    return {**array(description, integer("first layer, then the one behind the last")), "minItems": 2, "maxItems": 2}


VERSION = string("major.minor: a minor step adds fields, a major one changes or drops some", r"^1\.[0-9]+$")
CHUNK_FIELDS: dict[str, Schema] = {
    "stage": integer("number of the stage, in forward order"),
    "pp_rank": integer("pipeline rank that owns it"),
    "vpp_rank": integer("its number among the chunks of that rank, in forward order"),
    "layers": half_open("half-open range of decoder layers, numbered over the whole model; empty for a stage with none"),
    "mtp_layers": half_open("the same for multi-token-prediction layers"),
    "embedding": boolean("whether it holds the embedding"),
    "final_norm": boolean("whether it holds the final norm, written or implied"),
    "loss": boolean("whether it holds the lm-head and the loss"),
}
