"""Random schedules for any placement, with whole numbers for durations, and plans and costs that fit each other."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from hypothesis import strategies as st

from ppdsl.schedules.actions import Action, Schedule
from ppdsl.schedules.timing import Durations

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypothesis.strategies import DrawFn


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
    """Draw a schedule that can be carried out; every rank owns a stage."""
    owners = draw(owner_lists())
    return order_randomly(_draw_random(draw), owners, max(owners) + 1, draw(st.integers(1, 5)))


@st.composite
def random_schedules(draw: DrawFn, ranks: int = 4, stages: int = 7, microbatches: int = 6) -> Schedule:
    """Draw a schedule that can be carried out, up to these numbers; there may be ranks without a stage."""
    pp = draw(st.integers(1, ranks))
    owners = draw(st.lists(st.integers(0, pp - 1), min_size=1, max_size=stages))
    return order_randomly(_draw_random(draw), owners, pp, draw(st.integers(1, microbatches)))


def _draw_random(draw: DrawFn) -> Random:
    return Random(draw(st.integers(0, 2**32)))  # noqa: S311 -- which schedule, no secret


def order_randomly(random: Random, owners: Sequence[int], pp: int, microbatches: int) -> Schedule:
    """Make some order that can be carried out: at each step any action whose input is there, whole and split backwards mixed."""
    ranks: list[list[Action]] = [[] for _ in range(pp)]
    eagerness = random.choice((0.5, 1, 4))
    ready = [Action(0, "F", batch) for batch in range(microbatches)]
    while ready:
        weights = [1 if action.kind == "F" else eagerness for action in ready]
        action = ready.pop(random.choices(range(len(ready)), weights)[0])
        ranks[owners[action.stage]].append(action)
        ready += _enabled(action, len(owners), random)
    return Schedule("random", tuple(owners), microbatches, tuple(map(tuple, ranks)))


def _enabled(action: Action, stages: int, random: Random) -> list[Action]:
    """Give what can be done once an action is, each thing once."""
    stage, kind, batch = action
    if kind == "F" and stage + 1 < stages:
        return [Action(stage + 1, "F", batch)]
    if kind == "W":
        return []
    enabled = [Action(stage, "W", batch)] if kind == "I" else []
    upstream = stage if kind == "F" else stage - 1
    if upstream >= 0:
        enabled.append(Action(upstream, random.choice(("B", "I")), batch))
    return enabled


def swap_two(schedule: Schedule, random: Random) -> Schedule:
    """Exchange two actions of one rank, which may well make the schedule impossible."""
    ranks = [[*actions] for actions in schedule.ranks]
    actions = ranks[random.randrange(len(ranks))]
    one, other = random.randrange(len(actions)), random.randrange(len(actions))
    actions[one], actions[other] = actions[other], actions[one]
    return Schedule(schedule.name, schedule.owners, schedule.microbatches, tuple(map(tuple, ranks)))
