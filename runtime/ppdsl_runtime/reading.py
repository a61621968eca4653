"""Reading what may be damaged: JSON, and what is said of a file that cannot be read."""

from __future__ import annotations

import json
from typing import Any


def load_json(text: str) -> Any:  # noqa: ANN401 -- JSON is anything
    """Read JSON.

    Raises:
        ValueError: It is none, or is nested too deep.
    """
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested too deep") from None


def reason_of(error: Exception) -> str:
    """Say in words what is wrong, an error of the system without its number and without the file that it names."""
    return error.strerror.lower() if isinstance(error, OSError) and error.strerror else str(error)
