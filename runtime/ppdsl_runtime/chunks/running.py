"""Running one chunk: under autocast, checkpointed, with seeded dropout, its weight gradients put off, as asked for."""

from __future__ import annotations

import inspect
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch.utils.checkpoint import checkpoint

from ppdsl_runtime.chunks.accumulating import main_grad_of
from ppdsl_runtime.chunks.deferring import Deferral, Store, start_of
from ppdsl_runtime.chunks.seeding import Dropout, find_dropout

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from torch import nn

    from ppdsl_runtime.executor.buffers import Slot


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
        parameters: Its parameters.
        deferral: Puts off weight gradients; None where no program asks for it.
        names: The keyword inputs that it takes, each with whether it must be given.
    """

    def __init__(self, module: nn.Module | None, options: RunOptions) -> None:
        self.module = module
        self.options = options
        self.parameters = [] if module is None else [*module.parameters()]
        self.deferral: Deferral | None = None
        self.names = find_names(module)
        self.run = self._make_run()
        self._unchecked: list[nn.Parameter] = []
        self._unstored: list[nn.Parameter] = []
        self._trained: list[nn.Module] = []
        self._silenced = [] if module is None or options.dropout is not None else find_dropout(module)

    def _make_run(self) -> Any:  # noqa: ANN401 -- what ``run`` is
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

    def begin(self, *, train: bool, splits: bool = False) -> None:
        """Begin a step.

        Args:
            train: Whether it trains; dropout is turned off, unless it is asked for, and all of training mode where nothing is trained.
            splits: Whether backwards are split in two.
        """
        self._unchecked = [weight for weight in self.parameters if weight.grad is None and _may_share(weight)] if train else []
        self._unstored = self._unchecked if splits else []
        if self.deferral is not None:
            self.deferral.active = splits
        parts = self._silenced if train or self.module is None else self.module.modules()
        self._trained = [part for part in parts if part.training]
        for part in self._trained:
            part.training = False

    def finish(self) -> None:
        """End a step: give the modules their training mode back, and have their weight gradients put off no more."""
        if self.deferral is not None:
            self.deferral.active = False
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
            if any(weight.grad is not None for weight in self._unstored):
                starts = store.starts()
                self._unstored = _separate(self._unstored, lambda gradient: start_of(gradient) in starts)

    def separate_grads(self, slot: Slot | None, payload: Sequence[torch.Tensor] | None) -> None:
        """Copy the gradients that lie in a receive buffer, or in a gradient that is handed back: a backward may make them a part of either.

        Only a parameter's first gradient can; later ones are added to it.

        Args:
            slot: The receive buffer of what the backward was given, if there is one.
            payload: What the chunk was called with, behind its backward.
        """
        if any(weight.grad is not None for weight in self._unchecked):
            starts = {start_of(tensor.grad) for tensor in payload or () if tensor.grad is not None}
            holds = (lambda _: False) if slot is None else slot.holds
            self._unchecked = _separate(self._unchecked, lambda gradient: start_of(gradient) in starts or holds(gradient))


def _may_share(weight: nn.Parameter) -> bool:
    """Whether a backward may make a part of something else a parameter's gradient: not if it is sharded, or accumulated in fp32."""
    return weight.requires_grad and type(weight) is torch.nn.Parameter and main_grad_of(weight) is None


def _separate(weights: Sequence[nn.Parameter], holds: Callable[[torch.Tensor], bool]) -> list[nn.Parameter]:
    """Copy those of some parameters' gradients that lie in memory of something else; give the parameters that have none yet."""
    left = []
    for weight in weights:
        gradient = weight.grad
        if gradient is None:
            left.append(weight)
        elif holds(gradient):
            weight.grad = gradient.clone()
    return left


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


def find_names(module: nn.Module | None) -> dict[str, bool]:
    """Find the keyword-only inputs of a chunk's forward, each with whether it must be given; an empty chunk has none.

    Where any keyword is taken, as by what wraps a module (``torch.compile``, DDP), those of the only module inside are among them.
    """
    if module is None:
        return {}
    parameters = inspect.signature(module.forward).parameters.values()
    inner = [*module.children()]
    wraps = len(inner) == 1 and any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters)
    names = find_names(inner[0]) if wraps else {}
    own = [parameter for parameter in parameters if parameter.kind is inspect.Parameter.KEYWORD_ONLY]
    return names | {parameter.name: parameter.default is inspect.Parameter.empty for parameter in own}
