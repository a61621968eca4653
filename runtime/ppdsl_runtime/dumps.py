"""Parameters and gradients in a folder: one ``.npy`` each, by the name that it has in the whole model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import numpy as np
import torch

from ppdsl_runtime.reading import naming, reason_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from numpy.typing import NDArray
    from torch import Tensor, nn

_SUFFIX = ".npy"
_KINDS = (".weight", ".bias")
"""How the names of parameters end."""
_REAL = "biuf"
"""numpy's kinds of elements that are real numbers."""


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
        OSError: A file cannot be written.
    """
    for name in tensors:
        if not name or Path(name).name != name or name.startswith("."):
            raise ValueError(f"{name!a} cannot be the name of a file")
    where = Path(folder)
    where.mkdir(parents=True, exist_ok=True)
    for name, tensor in tensors.items():
        value = tensor.detach()
        full = value.float() if value.dtype in {torch.bfloat16, torch.float16} else value
        draft, target = where / f".{uuid4().hex}", where / (name + _SUFFIX)
        with naming(target):
            try:
                with draft.open("wb") as file:
                    np.save(file, full.cpu().numpy())
                draft.replace(target)
            finally:
                draft.unlink(missing_ok=True)
    return [*tensors]


def clear_dump(folder: str | Path) -> None:
    """Remove the parameters and gradients that an earlier run has left in a folder, so that they are not taken for those of the next.

    Only files whose names end as those of parameters do are removed: ``*.weight.npy`` and ``*.bias.npy``.

    Args:
        folder: Where they are; it need not be there.

    Raises:
        OSError: One cannot be removed.
    """
    if Path(folder).is_dir():
        for name, file in list_dump(folder).items():
            if name.endswith(_KINDS):
                file.unlink(missing_ok=True)


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
        ValueError: The file is damaged, or cannot be read, or its elements are no real numbers.
    """
    try:
        value: NDArray[Any] = np.load(file, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise ValueError(f"{file} cannot be read: {reason_of(error)}") from error
    if value.dtype.kind not in _REAL:
        raise ValueError(f"{file} has elements of the type {value.dtype}, not real numbers")
    return value


def read_dump(folder: str | Path) -> dict[str, NDArray[Any]]:
    """Read all tensors of a folder, by name, sorted.

    Raises:
        ValueError: There is no such folder, or a file in it is damaged.
    """
    return {name: read_tensor(file) for name, file in list_dump(folder).items()}
