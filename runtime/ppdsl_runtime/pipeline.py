"""A rank's end of a pipeline: its chunks, its program, and the steps they do together."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import torch

from ppdsl_runtime.assembling import Given, check_chunks, compare, connect, make_programs
from ppdsl_runtime.chunks.accumulating import MainGrads, forget_main_grads
from ppdsl_runtime.chunks.building import build
from ppdsl_runtime.chunks.deferring import Deferral
from ppdsl_runtime.chunks.running import Runner, RunOptions
from ppdsl_runtime.chunks.seeding import Dropout
from ppdsl_runtime.chunks.tying import TiedWeights
from ppdsl_runtime.executor import Binding, Pool, Recorder, Walker, bind
from ppdsl_runtime.executor.binding import Rank
from ppdsl_runtime.executor.edges import Edge
from ppdsl_runtime.gradients import Gradients
from ppdsl_runtime.losses import Losses
from ppdsl_runtime.microbatches import Batch, StepForm
from ppdsl_runtime.options import PipelineOptions, StepOptions
from ppdsl_runtime.progress import Progress
from ppdsl_runtime.stepping import Step, tell_form

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import nn
    from typing_extensions import Unpack

    from ppdsl.lowering import Program
    from ppdsl.planning import Plan
    from ppdsl_runtime.transport.interface import Transport

__all__ = ["Pipeline", "build"]


class Pipeline:
    """Runs steps of one rank's part of a plan, together with the other ranks, each of which has one.

    Its chunks' gradients are left in ``grad``, or ``main_grad`` with ``fp32_grads``; no optimizer is in it. Two steps without ``zero_grad``
    between them add up. In a step, training mode is as the caller left it, but for dropout, which is off unless a seed is given. Whether
    what a stage gives needs a gradient is settled by the first step with its shapes: who freezes or frees weights later makes a new one.

    Attributes:
        plan: The layout.
        rank: This pipeline rank.
        chunks: Its chunks, in forward order.
        transport: Its end of the channels.
        progress: Where it is in its program.
        steps: How many training steps were begun; may be set, for a run that resumes, before a step.
        has_loss: Whether the loss is on this rank.
    """

    def __init__(
        self,
        plan: Plan,
        chunks: Sequence[nn.Module | None],
        *,
        loss_fn: Callable[[Any, Any], Any],
        **options: Unpack[PipelineOptions],
    ) -> None:
        """Make one. All ranks do, at the same time.

        Args:
            plan: The layout.
            chunks: The rank's chunks in forward order, as ``build`` gives them.
            loss_fn: Takes the last stage's output and a target; gives a mean, or (sum, count). Parameters of its own are the caller's to
                set to zero and to clip.
            options: See ``PipelineOptions``.

        Raises:
            ValueError: The chunks are not as many as the plan's, the schedule is not legal, or the program is not proved.
            DifferenceError: The ranks were not given the same.
        """
        self.plan = plan
        self.options = settings = StepOptions.of(options, len(plan.chunks))
        given = options.get("transport")
        programs, facts = make_programs(plan, options, settings)
        self.progress: Progress = getattr(given, "progress", None) or options.get("progress") or Progress()
        everywhere = compare(Given.of(facts, chunks, options), options, self.progress)
        if isinstance(programs, ValueError):
            raise programs
        self._programs = programs
        self._names = {name for one in everywhere for name in one.names}
        self.transport: Transport = given or connect(plan, options, everywhere, self.progress)
        self._owns_transport = given is None
        self.rank = self.transport.rank
        self.chunks = check_chunks(plan, chunks, self.transport)
        self.has_loss = plan.chunks[-1].pp_rank == self.rank
        self.steps = 0
        self._prepare(loss_fn, options)

    def _prepare(self, loss_fn: Callable[[Any, Any], Any], options: PipelineOptions) -> None:
        """Make what is the same in all steps."""
        settings, device = self.options, self.transport.device
        self._dropout = None if settings.dropout_seed is None else Dropout(settings.dropout_seed, device)
        stages = [chunk.stage for chunk in self.plan.chunks_of(self.rank)]
        runners = {
            stage: Runner(module, RunOptions(device, settings.autocast, settings.checkpoints(stage), self._dropout, stage))
            for stage, module in zip(stages, self.chunks, strict=True)
        }
        owners = [chunk.pp_rank for chunk in self.plan.chunks]
        cuts = [stage for stage, (one, other) in enumerate(pairwise(owners)) if one != other and self.rank in (one, other)]
        self._losses = Losses(
            loss_fn, count_fn=options.get("count_fn"), grad_scale=options.get("grad_scale"), autocast=settings.autocast, device=device
        )
        self._parts = Rank(
            transport=self.transport,
            runners=runners,
            edges={cut: Edge(cut, self.transport) for cut in cuts},
            activations=Pool(device),
            gradients=Pool(device),
            losses=self._losses,
            reduce=options.get("reduce"),
        )
        self._walker = Walker(self.progress, device, run_ahead=settings.run_ahead, ranges=settings.ranges)
        self._walker.recorder = options.get("recorder")
        parameters = [weight for module in self.chunks if module is not None for weight in module.parameters()]
        self._main_grads = MainGrads(parameters) if settings.fp32_grads else None
        if not settings.fp32_grads:
            forget_main_grads(parameters)
        self._tied = TiedWeights(options.get("tied") or {}, self.transport)
        self._gradients = Gradients(parameters, self._tied.copies(), self.transport)
        self._deferral: Deferral | None = None
        self._bindings: dict[tuple[int, bool], Binding] = {}

    def step(
        self,
        *inputs: torch.Tensor,
        target: Any = None,  # noqa: ANN401 -- a tensor, a list, or whatever loss_fn takes
        microbatches: int | None = None,
        loss_everywhere: bool = False,
        **side: Any,  # noqa: ANN401 -- whatever the chunks take
    ) -> torch.Tensor | None:
        """Do a training step: forwards and backwards of all microbatches.

        Args:
            inputs: What stage 0 is called with, split along dimension 0; needed on its rank, and where a chunk names ``tokens``, which are
                the first of them.
            target: What the loss compares with: split the same way if it is a tensor, see ``side``; needed on the rank of the last stage.
            microbatches: How many; those given to the pipeline by default. Where several ranks are told, they must be told the same.
            loss_everywhere: Whether every rank gets the losses. All ranks say the same.
            side: Keyword inputs for the chunks that name them: a tensor is split, a list has one value a microbatch, anything else goes to
                all microbatches.

        Returns:
            The mean loss of each microbatch, not scaled, on the rank of the last stage, or everywhere; None elsewhere. ``loss_weights`` has
            their weights in the loss of the batch.

        Raises:
            ValueError: The inputs do not fit each other or the microbatches, one is missing, or no chunk of any rank takes it.
        """
        if self._dropout is not None:
            self._dropout.step = self.steps
        self.progress.step = self.steps
        self.steps += 1
        step = self._begin(Batch(inputs, target, side), microbatches, train=True)
        self._tied.begin()
        with torch.enable_grad():
            step.run(self._walker)
        self._tied.finish()
        return self._losses_of(step, everywhere=loss_everywhere)

    def eval_step(
        self,
        *inputs: torch.Tensor,
        target: Any = None,  # noqa: ANN401 -- a tensor, a list, or whatever loss_fn takes
        microbatches: int | None = None,
        loss_everywhere: bool = False,
        **side: Any,  # noqa: ANN401 -- whatever the chunks take
    ) -> torch.Tensor | None:
        """Do the forwards of all microbatches only, without a graph, and with the chunks in evaluation mode; else like ``step``."""
        step = self._begin(Batch(inputs, target, side), microbatches, train=False)
        with torch.no_grad():
            step.run(self._walker)
        return self._losses_of(step, everywhere=loss_everywhere)

    def _begin(self, batch: Batch, microbatches: int | None, *, train: bool) -> Step:
        batch.refuse_unknown(self._names)
        mode = f"{'train' if train else 'eval'} {self.options.autocast}"
        form = tell_form(self.transport, self.plan.chunks[0].pp_rank, batch, (self.options.microbatches, microbatches), mode)
        binding = self._bind(len(form.rows), train=train)
        self._give(binding, batch, form)
        return Step(binding, self._parts, form, train=train)

    def _bind(self, microbatches: int, *, train: bool) -> Binding:
        """Give the calls for a number of microbatches; they are made once."""
        binding = self._bindings.get((microbatches, train))
        if binding is None:
            binding = self._bindings[microbatches, train] = bind(self._programs.give(microbatches), self._parts, train=train)
            if binding.splits and self._deferral is None:
                self._deferral = Deferral([module for module in self.chunks if module is not None])
                for runner in self._parts.runners.values():
                    runner.deferral = self._deferral
        return binding

    def _give(self, binding: Binding, batch: Batch, form: StepForm) -> None:
        """Give the stages and the loss their inputs of this step."""
        for number, stage in binding.stages.items():
            if not number:
                stage.payloads[:] = batch.split_inputs(form.rows)
            stage.sides[:] = batch.choose_side(number, self._parts.runners[number].names, form.rows)
        if self.has_loss:
            self._losses.begin(batch.split_target(form.rows), form.rows)

    def _losses_of(self, step: Step, *, everywhere: bool) -> torch.Tensor | None:
        losses = self._losses.finish() if self.has_loss else None
        if losses is None:
            self._losses.weights = None
        if not everywhere:
            return losses
        source = self.plan.chunks[-1].pp_rank
        told = (losses.cpu(), self._losses.weights.cpu()) if losses is not None and self._losses.weights is not None else None
        values, weights = self.transport.broadcast(told, source) or (torch.zeros(step.microbatches), None)
        if losses is None:
            self._losses.weights = weights
        return losses if losses is not None else values.to(self.transport.device)

    @property
    def loss_weights(self) -> torch.Tensor | None:
        """The weight of each microbatch in the batch's loss, which add up to 1, where the losses of the last step are; None elsewhere."""
        return self._losses.weights

    def program(self, microbatches: int) -> Program:
        """Give the proved program that a step of so many microbatches follows."""
        return self._programs.give(microbatches)

    def record(self, recorder: Recorder | None) -> None:
        """Tell a recorder the time of each action from now on; None for no more."""
        self._walker.recorder = recorder

    def buffer_bytes(self) -> tuple[list[int], list[int]]:
        """Give the bytes of each receive buffer, for activations and for gradients."""
        return [slot.nbytes for slot in self._parts.activations], [slot.nbytes for slot in self._parts.gradients]

    def zero_grad(self) -> None:
        """Let go of all gradients; those kept in fp32 are set to zero."""
        self._gradients.zero()

    def grad_norm(self) -> torch.Tensor:
        """Give the Euclidean norm of the whole model's gradients, in float64; tied weights count once. All ranks call it."""
        return self._gradients.norm()

    def clip_grad_norm_(self, max_norm: float) -> torch.Tensor:
        """Scale all gradients down to a norm where they have a larger one. All ranks call it.

        Args:
            max_norm: The norm that they may have.

        Returns:
            The norm before.
        """
        return self._gradients.clip(max_norm)

    def has_non_finite_grads(self) -> bool:
        """Whether any gradient of any rank is infinite or not a number. All ranks call it; it waits for the device."""
        return self._gradients.has_non_finite()

    def close(self) -> None:
        """Leave the chunks as they were, and close the transport where the pipeline made it."""
        if self._deferral is not None:
            self._deferral.remove()
        if self._main_grads is not None:
            self._main_grads.remove()
        self._bindings.clear()
        if self._owns_transport:
            self.transport.close()
