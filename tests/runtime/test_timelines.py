"""Measured times: clocks set against each other, durations, the load, and what is told and written of them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("torch")  # the runtime is tested where torch is among the tests' requirements

from hypothesis import given
from hypothesis import strategies as st

from ppdsl import compile_layout
from ppdsl.lowering import lower
from ppdsl.schedules import make_schedule
from ppdsl.schedules.actions import Action, Schedule, read_action
from ppdsl.schedules.timing import Durations, Timing, time_schedule
from ppdsl_runtime.training.recording import StepRecorder
from ppdsl_runtime.training.reports import profile_document, tell_run, trace_document, typical_step
from ppdsl_runtime.training.summaries import analyse_load
from ppdsl_runtime.training.timelines import (
    Measured,
    Record,
    measured_durations,
    measured_step,
    predict,
    schedule_of,
)
from tests.random_schedules import schedules
from tests.test_drawing_traces import import_trace, round_to_ns

if TYPE_CHECKING:
    from collections.abc import Iterable


def schedule(*ranks: str, owners: tuple[int, ...] = (0, 1), microbatches: int = 1) -> Schedule:
    """Make a schedule from the actions of each rank."""
    return Schedule("1f1b", owners, microbatches, tuple(tuple(map(read_action, row.split())) for row in ranks))


def records(text: str) -> list[Record]:
    """Read records: ``0F0 0 2, 0B0 5 7``, in seconds."""
    parts = [part.split() for part in text.split(",")]
    return [Record(read_action(action), float(start), float(end)) for action, start, end in parts]


PAIR = schedule("0F0 0B0", "1F0 1B0")


def test_times_are_in_ms_from_the_first_action() -> None:
    step = measured_step(PAIR, [records("0F0 1 3, 0B0 8 9"), records("1F0 4 5, 1B0 5 7")])
    assert step.timing.starts == ([0.0, 7000.0], [3000.0, 4000.0])
    assert step.timing.ends == ([2000.0, 8000.0], [4000.0, 6000.0])


@pytest.mark.parametrize("later", [-3.5, -1.0, 1.0, 2.5])
def test_a_clock_that_began_at_another_time_is_set(later: float) -> None:
    one, other = records("0F0 0 2, 0B0 5 6"), records("1F0 2 3, 1B0 3 5")
    moved = [Record(action, start - later, end - later) for action, start, end in other]
    assert measured_step(PAIR, [one, moved]) == measured_step(PAIR, [one, other])


def test_a_clock_that_may_be_right_is_left() -> None:
    step = measured_step(PAIR, [records("0F0 0 2, 0B0 9 10"), records("1F0 4 5, 1B0 5 7")])
    assert step.timing.starts[1] == [4000.0, 5000.0]


@given(st.data())
def test_no_input_is_used_before_it_was_made_whatever_the_clocks_say(data: st.DataObject) -> None:
    plan = data.draw(schedules())
    durations = Durations.equal(plan.stages, 1.0, 1.0, 1.0, 0.25)
    times = time_schedule(plan, durations)
    late = data.draw(st.lists(st.integers(-20, 20), min_size=plan.pp, max_size=plan.pp))
    ranks = [
        [Record(action, start / 1e3 - late[rank], end / 1e3 - late[rank]) for action, start, end in zip(*row, strict=True)]
        for rank, row in enumerate(zip(plan.ranks, times.starts, times.ends, strict=True))
    ]
    step = measured_step(plan, ranks)
    ends: dict[tuple[int, bool, int], float] = {}
    for row, done in zip(plan.ranks, step.timing.ends, strict=True):
        ends |= {
            (action.stage, action.kind == "F", action.microbatch): end for action, end in zip(row, done, strict=True) if action.kind != "W"
        }
    for row, begun in zip(plan.ranks, step.timing.starts, strict=True):
        for (stage, kind, batch), start in zip(row, begun, strict=True):
            before = ends.get((stage - 1 if kind == "F" else stage + 1, kind == "F", batch))
            assert kind == "W" or before is None or start >= before - 1e-6


def test_a_rank_without_actions_is_no_fault() -> None:
    alone = schedule("0F0 0B0", "", owners=(0,))
    step = measured_step(alone, [records("0F0 1 2, 0B0 2 4"), []])
    assert step.timing.starts == ([0.0, 1000.0], [])


def test_other_actions_than_those_of_the_schedule_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^rank 1 recorded other actions than its schedule has$"):
        measured_step(PAIR, [records("0F0 0 2, 0B0 5 6"), records("1F0 2 3")])


def timing(starts: Iterable[Iterable[float]], ends: Iterable[Iterable[float]]) -> Timing:
    """Give times by rank, in ms."""
    begun = tuple([*row] for row in starts)
    return Timing(begun, tuple([*row] for row in ends), begun)


def measured(*ends: tuple[float, ...]) -> Measured:
    """Give a step of the pair's, whose actions follow each other on each rank from 0, in ms."""
    starts = tuple((0.0, *row[:-1]) for row in ends)
    return Measured(PAIR, timing(starts, ends))


