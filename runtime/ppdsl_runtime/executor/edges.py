"""What crosses the cut between two stages, by the key of a microbatch: known after its first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ppdsl_runtime.transport.faults import MismatchError
from ppdsl_runtime.transport.messages import Metadata, backward_metadata, describe

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch

    from ppdsl_runtime.transport.interface import Transport

Forms = tuple[Metadata, Metadata]
"""What goes forward over an edge, and what comes back."""


class Edge:
    """One end of the cut behind a stage, where the two stages are on different ranks.

    Attributes:
        number: The stage before the cut.
        keys: The key of each microbatch of the step.
        forms: What crosses for each microbatch; None where it is not known yet.
    """

    __slots__ = ("_known", "_transport", "forms", "keys", "number")

    def __init__(self, number: int, transport: Transport) -> None:
        self.number = number
        self.keys: Sequence[str] = ()
        self.forms: list[Forms | None] = []
        self._known: dict[str, Forms] = {}
        self._transport = transport

    def begin(self, keys: Sequence[str]) -> None:
        """Begin a step."""
        if keys != self.keys or None in self.forms:
            self.keys = keys
            self.forms = [*map(self._known.get, keys)]

    def _learn(self, batch: int, metadata: Metadata) -> Forms:
        key = self.keys[batch]
        forms = self.forms[batch] = self._known.setdefault(key, (metadata, backward_metadata(metadata)))
        return forms

    def expect(self, batch: int, *, wait: bool) -> Forms | None:
        """Find what the receiver gets for a microbatch that it has not met before; None where it was not announced yet."""
        key = self.keys[batch]
        known = self._known.get(key)
        if known is not None:
            self.forms[batch] = known
            return known
        metadata = self._transport.look_up(key, self.number, wait=wait)
        return None if metadata is None else self._learn(batch, metadata)

    def check(self, batch: int, outputs: Sequence[torch.Tensor]) -> None:
        """Compare what the sender has with what the receiver expects, and announce it where the key is new.

        Raises:
            MismatchError: It is not what was announced for this key.
        """
        forms = self.forms[batch]
        if forms is None:
            key = self.keys[batch]
            known = self._known.get(key)
            if known is None:
                self._transport.announce(key, self.number, self._learn(batch, describe(outputs))[0])
                return
            forms = self.forms[batch] = known
        wanted = forms[0]
        if len(outputs) == len(wanted):
            for tensor, (shape, dtype, needs_grad) in zip(outputs, wanted):  # noqa: B905 -- they are as many, and this is the inner loop
                if tensor.shape != shape or tensor.dtype != dtype or tensor.requires_grad != needs_grad:
                    break
            else:
                return
        raise MismatchError(
            f"edge {self.number}, microbatch {batch}: stage {self.number} gives {_show(describe(outputs))}, "
            f"but {_show(wanted)} was announced for {self.keys[batch]!r}"
        )


def _show(metadata: Metadata) -> str:
    return ", ".join(f"{meta.dtype} {meta.shape}{' with a gradient' if meta.needs_grad else ''}" for meta in metadata) or "nothing"
