"""What is told, and written, once a run is done."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ppdsl.drawing import chrome_trace, draw_gantt
from ppdsl.validation.subject import plural
from ppdsl_runtime.training.summaries import analyse_load, tell_load
from ppdsl_runtime.training.timelines import measured_durations, predict

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ppdsl_runtime.training.timelines import Measured

SCHEMA_VERSION = "1.0"


def tell_run(losses: Sequence[float], measured: Sequence[Measured], width: int, *, color: bool = False) -> Iterator[str]:
    """Tell how a run went: its loss, where its time went, and its last step beside the one that the stages' times foretell; whole lines.

    Args:
        losses: Of each step.
        measured: The last steps, as they were; nothing is told of time where there are none.
        width: Columns of the pictures.
        color: Whether to paint the pictures.
    """
    yield f"loss {losses[0]:.4f} at step 1, {losses[-1]:.4f} at step {len(losses)}\n"
    if not measured:
        return
    durations, step = measured_durations(measured), typical_step(measured)
    yield "\n"
    yield from tell_load(step, durations)
    foretold = predict(step.schedule, durations)
    yield f"\npredicted from the stages' times: {foretold.timing.makespan:.3f} ms\n"
    yield draw_gantt(foretold.schedule, foretold.timing, width, color=color) + "\n"
    yield f"\nmeasured: {step.timing.makespan:.3f} ms, the median of {plural(len(measured), 'step')}\n"
    yield draw_gantt(step.schedule, step.timing, width, color=color) + "\n"


def typical_step(measured: Sequence[Measured]) -> Measured:
    """Give the step whose time is the median; of an even number, the slower one of the two in the middle."""
    return sorted(measured, key=lambda step: step.timing.makespan)[len(measured) // 2]


def trace_document(step: Measured) -> dict[str, object]:
    """Give a measured step as a Chrome trace, in the format of a simulated one."""
    return chrome_trace(step.schedule, step.timing, origin="measured")


def profile_document(measured: Sequence[Measured]) -> dict[str, object]:
    """Give the stages' measured times as data that ``json.dumps`` takes; times in ms, medians over the steps."""
    durations, step = measured_durations(measured), typical_step(measured)
    schedule, load = step.schedule, analyse_load(step)
    return {
        "schema_version": SCHEMA_VERSION,
        "schedule": schedule.name,
        "microbatches": schedule.microbatches,
        "step_ms": step.timing.makespan,
        "predicted_step_ms": predict(schedule, durations).timing.makespan,
        "stages": [
            {
                "stage": stage,
                "pp_rank": owner,
                "forward_ms": durations.forward[stage],
                "backward_ms": durations.backward[stage],
                "input_grad_ms": durations.input_grad[stage],
                "weight_grad_ms": durations.weight_grad[stage],
            }
            for stage, owner in enumerate(schedule.owners)
        ],
        "busy_ms": [*load.busy],
        "bottleneck": load.bottleneck,
        "imbalance": load.imbalance,
        "fill_and_drain": load.fill_and_drain,
    }
