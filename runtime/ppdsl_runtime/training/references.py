"""The same run in one process, without a pipeline: a plain loop that every layout has to agree with."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

import torch

from ppdsl_runtime.chunks.seeding import Dropout
from ppdsl_runtime.dumps import clear_dump, dump_gradients
from ppdsl_runtime.models import LanguageModelLoss, build_reference, count_targets, named_global_parameters, run_chunks
from ppdsl_runtime.training.logs import StepLog
from ppdsl_runtime.training.optimizers import Optimizer

if TYPE_CHECKING:
    from torch import Tensor

    from ppdsl_runtime.models import ModelChunk
    from ppdsl_runtime.training.settings import TrainSettings


def train_reference(settings: TrainSettings, device: torch.device, microbatches: int = 1) -> list[float]:
    """Train the whole model in this process.

    Args:
        settings: What is trained, on what, and how; ``fp32_grads`` has no effect.
        device: Where.
        microbatches: In how many parts a batch is run; it matters for dropout, and for memory.

    Returns:
        The loss of each step.
    """
    if settings.dump_gradients is not None:
        clear_dump(settings.dump_gradients)
    model = build_reference(settings.make_builder(device))
    optimizer = Optimizer(settings.optimizer, model.parameters(), lr=settings.lr, weight_decay=settings.weight_decay)
    losses = []
    with StepLog(settings.steps, settings.tokens, path=settings.log, quiet=settings.quiet) as log:
        for step in range(settings.steps):
            log.start_step()
            model.zero_grad()
            loss = _run_step(model, settings, step, microbatches, device)
            norm = None if settings.clip is None else torch.nn.utils.clip_grad_norm_(model.parameters(), settings.clip).item()
            optimizer.step()
            if step == 0 and settings.dump_gradients is not None:
                dump_gradients(settings.dump_gradients, named_global_parameters([model]))
            losses.append(loss)
            log.end_step(step, loss, norm)
    return losses


def _run_step(model: ModelChunk, settings: TrainSettings, step: int, microbatches: int, device: torch.device) -> float:
    tokens, target = (each.to(device) for each in settings.batches.get(step))
    dropout = None if settings.dropout_seed is None else Dropout(settings.dropout_seed, device)
    model.train(dropout is not None)
    count, loss = count_targets(target), torch.zeros((), dtype=torch.float64)
    parts = zip(tokens.tensor_split(microbatches), target.tensor_split(microbatches), strict=True)
    for number, (some, wanted) in enumerate(parts):
        with nullcontext() if dropout is None else dropout.microbatch(step, number):
            total = _sum_loss(model, some, wanted, settings)
        torch.autograd.backward(total / count)
        loss += (total.detach() / count).double().cpu()
    return loss.item()


def _sum_loss(model: ModelChunk, tokens: Tensor, target: Tensor, settings: TrainSettings) -> Tensor:
    with nullcontext() if settings.autocast is None else torch.autocast(tokens.device.type, settings.autocast):
        return LanguageModelLoss()(run_chunks([model], tokens), target)[0]
