"""One step: what its ranks tell each other before it, and the walk through the program."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ppdsl_runtime.microbatches import Batch, StepForm
from ppdsl_runtime.options import check_microbatches

if TYPE_CHECKING:
    from ppdsl_runtime.executor import Binding, Walker
    from ppdsl_runtime.executor.binding import Rank
    from ppdsl_runtime.transport.interface import Transport


class Step(NamedTuple):
    """A step that is about to be done.

    Attributes:
        binding: The rank's calls.
        rank: What the rank has.
        form: What all ranks know of it.
        train: Whether backwards are done.
    """

    binding: Binding
    rank: Rank
    form: StepForm
    train: bool

    @property
    def microbatches(self) -> int:
        """How many it has."""
        return len(self.form.rows)

    def run(self, walker: Walker) -> None:
        """Do it."""
        for edge in self.rank.edges.values():
            edge.begin(self.form.keys)
        for runner in self.rank.runners.values():
            runner.begin(train=self.train, splits=self.binding.splits)
        try:
            walker.walk(self.binding.calls)
            self.rank.transport.finish()
        finally:
            for stage in self.binding.stages.values():
                stage.runner.finish()
                stage.finish()


class _Refusal(NamedTuple):
    """What stage 0's rank tells the others where it cannot do the step.

    Attributes:
        reason: Why.
    """

    reason: str


def tell_form(transport: Transport, source: int, batch: Batch, microbatches: tuple[int, int | None], mode: str) -> StepForm:
    """Tell all ranks what they have to know of a step.

    Args:
        transport: Tells it.
        source: The rank of stage 0.
        batch: What this rank was given.
        microbatches: How many there are usually, and how many this rank was told of for this step; None for none.
        mode: What the shapes and types of the edges follow from besides the inputs.

    Raises:
        ValueError: What that rank was given does not fit, or this rank was told another number of microbatches.
    """
    usual, told = microbatches
    form: StepForm | _Refusal | None = None
    if transport.rank == source:
        try:
            form = batch.form(usual if told is None else check_microbatches(told), mode)
        except ValueError as error:
            form = _Refusal(str(error))
    form = transport.broadcast(form, source)
    if isinstance(form, _Refusal):
        raise ValueError(form.reason)  # noqa: TRY004 -- it is the inputs that are wrong
    if not isinstance(form, StepForm):
        raise TypeError(f"rank {source}, which has stage 0, told {type(form).__name__} of the step")
    if told is not None and told != len(form.rows):
        raise ValueError(f"microbatches is {told} on rank {transport.rank}, but {len(form.rows)} on rank {source}")
    return form
