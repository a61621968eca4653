"""Closed forms and published figures: step time, bubble and peaks of the named orders."""

from __future__ import annotations

from itertools import product

import pytest

from ppdsl.schedules.memory import count_in_flight
from ppdsl.schedules.naming import make_named
from ppdsl.schedules.timing import Durations, Timing, time_schedule
from tests.naive_simulator import run_naively

SIZES = [(p, m) for p, m in product((1, 2, 3, 4, 8), (1, 2, 3, 4, 7, 8, 15, 24))]
FORWARD, INPUT_GRAD, WEIGHT_GRAD = 3.0, 3.0, 2.0
WHOLE = FORWARD + INPUT_GRAD + WEIGHT_GRAD


def loop(pp: int, chunks: int) -> tuple[int, ...]:
    return tuple(range(pp)) * chunks


def vee(pp: int) -> tuple[int, ...]:
    return (*range(pp), *reversed(range(pp)))


def run(name: str, owners: tuple[int, ...], pp: int, microbatches: int, delay: float = 0.0) -> Timing:
    """Time an order whose ranks take 3, 3 and 2 for F, I and W, whatever the number of their chunks."""
    chunks = len(owners) // pp
    durations = Durations.equal(len(owners), FORWARD / chunks, INPUT_GRAD / chunks, WEIGHT_GRAD / chunks, delay)
    return time_schedule(make_named(name, owners, pp, microbatches), durations)


@pytest.mark.parametrize(("p", "m"), SIZES)
def test_gpipe_and_1f1b_take_the_same_time(p: int, m: int) -> None:
    expected = (m + p - 1) * WHOLE
    assert run("gpipe", loop(p, 1), p, m).makespan == pytest.approx(expected)
    assert run("1f1b", loop(p, 1), p, m).makespan == pytest.approx(expected)


@pytest.mark.parametrize(("p", "m", "v"), [(p, m, v) for (p, m), v in product(SIZES, (2, 3)) if m >= p])
def test_gpipe_with_chunks(p: int, m: int, v: int) -> None:
    assert run("gpipe", loop(p, v), p, m).makespan == pytest.approx((m * v + p - 1) * WHOLE / v)


@pytest.mark.parametrize(("p", "m", "v"), [(p, m, v) for (p, m), v in product(SIZES, (2, 3, 4)) if m % p == 0])
def test_interleaved(p: int, m: int, v: int) -> None:
    assert run("interleaved_1f1b", loop(p, v), p, m).makespan == pytest.approx(m * WHOLE + (p - 1) * WHOLE / v)


@pytest.mark.parametrize(("p", "m"), [(p, m) for p, m in SIZES if m >= p])
def test_zb_h1(p: int, m: int) -> None:
    assert run("zb_h1", loop(p, 1), p, m).makespan == pytest.approx(m * WHOLE + (p - 1) * (FORWARD + INPUT_GRAD - WEIGHT_GRAD))


@pytest.mark.parametrize(("p", "m"), [(p, m) for p, m in SIZES if m >= 2 * p - 1])
def test_zb_h2(p: int, m: int) -> None:
    assert run("zb_h2", loop(p, 1), p, m).span == pytest.approx(m * WHOLE + (p - 1) * (FORWARD + INPUT_GRAD - 2 * WEIGHT_GRAD))


@pytest.mark.parametrize(("p", "m"), [(p, m) for p, m in SIZES if m >= 2 * p - 1])
def test_zb_v_has_no_bubble_in_the_span(p: int, m: int) -> None:
    timing = time_schedule(make_named("zb_v", vee(p), p, m), Durations.equal(2 * p, 1.0, 1.0, 1.0))
    assert (timing.span, timing.makespan) == (6 * m, 6 * m + p - 1)


@pytest.mark.parametrize(("p", "m"), SIZES)
def test_peaks_in_flight(p: int, m: int) -> None:
    ranks = range(p)
    assert count_in_flight(make_named("gpipe", loop(p, 1), p, m)) == (m,) * p
    assert count_in_flight(make_named("gpipe", loop(p, 3), p, m)) == (3 * m,) * p
    assert count_in_flight(make_named("1f1b", loop(p, 1), p, m)) == tuple(min(m, p - r) for r in ranks)
    assert count_in_flight(make_named("zb_h1", loop(p, 1), p, m)) == tuple(min(m, p - r) for r in ranks)
    assert count_in_flight(make_named("zb_h2", loop(p, 1), p, m)) == tuple(min(m, 2 * (p - r) - 1) for r in ranks)
    assert max(count_in_flight(make_named("zb_v", vee(p), p, m))) <= 2 * p
    for v in (2, 3):
        if m % p == 0:
            expected = tuple(min(m * v, 2 * (p - 1 - r) + (v - 1) * p + 1) for r in ranks)
            assert count_in_flight(make_named("interleaved_1f1b", loop(p, v), p, m)) == expected


@pytest.mark.parametrize(("name", "most"), [("zb_h1", lambda p: p), ("zb_h2", lambda p: 2 * p - 1)])
@pytest.mark.parametrize(("p", "m"), [(p, m) for p, m in SIZES if m >= 2 * p - 1])
def test_forwards_whose_weight_gradient_is_not_done(name: str, most, p: int, m: int) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001
    peaks = []
    for actions in make_named(name, loop(p, 1), p, m).ranks:
        held = [0]
        for action in actions:
            held.append(held[-1] + {"F": 1, "W": -1}.get(action.kind, 0))
        peaks.append(max(held))
    assert max(peaks) == most(p)


# arXiv 2401.10241, Tables 5 and 9; interleaved as a full simulation gives it, which keeps every transfer back to the first rank.
PUBLISHED = [
    (8, 24, (18.522, 18.086, 9.337, 0.601), {"1f1b": 0.2431, "zb_h1": 0.1585, "zb_h2": 0.1083, "interleaved_1f1b": 0.1090}),
    (16, 48, (11.347, 11.248, 8.132, 0.377), {"1f1b": 0.2552, "zb_h1": 0.1397, "zb_h2": 0.0672, "interleaved_1f1b": 0.1136}),
]


@pytest.mark.parametrize(("p", "m", "times", "name", "expected"), [(*row[:3], *pair) for row in PUBLISHED for pair in row[3].items()])
def test_published_bubble_rates(p: int, m: int, times: tuple[float, ...], name: str, expected: float) -> None:
    chunks = 3 if name == "interleaved_1f1b" else 1
    forward, input_grad, weight_grad, delay = times
    durations = Durations.equal(p * chunks, forward / chunks, input_grad / chunks, weight_grad / chunks, delay)
    timing = time_schedule(make_named(name, loop(p, chunks), p, m), durations)
    busy = m * (forward + input_grad + weight_grad)
    assert round((timing.span - busy) / timing.span, 4) == expected
    of_makespan = round((timing.makespan - busy) / timing.makespan, 4)
    assert of_makespan == (0.1065 if (p, name) == (16, "zb_h2") else expected)


def test_the_sum_and_the_slowest_stage_do_not_give_the_step_time_of_1f1b() -> None:
    durations = Durations((3.0, 1.0, 1.0), (6.0, 2.0, 2.0), (3.0, 1.0, 1.0), (3.0, 1.0, 1.0))
    schedule = make_named("1f1b", (0, 1, 2), 3, 4)
    # The first rank is busy all the time from 9 on: while its first backward comes back, it has two more forwards to do.
    assert time_schedule(schedule, durations).makespan == 36.0
    assert max(end for _, end in (run_naively(schedule, durations) or {}).values()) == 36
    assert (9.0 + 3.0 + 3.0) + (4 - 1) * 9.0 == 42.0
