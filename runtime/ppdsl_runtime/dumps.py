"""Parameters and gradients in a folder: one ``.npy`` each, by the name that it has in the whole model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import numpy as np
import torch

from ppdsl_runtime.reading import reason_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from numpy.typing import NDArray
    from torch import Tensor, nn

_SUFFIX = ".npy"


def dump_gradients(folder: str | Path, parameters: Mapping[str, nn.Parameter]) -> list[str]:
    """Write the gradients of parameters.

    Args:
        folder: Where to; made if it is not there. All ranks may write to one.
        parameters: By global name, as ``named_global_parameters(chunks, primary_only=True)`` gives them.

    Returns:
        The names written; those without a gradient are left out.
    """
    return dump_tensors(folder, {name: parameter.grad for name, parameter in parameters.items() if parameter.grad is not None})


def dump_tensors(folder: str | Path, tensors: Mapping[str, Tensor]) -> list[str]:
    """Write tensors, each whole or not at all; bf16 and fp16 are written as fp32, which loses nothing.

    Args:
        folder: Where to; made if it is not there.
        tensors: By name.

    Returns:
        The names written.

    Raises:
        ValueError: A name cannot be one of a file.
    """
    for name in tensors:
        if not name or Path(name).name != name or name.startswith("."):
            raise ValueError(f"{name!a} cannot be the name of a file")
    where = Path(folder)
    where.mkdir(parents=True, exist_ok=True)
    for name, tensor in tensors.items():
        value = tensor.detach()
        full = value.float() if value.dtype in {torch.bfloat16, torch.float16} else value
        draft = where / f".{uuid4().hex}"
        try:
            with draft.open("wb") as file:
                np.save(file, full.cpu().numpy())
            draft.replace(where / (name + _SUFFIX))
        finally:
            draft.unlink(missing_ok=True)
    return [*tensors]


def list_dump(folder: str | Path) -> dict[str, Path]:
    """Give the file of each tensor in a folder, by name, sorted.

    Raises:
        ValueError: There is no such folder.
    """
    where = Path(folder)
    if not where.is_dir():
        raise ValueError(f"{where} is no folder")
    return {file.name.removesuffix(_SUFFIX): file for file in sorted(where.glob(f"[!.]*{_SUFFIX}"))}


def read_tensor(file: Path) -> NDArray[Any]:
    """Read one tensor back.

    Raises:
        ValueError: The file is damaged, or cannot be read.
    """
    try:
        value: NDArray[Any] = np.load(file, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise ValueError(f"{file} cannot be read: {reason_of(error)}") from error
    return value


def read_dump(folder: str | Path) -> dict[str, NDArray[Any]]:
    """Read all tensors of a folder, by name, sorted.

    Raises:
        ValueError: There is no such folder, or a file in it is damaged.
    """
    return {name: read_tensor(file) for name, file in list_dump(folder).items()}
