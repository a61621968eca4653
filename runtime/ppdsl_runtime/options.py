"""What a pipeline may be told besides its plan, chunks and loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypedDict

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    import torch
    from torch import nn
    from torch.distributed import ProcessGroup

    from ppdsl.lowering import Program
    from ppdsl.schedules import Schedule
    from ppdsl_runtime.executor import Recorder
    from ppdsl_runtime.executor.walking import Ranges
    from ppdsl_runtime.progress import Progress
    from ppdsl_runtime.transport.interface import Transport

RUN_AHEAD = 32
"""How many actions the host may be ahead of a CUDA device."""
TIMEOUT = 600.0
"""Seconds that a wait for another rank takes at most."""


class PipelineOptions(TypedDict, total=False):
    """The keywords of ``Pipeline``; all may be left out. All ranks are given the same, but for ``tied``, ``device`` and what only records.

    Attributes:
        schedule: A schedule's name, or one that is made; by default 1f1b, interleaved_1f1b where vpp > 1, or auto.
        microbatches: Number of microbatches in a step, unless the step says another; by default that of the program, else 1.
        group: The process group of the pipeline ranks, in their order; the whole world by default.
        transport: The rank's end of the channels; by default one over torch.distributed is made, and closed with the pipeline.
        device: Where the rank's tensors are, where no transport is given; the CPU by default.
        depth: How many actions ahead of its use a receive is posted, from 0; 1 by default.
        program: A program that was made before; it is proved again.
        count_fn: Counts a microbatch's target as ``loss_fn`` does where that gives (sum, count); by default the elements other than -100 of
            integers, else all.
        autocast: The element type that chunks and loss are cast to by autocast; none by default.
        fp32_grads: Whether parameters of 16 bits accumulate their gradients in fp32, in ``main_grad``.
        grad_scale: Gives, once a step, what all gradients are multiplied by; losses are not. For fp16: whoever gives it divides the
            gradients by it before the optimizer's step, and leaves the step out where ``has_non_finite_grads``.
        checkpoint: Whether activations are recomputed in the backward instead of kept: of all chunks, or of these stages.
        dropout_seed: Seeds dropout by step, microbatch and layer, see ``chunks.seeding``. Without it dropout is off: torch's own modules,
            and what looks at its own mode and holds one of them, or a rate with ``drop`` in its name.
        tied: The rank's copies of weights that other ranks have, too, by a name that is the same on all ranks.
        reduce: Called with a stage once its gradients of a step are complete.
        timeout: Seconds that a wait for another rank takes at most, where no transport is given; 600 by default.
        progress: Where the rank says how far it is, for a watchdog that is there before the pipeline; a new one by default.
        run_ahead: How many actions the host may be ahead of a CUDA device; 32 by default.
        ranges: ``nvtx`` or ``profiler`` names each action for a profiler.
        recorder: Takes the time of each action.
    """

    schedule: str | Schedule | None
    microbatches: int | None
    group: ProcessGroup | None
    transport: Transport | None
    device: str | torch.device
    depth: int
    program: Program | None
    count_fn: Callable[[Any], int | torch.Tensor] | None
    autocast: torch.dtype | None
    fp32_grads: bool
    grad_scale: Callable[[], float | torch.Tensor] | None
    checkpoint: bool | Collection[int]
    dropout_seed: int | None
    tied: Mapping[str, nn.Parameter] | None
    reduce: Callable[[int], None] | None
    timeout: float
    progress: Progress | None
    run_ahead: int
    ranges: Ranges | None
    recorder: Recorder | None


@dataclass(frozen=True, slots=True)
class StepOptions:
    """Those that steps follow, with their defaults; see ``PipelineOptions``."""

    microbatches: int
    depth: int
    autocast: torch.dtype | None
    fp32_grads: bool
    checkpoint: bool | frozenset[int]
    dropout_seed: int | None
    run_ahead: int
    ranges: Ranges | None

    @classmethod
    def of(cls, options: PipelineOptions, stages: int) -> StepOptions:
        """Choose them.

        Args:
            options: Those of a pipeline.
            stages: How many stages its plan has.

        Raises:
            TypeError: There is no such keyword.
            ValueError: A number is out of its range, or a stage that is to be checkpointed is not there.
        """
        unknown = sorted(options.keys() - PipelineOptions.__annotations__.keys())
        if unknown:
            raise TypeError(f"unknown option {unknown[0]!r}; there are {', '.join(PipelineOptions.__annotations__)}")
        program = options.get("program")
        default = 1 if program is None else program.microbatches
        checkpoint = options.get("checkpoint", False)
        beyond = [] if isinstance(checkpoint, bool) else sorted({*checkpoint} - {*range(stages)})
        if beyond:
            raise ValueError(f"checkpoint names stage {beyond[0]}, the plan has stages 0 to {stages - 1}")
        return cls(
            microbatches=check_microbatches(default if options.get("microbatches") is None else options["microbatches"]),
            depth=program.depth if program is not None and "depth" not in options else options.get("depth", 1),
            autocast=options.get("autocast"),
            fp32_grads=options.get("fp32_grads", False),
            checkpoint=checkpoint if isinstance(checkpoint, bool) else frozenset(checkpoint),
            dropout_seed=options.get("dropout_seed"),
            run_ahead=_at_least(1, "run_ahead", options.get("run_ahead", RUN_AHEAD)),
            ranges=options.get("ranges"),
        )

    def checkpoints(self, stage: int) -> bool:
        """Whether a stage's activations are recomputed."""
        return self.checkpoint if isinstance(self.checkpoint, bool) else stage in self.checkpoint


def check_microbatches(count: object) -> int:
    """Give a number of microbatches as it is.

    Raises:
        ValueError: It is not an integer from 1.
    """
    return _at_least(1, "microbatches", count)


def _at_least(least: int, name: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"{name} is {str(value)[:40]!a}, not an integer from {least}")
    return value
