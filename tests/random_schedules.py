"""Random schedules for any placement, with whole numbers for durations, and plans and costs that fit each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import strategies as st

from ppdsl.schedules.actions import Action, Schedule
from ppdsl.schedules.timing import Durations

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

    from hypothesis.strategies import DrawFn

    from ppdsl.schedules.actions import Kind


@st.composite
def owner_lists(draw: DrawFn, most_ranks: int = 4, most_stages: int = 8) -> tuple[int, ...]:
    """Draw the owners of some stages; every rank owns one at least."""
    pp = draw(st.integers(1, most_ranks))
    more = draw(st.lists(st.integers(0, pp - 1), max_size=most_stages - pp))
    return tuple(draw(st.permutations([*range(pp), *more])))


@st.composite
def usual_owners(draw: DrawFn) -> tuple[int, ...]:
    """Draw the owners of a loop or a v."""
    pp, rounds = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    turn = draw(st.booleans())
    return tuple(rank for number in range(rounds) for rank in (reversed(range(pp)) if turn and number % 2 else range(pp)))


def all_durations(stages: int, values: st.SearchStrategy[float]) -> st.SearchStrategy[Durations]:
    """Draw durations for stages; the whole backward is the sum of its halves, and some have links."""
    column = st.lists(values, min_size=stages, max_size=stages).map(tuple)
    busy = st.one_of(st.just(0.0), values, column)
    return st.builds(_combine, column, column, column, values, busy)


def _combine(
    forward: tuple[float, ...],
    input_grad: tuple[float, ...],
    weight_grad: tuple[float, ...],
    delay: float,
    link_busy: tuple[float, ...] | float,
) -> Durations:
    backward = tuple(map(sum, zip(input_grad, weight_grad, strict=True)))
    return Durations(forward, backward, input_grad, weight_grad, delay, link_busy)


@st.composite
def schedules(draw: DrawFn) -> Schedule:
    """Draw a schedule that can be carried out: at each step any action whose input is there."""
    owners = draw(owner_lists())
    microbatches = draw(st.integers(1, 5))
    random = draw(st.randoms(use_true_random=False))
    split = {(stage, batch): random.random() < 0.5 for stage in range(len(owners)) for batch in range(microbatches)}
    return Schedule("random", owners, microbatches, _choose(owners, microbatches, split, random))


def _choose(owners: Sequence[int], microbatches: int, split: dict[tuple[int, int], bool], random: Random) -> tuple[tuple[Action, ...], ...]:
    ranks: list[list[Action]] = [[] for _ in range(max(owners) + 1)]
    ready = [Action(0, "F", batch) for batch in range(microbatches)]
    while ready:
        action = ready.pop(random.randrange(len(ready)))
        stage, kind, batch = action
        ranks[owners[stage]].append(action)
        if kind == "F" and stage < len(owners) - 1:
            ready.append(Action(stage + 1, "F", batch))
        elif kind != "W":
            source = stage if kind == "F" else stage - 1
            if source >= 0:
                back: Kind = "I" if split[source, batch] else "B"
                ready.append(Action(source, back, batch))
        if kind == "I":
            ready.append(Action(stage, "W", batch))
    return tuple(map(tuple, ranks))


def swap_two(schedule: Schedule, random: Random) -> Schedule:
    """Exchange two actions of one rank, which may well make the schedule impossible."""
    ranks = [[*actions] for actions in schedule.ranks]
    actions = ranks[random.randrange(len(ranks))]
    one, other = random.randrange(len(actions)), random.randrange(len(actions))
    actions[one], actions[other] = actions[other], actions[one]
    return Schedule(schedule.name, schedule.owners, schedule.microbatches, tuple(map(tuple, ranks)))