def test_durations_are_medians() -> None:
    steps = [measured((1.0, 3.0), (2.0, 5.0)), measured((2.0, 3.0), (4.0, 5.0)), measured((9.0, 10.0), (3.0, 9.0))]
    assert measured_durations(steps, 0.5) == Durations((2.0, 3.0), (1.0, 3.0), (0.0, 0.0), (0.0, 0.0), 0.5)


def test_halves_of_a_backward_make_a_whole() -> None:
    halves = schedule("0F0 0I0 0W0", owners=(0,))
    step = Measured(halves, timing([(0.0, 1.0, 3.0)], [(1.0, 3.0, 6.0)]))
    assert measured_durations([step]) == Durations((1.0,), (5.0,), (2.0,), (3.0,))


def test_a_predicted_step_is_the_simulated_one() -> None:
    durations = Durations((1.0, 2.0), (3.0, 4.0), (0.0, 0.0), (0.0, 0.0))
    assert predict(PAIR, durations).timing.makespan == 10.0


@pytest.mark.parametrize("name", ["1f1b", "zb_h1"])
def test_a_program_has_the_actions_of_its_schedule(name: str) -> None:
    made = make_schedule(compile_layout("Et|tL", pp=2), name, 4)
    assert schedule_of(lower(made)) == made


def test_a_recorder_keeps_the_last_steps_and_computations_alone() -> None:
    program = lower(make_schedule(compile_layout("Et*2L", pp=1), "1f1b", 1))

    class Ends:
        """A pipeline of one rank, whose recorder is told what it has done."""

        transport = property(lambda self: self)

        def record(self, recorder: object) -> None:
            self.recorder = recorder

        @staticmethod
        def gather(value: object) -> list[object]:
            return [value]

    pipeline, recorder = Ends(), StepRecorder(program, most=2)
    for step in range(3):
        recorder.begin_step(pipeline)  # type: ignore[arg-type]  # all that it asks of a pipeline
        for at, instruction in enumerate(program.ranks[0]):
            pipeline.recorder(instruction, step + at, step + at + 0.5)  # type: ignore[operator]  # the recorder's own
    steps = recorder.gather(pipeline)  # type: ignore[arg-type]  # the same
    assert len(steps) == 2
    assert [step.schedule.ranks[0] for step in steps] == [(Action(0, "F", 0), Action(0, "B", 0))] * 2


def test_the_load_of_a_step() -> None:
    starts = ((0.0, 6.0), (2.0, 3.0))
    load = analyse_load(Measured(PAIR, timing(starts, ((2.0, 8.0), (3.0, 6.0)))))
    assert load.busy == (4.0, 4.0)
    assert (load.bottleneck, load.imbalance) == (0, 0.0)
    assert load.fill_and_drain == (4.0 + 4.0) / 16  # rank 0 waits from 2 to 6; rank 1 until 2 and from 6
    heavier = analyse_load(Measured(PAIR, timing(starts, ((2.0, 8.0), (3.0, 5.0)))))
    assert heavier.imbalance == 1 - (4 + 3) / 2 / 4


def test_the_load_of_nothing_is_none() -> None:
    empty = schedule("", "")
    load = analyse_load(Measured(empty, timing(((), ()), ((), ()))))
    assert load == ((0, 0), 0.0, 0.0)


