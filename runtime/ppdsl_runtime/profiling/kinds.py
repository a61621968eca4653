"""The times and the memory of one layer of each kind, on this rank's device."""

from __future__ import annotations

from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple

import torch

from ppdsl import Chunk
from ppdsl_runtime.chunks.deferring import Deferral
from ppdsl_runtime.models import LanguageModelLoss
from ppdsl_runtime.profiling.saving import Saved, Workspace, bytes_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor

    from ppdsl_runtime.models import ChunkBuilder, ModelChunk

_NONE = (0, 0)
_CHUNKS = {
    "E": Chunk(0, 0, 0, _NONE, _NONE, embedding=True, final_norm=False, loss=False),
    "t": Chunk(0, 0, 0, (0, 1), _NONE, embedding=False, final_norm=False, loss=False),
    "m": Chunk(0, 0, 0, _NONE, (0, 1), embedding=False, final_norm=False, loss=False),
    "N": Chunk(0, 0, 0, _NONE, _NONE, embedding=False, final_norm=True, loss=False),
    "L": Chunk(0, 0, 0, _NONE, _NONE, embedding=False, final_norm=False, loss=True),
}


class Workload(NamedTuple):
    """What each sample works on.

    Attributes:
        batch: Sequences of a microbatch.
        seq: Tokens of a sequence.
        samples: How often each layer is run.
        warmup: How many of the first samples are dropped.
    """

    batch: int
    seq: int
    samples: int = 20
    warmup: int = 1

    def check(self) -> None:
        """Check that there are samples left once the first are dropped.

        Raises:
            ValueError: There are none.
        """
        if self.warmup < 0 or self.samples <= self.warmup:
            raise ValueError(f"{self.samples} samples are too few to drop the first {self.warmup}")


class KindCosts(NamedTuple):
    """What one layer costs; times in ms, medians over the samples.

    Attributes:
        forward: Its forward, of L with the loss.
        backward: Its whole backward.
        input_grad: The first half of a split one.
        weight_grad: The second half.
        params: Number of parameters.
        activation_bytes: What its forward saves for its backward.
        activation_bytes_after_input_grad: What the first half of a split backward leaves for the second.
        workspace_bytes: The most that its forward or its backward takes beside what is saved, while it runs.
    """

    forward: float
    backward: float
    input_grad: float
    weight_grad: float
    params: int
    activation_bytes: int
    activation_bytes_after_input_grad: int
    workspace_bytes: int


def profile_kinds(builder: ChunkBuilder, work: Workload) -> dict[str, KindCosts]:
    """Measure a layer of each kind that a model has.

    Args:
        builder: Builds the layers, one at a time, on the device that is measured.
        work: What they are run on.

    Returns:
        The costs by kind, as a layout writes it: E, t, m, N, L.

    Raises:
        ValueError: There are no samples left once the first are dropped.
    """
    work.check()
    shape = builder.shape
    kinds = [kind for kind in _CHUNKS if (kind != "t" or shape.layers) and (kind != "m" or shape.mtp_layers)]
    return {kind: _profile(kind, builder, work) for kind in kinds}


def _profile(kind: str, builder: ChunkBuilder, work: Workload) -> KindCosts:
    module = builder(_CHUNKS[kind])
    if module is None:
        raise ValueError(f"a chunk of {kind} alone is empty")
    run = _make_run(kind, module, builder, work)
    saved = Saved(module.parameters())
    with saved:
        run()
    forward, backward = _time_whole(run, work, builder.device)
    first, second, left = _time_halves(run, module, work, builder.device)
    workspace = _measure_workspace(run, [*module.parameters()], saved.bytes)
    share = first / (first + second) if first + second else 0.5
    return KindCosts(
        forward,
        backward,
        backward * share,  # the halves of a split backward take a little longer than the whole
        backward * (1 - share),
        sum(weight.numel() for weight in module.parameters()),
        saved.bytes,
        left,
        workspace,
    )


def _make_run(kind: str, module: ModelChunk, builder: ChunkBuilder, work: Workload) -> Callable[[], Tensor]:
    """Give the layer's forward on new inputs, as a function."""
    generator = torch.Generator(builder.device).manual_seed(0)
    shape = (work.batch, work.seq)
    tokens = torch.randint(builder.shape.vocab, shape, generator=generator, device=builder.device)
    hidden = torch.randn((*shape, builder.shape.hidden), generator=generator, device=builder.device).to(builder.dtype)
    loss = LanguageModelLoss()

    def run() -> Tensor:
        if kind == "E":
            output = module(tokens)
        elif kind == "m":
            output = module(hidden.detach().requires_grad_(), tokens=tokens)[-1]
        else:
            output = module(hidden.detach().requires_grad_())
        if kind == "L":
            total, count = loss(output, tokens)
            output = total / count
        return output  # type: ignore[no-any-return]  # a module's call is not typed

    return run


def _time_whole(run: Callable[[], Tensor], work: Workload, device: torch.device) -> tuple[float, float]:
    forwards, backwards = [], []
    for _ in range(work.samples):
        begin = _now(device)
        output = run()
        middle = _now(device)
        torch.autograd.backward(output, torch.ones_like(output))
        forwards.append(middle - begin)
        backwards.append(_now(device) - middle)
    return _middle(forwards, work), _middle(backwards, work)


def _measure_workspace(run: Callable[[], Tensor], parameters: Sequence[Tensor], saved: int) -> int:
    """Follow a forward and a backward; gradients are there already, as they are from the second microbatch on."""
    there = [*parameters, *(weight.grad for weight in parameters if weight.grad is not None)]
    workspace = Workspace(there)
    with workspace:
        output = run()
        forward, held = workspace.most, workspace.held
        workspace.most = 0
        torch.autograd.backward(output, torch.ones_like(output))
    return max(forward - saved, workspace.most - held, 0)


def _time_halves(run: Callable[[], Tensor], module: ModelChunk, work: Workload, device: torch.device) -> tuple[float, float, int]:
    """Time a split backward, and measure what its first half leaves."""
    deferral = Deferral([module])
    firsts, seconds, left = [], [], 0
    try:
        deferral.active = True
        for _ in range(work.samples):
            output = run()
            gradient = torch.ones_like(output)
            begin = _now(device)
            with deferral.putting_off() as store:
                torch.autograd.backward(output, gradient)
            middle = _now(device)
            left = bytes_of([tensor for product in store.products for tensor in (product.inputs, product.gradient)])
            again = _now(device)
            store.run()
            firsts.append(middle - begin)
            seconds.append(_now(device) - again)
    finally:
        deferral.remove()
    return _middle(firsts, work), _middle(seconds, work), left


def _middle(samples: list[float], work: Workload) -> float:
    return median(samples[work.warmup :]) * 1e3


def _now(device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return perf_counter()
