"""The JSON Schemas of what ppdsl writes, and of the costs file, which it reads."""

from __future__ import annotations

from copy import deepcopy

from ppdsl.costs.schema import SCHEMA as COSTS
from ppdsl.schemas import check, plan, simulate, suggest

__all__ = ["NAMES", "schema_for"]

_SCHEMAS = {"check": check.SCHEMA, "plan": plan.SCHEMA, "simulate": simulate.SCHEMA, "suggest": suggest.SCHEMA, "costs": COSTS}
NAMES = tuple(_SCHEMAS)
"""What has a schema."""


def schema_for(name: str) -> dict[str, object]:
    """Give a JSON Schema (draft 2020-12); it is the caller's own copy.

    Fields that the schema of an output does not name are allowed, since a minor step of ``schema_version`` may add some. The costs file's
    names all there are.

    Args:
        name: One of ``NAMES``.

    Raises:
        ValueError: There is no such schema.
    """
    if name not in _SCHEMAS:
        raise ValueError(f"no schema for {name!r}; there are {', '.join(NAMES)}")
    return deepcopy(_SCHEMAS[name])
