"""Opening weights of whichever kind lies at a path."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ppdsl_runtime.models.llmc_files import LlmcFile
    from ppdsl_runtime.models.safetensors_folders import SafetensorsFolder


def open_weights(path: str | Path) -> SafetensorsFolder | LlmcFile:
    """Open weights, and read the sizes of their model; ``.shape`` has them.

    Args:
        path: A folder with config.json and safetensors, or an llm.c ``.bin`` file.

    Raises:
        ValueError: There is nothing, or it is damaged or of another kind.
    """
    if Path(path).is_dir():
        from ppdsl_runtime.models.safetensors_folders import SafetensorsFolder  # noqa: PLC0415 -- only one kind is needed

        return SafetensorsFolder(path)
    from ppdsl_runtime.models.llmc_files import LlmcFile  # noqa: PLC0415 -- the same

    return LlmcFile(path)
