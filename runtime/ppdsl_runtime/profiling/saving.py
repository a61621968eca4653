"""How much memory a forward saves for its backward, and how much either takes while it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


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


class Workspace(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch does not type it
    """A context that follows how much the tensors made inside it hold, operation by operation; what an operation uses within is not seen.

    Attributes:
        most: The most that was held at once, in bytes.
    """

    def __init__(self, without: Iterable[Tensor]) -> None:
        """Begin to follow.

        Args:
            without: Tensors whose storages do not count: parameters, which are there anyway.
        """
        super().__init__()  # type: ignore[no-untyped-call]  # the same
        self.most = 0
        self._without = {tensor.untyped_storage().data_ptr() for tensor in without}
        self._there: dict[int, tuple[StorageWeakRef, int]] = {}

    @property
    def held(self) -> int:
        """What is still there, in bytes."""
        self._there = {key: entry for key, entry in self._there.items() if not entry[0].expired()}  # type: ignore[no-untyped-call]  # the same
        return sum(size for _, size in self._there.values())

    def __torch_dispatch__(
        self, func: Callable[..., object], types: object, args: tuple[object, ...] = (), kwargs: dict[str, object] | None = None
    ) -> object:
        """Run an operation, and count what it made."""
        result = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(result):
            storage = leaf.untyped_storage() if isinstance(leaf, Tensor) else None
            if storage is not None and storage.data_ptr() not in self._without:
                self._there[storage.data_ptr()] = (StorageWeakRef(storage), storage.nbytes())  # type: ignore[no-untyped-call]  # the same
        self.most = max(self.most, self.held)
        return result


def bytes_of(tensors: Iterable[Tensor]) -> int:
    """Sum the sizes of tensors' storages, each once, in bytes."""
    return sum({tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes() for tensor in tensors}.values())
