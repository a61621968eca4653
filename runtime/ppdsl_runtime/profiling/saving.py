"""How much memory a forward saves for its backward."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch.autograd.graph import saved_tensors_hooks

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torch import Tensor


class Saved(saved_tensors_hooks):
    """A context that counts what is saved inside it.

    Attributes:
        bytes: What was saved, each storage once, parameters left out.
    """

    def __init__(self, without: Iterable[Tensor]) -> None:
        """Begin to count.

        Args:
            without: Tensors whose storages do not count: parameters, which are there anyway.
        """
        self.bytes = 0
        self._seen = {tensor.untyped_storage().data_ptr() for tensor in without}
        super().__init__(self._pack, self._unpack)

    def _pack(self, tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in self._seen:
            self._seen.add(storage.data_ptr())
            self.bytes += storage.nbytes()
        return tensor

    @staticmethod
    def _unpack(tensor: Any) -> Any:  # noqa: ANN401 -- autograd's signature
        return tensor


def bytes_of(tensors: Iterable[Tensor]) -> int:
    """Sum the sizes of tensors' storages, each once, in bytes."""
    return sum({tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes() for tensor in tensors}.values())
