"""Random small models under random plans: what is drawn, and the same two steps in one process."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple

import torch
from hypothesis import strategies as st

from ppdsl.strategies import ScheduledPlan, scheduled_plans
from ppdsl_runtime.chunks.seeding import Dropout
from ppdsl_runtime.models import ChunkBuilder, LanguageModelLoss, ModelShape, build_reference, named_global_parameters, run_chunks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ppdsl_runtime.models import ModelChunk

CPU = torch.device("cpu")
VOCAB = 11
HIDDEN = 8
LOSS = LanguageModelLoss(mtp_factor=0.3)


class LoudWeights:
    """Weights of about the size of their inputs, so that every part of a model has a say in every gradient."""

    def check(self, shape: ModelShape) -> None:
        """Take any model."""

    def read(self, name: str, shape: tuple[int, ...]) -> torch.Tensor:
        """Make one parameter by a generator of its own."""
        seed = int.from_bytes(sha256(name.encode()).digest()[:4], "little")
        drawn: torch.Tensor = torch.randn(shape, generator=torch.Generator().manual_seed(seed)) * HIDDEN**-0.5
        return drawn + 1 if len(shape) == 1 and not name.endswith("bias") else drawn


class Batch(NamedTuple):
    """What one step is given: both (rows, seq), int64."""

    tokens: torch.Tensor
    target: torch.Tensor


@dataclass(frozen=True)
class ModelCase:
    """A model, its plan, and two batches.

    Attributes:
        shape: The model's sizes.
        laid: Its plan and schedule.
        dtype: Of its parameters; those of bf16 accumulate their gradients in fp32.
        rows: Rows of each of the two batches.
        seq: Tokens of each row.
        checkpoint: The stages that are recomputed.
        dropout_seed: None turns dropout off.
        frozen: The stages whose parameters are frozen, in whatever stage their copies are.
    """

    shape: ModelShape
    laid: ScheduledPlan
    dtype: torch.dtype
    rows: tuple[int, int]
    seq: tuple[int, int]
    checkpoint: frozenset[int]
    dropout_seed: int | None
    frozen: frozenset[int]

    def make_builder(self) -> ChunkBuilder:
        """Make a builder that gives every rank, and one process, the same weights."""
        return ChunkBuilder(self.shape, LoudWeights(), dtype=self.dtype)

    def make_batches(self) -> list[Batch]:
        """Draw the two batches; about a quarter of the targets do not count."""
        generator = torch.Generator().manual_seed(sum(self.rows) + 10 * sum(self.seq))
        batches = []
        for size in zip(self.rows, self.seq, strict=True):
            tokens, target = torch.randint(0, VOCAB, (2, *size), generator=generator).unbind()
            batches.append(Batch(tokens, target.masked_fill(torch.rand(size, generator=generator) < 0.25, -100)))
        return batches

    def freeze(self, chunks: Sequence[ModelChunk | None]) -> None:
        """Freeze what is to be, in some chunks or in the whole model."""
        builder = self.make_builder()
        names = named_global_parameters(builder(self.laid.plan.chunks[stage]) for stage in self.frozen)
        for chunk in chunks:
            if chunk is not None:
                for name, weight in chunk.named_parameters():
                    weight.requires_grad_(chunk.global_name(name) not in names)

    @property
    def half(self) -> bool:
        """Whether the parameters have 16 bits."""
        return self.dtype is torch.bfloat16


class Expected(NamedTuple):
    """What one process finds.

    Attributes:
        losses: The loss of each step's batch, float64.
        grads: All gradients behind each step, by global name, float64; they add up. A frozen parameter has none.
    """

    losses: list[torch.Tensor]
    grads: list[dict[str, torch.Tensor]]


def run_alone(case: ModelCase) -> Expected:
    """Do both steps in one process, in one piece where that is the same: without dropout, and where rounding is not to be compared."""
    model = build_reference(case.make_builder())
    case.freeze([model])
    model.train(case.dropout_seed is not None)
    dropout = Dropout(case.dropout_seed or 0, CPU)
    pieces = case.laid.microbatches if case.half or case.dropout_seed is not None else 1
    weights = {name: weight for name, weight in named_global_parameters([model]).items() if weight.requires_grad}
    sums = {name: torch.zeros_like(weight, dtype=torch.float64, requires_grad=False) for name, weight in weights.items()}
    expected = Expected([], [])
    for step, (tokens, target) in enumerate(case.make_batches()):
        count = max(1, int((target != -100).sum()))
        loss = torch.zeros((), dtype=torch.float64)
        for number, (some, wanted) in enumerate(zip(tokens.tensor_split(pieces), target.tensor_split(pieces), strict=True)):
            with dropout.microbatch(step, number):
                total = LOSS(run_chunks([model], some), wanted)[0] / count
            loss += total.detach()
            if weights:
                torch.autograd.backward(total)
            for name, weight in weights.items():
                if weight.grad is not None:
                    sums[name] += weight.grad
                    weight.grad = None
        expected.losses.append(loss)
        expected.grads.append({name: total.clone() for name, total in sums.items()})
    return expected


@st.composite
def model_cases(draw: st.DrawFn) -> ModelCase:
    """Draw a plan, and a model and batches that fit it."""
    laid = draw(scheduled_plans(max_microbatches=5, max_pp=5, max_vpp=3, max_layers=2).filter(_is_a_model))
    plan = laid.plan
    llama = draw(st.booleans())
    shape = ModelShape(
        family="llama" if llama else "gpt2",
        layers=plan.num_layers,
        hidden=HIDDEN,
        heads=2,
        vocab=VOCAB,
        max_positions=6,
        kv_heads=draw(st.sampled_from([1, 2])) if llama else None,
        ffn=12,
        mtp_layers=plan.mtp_num_layers,
        tied=draw(st.booleans()),
        dropout=draw(st.sampled_from([0.0, 0.0, 0.3])),
    )
    stages = st.integers(0, len(plan.chunks) - 1)
    return ModelCase(
        shape,
        laid,
        dtype=draw(st.sampled_from([torch.float64, torch.float32, torch.bfloat16])),
        rows=tuple(laid.microbatches + draw(st.integers(0, 4)) for _ in range(2)),  # type: ignore[arg-type]  # two
        seq=tuple(draw(st.integers(1, 6)) for _ in range(2)),  # type: ignore[arg-type]  # two
        checkpoint=draw(st.one_of(st.just(frozenset()), st.frozensets(stages))),
        dropout_seed=draw(st.one_of(st.none(), st.integers(0, 9))) if shape.dropout else None,
        frozen=draw(st.one_of(st.just(frozenset()), st.just(frozenset()), st.frozensets(stages, max_size=2))),
    )


def _is_a_model(laid: ScheduledPlan) -> bool:
    """Whether a model can be laid out so: MTP layers need decoder layers before them."""
    return laid.plan.num_layers > 0 or not laid.plan.mtp_num_layers
