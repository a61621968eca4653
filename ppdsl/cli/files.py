"""Writing files: each whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path


def write_file(path: str, text: str) -> str | None:
    """Write a file whole or not at all, and follow a symbolic link; what is no regular file (``/dev/stdout``) is written through.

    Returns:
        The reason why it could not be written; None where it was.
    """
    try:
        target = Path(path)
        if target.exists() and not target.is_file():
            target.write_text(text, encoding="utf-8")
            return None
        target = target.resolve()
        draft = target.with_name(f"{target.name}.{os.getpid()}.tmp")
        try:
            with draft.open("x", encoding="utf-8") as stream:
                stream.write(text)
            draft.replace(target)
        except OSError:
            draft.unlink(missing_ok=True)
            raise
    except (OSError, ValueError, RuntimeError) as error:
        return (getattr(error, "strerror", None) or str(error)).lower()
    return None
