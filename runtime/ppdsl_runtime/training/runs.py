"""A training run under a layout: what every rank does, from the first collective to the last word."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ppdsl_runtime.chunks.accumulating import grad_of
from ppdsl_runtime.dumps import clear_dump, dump_tensors
from ppdsl_runtime.failure.watchdog import Watchdog
from ppdsl_runtime.models import LanguageModelLoss, named_global_parameters, tied_parameters
from ppdsl_runtime.pipeline import Pipeline, build
from ppdsl_runtime.progress import Progress
from ppdsl_runtime.training.logs import StepLog
from ppdsl_runtime.training.optimizers import Optimizer
from ppdsl_runtime.training.recording import StepRecorder

if TYPE_CHECKING:
    from ppdsl import Plan
    from ppdsl.lowering import Program
    from ppdsl_runtime.training.settings import TrainSettings
    from ppdsl_runtime.training.timelines import Measured
    from ppdsl_runtime.training.worlds import World

_MOST_MEASURED = 20
"""Of how many of the last steps the times are gathered."""


@dataclass(frozen=True, slots=True)
class PipelineSettings:
    """How a run is laid out.

    Attributes:
        plan: Which rank holds what.
        program: What each rank does; proved.
        checkpoint: Whether activations are recomputed in the backward instead of kept.
        timeout: Seconds that a wait for another rank takes at most.
    """

    plan: Plan
    program: Program
    checkpoint: bool = False
    timeout: float = 600.0


@dataclass(frozen=True, slots=True)
class RunResult:
    """What a run has shown.

    Attributes:
        losses: Of each step, on the main rank; empty elsewhere.
        measured: The last steps, as they were, on every rank; the first of the run is left out.
        communicators: In how many communicators this rank took part.
    """

    losses: list[float]
    measured: list[Measured]
    communicators: int


def train_pipeline(settings: TrainSettings, laid: PipelineSettings, world: World) -> RunResult:
    """Train this rank's part of the model, together with the other ranks; torch.distributed has to be set up.

    Args:
        settings: What is trained, on what, and how.
        laid: How it is laid out.
        world: This process.
    """
    progress = Progress()
    with Watchdog(progress, world.rank, laid.timeout, signals=world.launched) as watchdog:
        if settings.dump_gradients is not None:
            clear_dump(settings.dump_gradients)  # no rank begins a step before all ranks have come to make their pipelines
        progress.phase = "building the model"
        chunks = build(laid.plan, settings.make_builder(world.device), rank=world.rank)
        pipeline = Pipeline(
            laid.plan,
            chunks,
            loss_fn=LanguageModelLoss(),
            program=laid.program,
            device=world.device,
            tied=tied_parameters(chunks),
            autocast=settings.autocast,
            fp32_grads=settings.fp32_grads,
            checkpoint=laid.checkpoint,
            dropout_seed=settings.dropout_seed,
            timeout=laid.timeout,
            progress=progress,
        )
        progress.phase = "between steps"
        watchdog.in_flight = getattr(pipeline.transport, "in_flight", watchdog.in_flight)
        try:
            return _train(settings, pipeline, laid.program, world)
        finally:
            pipeline.close()


def _train(settings: TrainSettings, pipeline: Pipeline, program: Program, world: World) -> RunResult:
    parameters = [weight for chunk in pipeline.chunks if chunk is not None for weight in chunk.parameters()]
    optimizer = Optimizer(settings.optimizer, parameters, lr=settings.lr, weight_decay=settings.weight_decay)
    recorder = StepRecorder(program, most=_MOST_MEASURED)
    losses = []
    path, quiet = (settings.log, settings.quiet) if world.main else (None, True)
    with StepLog(settings.steps, settings.tokens, path=path, quiet=quiet) as log:
        for step in range(settings.steps):
            log.start_step()
            if step or settings.steps == 1:  # the first one is slower, and left out where there are others
                recorder.begin_step(pipeline)
            pipeline.zero_grad()
            loss = _run_step(settings, pipeline, step)
            norm = None if settings.clip is None else pipeline.clip_grad_norm_(settings.clip).item()
            optimizer.step()
            if step == 0 and settings.dump_gradients is not None:
                _dump(settings.dump_gradients, pipeline)
            if world.main:
                losses.append(loss)
                log.end_step(step, loss, norm)
    return RunResult(losses, recorder.gather(pipeline), getattr(pipeline.transport, "communicators", 0))


def _run_step(settings: TrainSettings, pipeline: Pipeline, step: int) -> float:
    device = pipeline.transport.device
    tokens, target = (each.to(device, non_blocking=True) for each in settings.batches.get(step))
    losses = pipeline.step(tokens, target=target, loss_everywhere=True)
    weights = pipeline.loss_weights
    if losses is None or weights is None:
        raise RuntimeError("the step gave no loss")
    return float((losses.double().cpu() * weights.double().cpu()).sum())


def _dump(folder: str, pipeline: Pipeline) -> None:
    """Write the gradients of this rank's parameters; a copy of a tied weight is written by the rank of the embedding."""
    named = named_global_parameters(pipeline.chunks, primary_only=True)
    gradients = {name: grad_of(weight) for name, weight in named.items()}
    dump_tensors(folder, {name: gradient for name, gradient in gradients.items() if gradient is not None})