STEPS = [measured((1.0, 3.0), (2.0, 5.0)), measured((2.0, 4.0), (4.0, 9.0)), measured((1.0, 3.0), (2.0, 6.0))]


def test_what_is_told_of_a_run() -> None:
    text = "".join(tell_run([2.0, 1.5, 1.25], STEPS, 40))
    assert text == (
        "loss 2.0000 at step 1, 1.2500 at step 3\n"
        "\n"
        "stage  rank  forward ms  backward ms\n"
        "    0     0       1.000        2.000\n"
        "    1     1       2.000        4.000\n"
        "bottleneck: rank 1, 6.000 ms of work in a step of 6.000 ms\n"
        "imbalance 25.0%, fill and drain 25.0%\n"
        "\n"
        "predicted from the stages' times: 9.000 ms\n"
        "rank 0 F0  ......................B0     \n"
        "rank 1 ....F0     B0             .......\n"
        "       0                 5          9 ms\n"
        "F forward   B backward   . idle\n"
        "number: microbatch\n"
        "\n"
        "measured: 6.000 ms, the median of 3 steps\n"
        "rank 0 F0    B0         ................\n"
        "rank 1 F0         B0                    \n"
        "       0          2          4      6 ms\n"
        "F forward   B backward   . idle\n"
        "number: microbatch\n"
    )
    assert "".join(tell_run([2.0], (), 40)) == "loss 2.0000 at step 1, 2.0000 at step 1\n"
    assert "\x1b[" in "".join(tell_run([2.0], STEPS, 40, color=True))


def test_the_typical_step_is_the_median_one() -> None:
    assert typical_step(STEPS) is STEPS[2]
    assert typical_step(STEPS[:2]) is STEPS[1]


def test_all_that_is_told_of_a_step_is_of_the_same_one() -> None:
    lines = "".join(tell_run([2.0], STEPS[:2], 40)).splitlines()
    assert [line for line in lines if "bottleneck" in line or "measured" in line] == [
        "bottleneck: rank 1, 9.000 ms of work in a step of 9.000 ms",
        "measured: 9.000 ms, the median of 2 steps",
    ]
    assert profile_document(STEPS[:2])["step_ms"] == 9.0


def test_ranks_with_equal_work_have_no_imbalance_below_0() -> None:
    even = schedule("0F0", "1F0", "2F0", owners=(0, 1, 2))
    assert analyse_load(Measured(even, timing(((0.0,),) * 3, ((0.1,),) * 3))).imbalance == 0.0


def test_a_profile_is_data() -> None:
    document = profile_document(STEPS)
    assert json.loads(json.dumps(document)) == {
        "schema_version": "1.0",
        "schedule": "1f1b",
        "microbatches": 1,
        "step_ms": 6.0,
        "predicted_step_ms": 9.0,
        "stages": [
            {"stage": 0, "pp_rank": 0, "forward_ms": 1.0, "backward_ms": 2.0, "input_grad_ms": 0.0, "weight_grad_ms": 0.0},
            {"stage": 1, "pp_rank": 1, "forward_ms": 2.0, "backward_ms": 4.0, "input_grad_ms": 0.0, "weight_grad_ms": 0.0},
        ],
        "busy_ms": [3.0, 6.0],
        "bottleneck": 1,
        "imbalance": 0.25,
        "fill_and_drain": 0.25,
    }


def test_a_trace_has_the_measured_times() -> None:
    step = measured_step(PAIR, [records("0F0 0 2, 0B0 5 6"), records("1F0 0 1, 1B0 1 2")])  # rank 1 began later
    events = json.loads(json.dumps(trace_document(step)))["traceEvents"]
    slices, arrows = import_trace(events, round_to_ns)
    assert events[0]["args"]["name"] == "1f1b, measured"
    assert sorted((place[2], length) for place, length in slices) == [
        (name, 10**9 * size) for name, size in (("0B0", 1), ("0F0", 2), ("1B0", 1), ("1F0", 1))
    ]
    assert [(tail[2], head[2]) for tail, head in arrows] == [("0F0", "1F0"), ("1B0", "0B0")]
