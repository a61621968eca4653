"""Running one chunk: under autocast, checkpointed, with seeded dropout, its weight gradients put off, as asked for."""

from __future__ import annotations

import inspect
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch.utils.checkpoint import checkpoint

from ppdsl_runtime.chunks.deferring import Deferral, Store
from ppdsl_runtime.chunks.seeding import Dropout, find_dropout

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import nn

    from ppdsl_runtime.executor.buffers import Slot

Run = "Callable[[tuple[torch.Tensor, ...] | None, Mapping[str, Any], int], Any]"
"""Takes the payload, the side inputs and the number of the microbatch."""


class RunOptions(NamedTuple):
    """How a chunk is run.

    Attributes:
        device: Where its tensors are.
        autocast: The element type to cast to; None for no autocast.
        checkpoint: Whether its activations are recomputed in the backward instead of kept.
        dropout: Seeds its dropout; None where dropout is off.
        stage: The chunk's stage.
    """

    device: torch.device
    autocast: torch.dtype | None = None
    checkpoint: bool = False
    dropout: Dropout | None = None
    stage: int = 0


class Runner:
    """Runs one chunk.

    Attributes:
        module: The chunk; None for an empty one.
        run: Calls it with a payload, side inputs and the number of the microbatch.
        parameters: Its parameters that need a gradient.
        deferral: Puts off weight gradients; None where no program asks for it.
        names: The keyword inputs that it takes, each with whether it must be given.
    """

    def __init__(self, module: nn.Module | None, options: RunOptions) -> None:
        self.module = module
        self.options = options
        self.parameters = [] if module is None else [weight for weight in module.parameters() if weight.requires_grad]
        self.deferral: Deferral | None = None
        self.names = {} if module is None else _find_names(module)
        self.run = self._make_run()
        self._unchecked: list[nn.Parameter] = []
        self._trained: list[nn.Module] = []
        self._silenced = [] if module is None or options.dropout is not None else find_dropout(module)

    def _make_run(self) -> Any:  # noqa: ANN401 -- see Run
        module, options = self.module, self.options
        if module is None:
            return lambda payload, side, batch: payload[0] if len(payload) == 1 else payload  # noqa: ARG005 -- the form of all runs
        call: Any = module
        if options.dropout is not None:
            call = partial(_run_seeded, module, options.dropout, options.stage)
        if options.checkpoint:
            call = partial(_run_checkpointed, call, options.dropout)
        if options.autocast is not None:
            call = partial(_run_cast, call, options.device.type, options.autocast)
        if options.dropout is not None:
            return partial(_run_numbered, call, options.dropout)
        return lambda payload, side, batch: call(*payload, **side)  # noqa: ARG005 -- the form of all runs

    def begin(self, *, train: bool) -> None:
        """Begin a step: turn dropout off, unless it is asked for; all of training mode where nothing is trained."""
        self._unchecked = [weight for weight in self.parameters if type(weight) is torch.nn.Parameter]
        parts = self._silenced if train or self.module is None else self.module.modules()
        self._trained = [part for part in parts if part.training]
        for part in self._trained:
            part.training = False

    def finish(self) -> None:
        """End a step: give the modules their training mode back."""
        for part in self._trained:
            part.training = True
        self._trained = []

    @contextmanager
    def putting_off(self) -> Iterator[Store]:
        """Gather the weight gradients of the backward inside."""
        if self.deferral is None:
            yield Store()
        else:
            with self.deferral.putting_off() as store:
                yield store

    def separate_grads(self, slot: Slot) -> None:
        """Copy the gradients that lie in a receive buffer: a backward may make a part of what it is given the gradient of a parameter.

        Only a parameter's first gradient can; later ones are added to it.
        """
        if self._unchecked:
            left = []
            for weight in self._unchecked:
                gradient = weight.grad
                if gradient is None:
                    left.append(weight)
                elif slot.holds(gradient):
                    weight.grad = gradient.clone()
            self._unchecked = left


def _run_checkpointed(call: Any, dropout: Dropout | None, *payload: Any, **side: Any) -> Any:  # noqa: ANN401 -- whatever the chunk takes
    if not torch.is_grad_enabled():
        return call(*payload, **side)
    return checkpoint(call, *payload, use_reentrant=False, preserve_rng_state=dropout is None, **side)


def _run_cast(call: Any, kind: str, dtype: torch.dtype, *payload: Any, **side: Any) -> Any:  # noqa: ANN401 -- the same
    with torch.autocast(kind, dtype):
        return call(*payload, **side)


def _run_numbered(call: Any, dropout: Dropout, payload: Any, side: Any, batch: int) -> Any:  # noqa: ANN401 -- the same
    """Tell the chunk which microbatch it runs, also when it is run again in the backward."""
    return call(dropout.step, batch, *payload, **side)


def _run_seeded(call: Any, dropout: Dropout, stage: int, step: int, batch: int, *payload: Any, **side: Any) -> Any:  # noqa: ANN401 -- the same
    with dropout.microbatch(step, batch, stage):
        return call(*payload, **side)


def _find_names(module: nn.Module) -> dict[str, bool]:
    """Find the keyword-only inputs of a chunk's forward; a wrapper's are those of the module inside it."""
    signature = inspect.signature(module.forward)
    kinds = [parameter.kind for parameter in signature.parameters.values()]
    inner = getattr(module, "module", None)
    if isinstance(inner, torch.nn.Module) and inspect.Parameter.VAR_KEYWORD in kinds:
        return _find_names(inner)
    return {
        name: parameter.default is inspect.Parameter.empty
        for name, parameter in signature.parameters.items()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY
    }
