"""The JSON Schemas of what ppdsl writes, by the name of the output."""

from __future__ import annotations

from copy import deepcopy

from ppdsl.schemas import check, plan

__all__ = ["NAMES", "schema_for"]

_SCHEMAS = {"check": check.SCHEMA, "plan": plan.SCHEMA}
NAMES = tuple(_SCHEMAS)
"""The outputs that have a schema."""


def schema_for(name: str) -> dict[str, object]:
    """Give the JSON Schema (draft 2020-12) of an output; it is the caller's own copy.

    Fields that a schema does not name are allowed, since a minor step of ``schema_version`` may add some.

    Args:
        name: One of ``NAMES``.

    Raises:
        ValueError: There is no such output.
    """
    if name not in _SCHEMAS:
        raise ValueError(f"no schema for {name!r}; there are {', '.join(NAMES)}")
    return deepcopy(_SCHEMAS[name])
