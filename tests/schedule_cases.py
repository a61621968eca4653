"""Schedules to test with: the named orders, random ones that can be carried out, and the naive ways to add communication to them."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from ppdsl.schedules.actions import Action, Schedule
from ppdsl.schedules.orders import gpipe, interleaved, one_forward_one_backward
from ppdsl.schedules.zero_bubble import zb_h1, zb_h2, zb_v

if TYPE_CHECKING:
    from collections.abc import Iterator


def loop(pp: int, vpp: int = 1) -> tuple[int, ...]:
    """The owners of the placement ``loop``."""
    return tuple(range(pp)) * vpp


def vee(pp: int) -> tuple[int, ...]:
    """The owners of the placement ``v`` with two chunks a rank."""
    return (*range(pp), *reversed(range(pp)))


def groups(pp: int, microbatches: int) -> list[int]:
    """The microbatch groups that the interleaved order can be carried out with (PP315)."""
    return [group for group in range(pp, microbatches + 1) if microbatches % group == 0 or microbatches % group >= pp]


def named_schedules(sizes: tuple[int, ...], counts: tuple[int, ...]) -> Iterator[Schedule]:
    """Every named order, where it is legal, for some numbers of ranks and of microbatches."""
    for pp in sizes:
        for microbatches in counts:
            for vpp in (1, 2, 3):
                yield gpipe(loop(pp, vpp), pp, microbatches)
            for order in (one_forward_one_backward, zb_h1, zb_h2):
                yield order(loop(pp), pp, microbatches)
            yield zb_v(vee(pp), pp, microbatches)
            for vpp in (2, 3):
                yield from (interleaved(loop(pp, vpp), pp, microbatches, group) for group in groups(pp, microbatches))


def make_random_schedule(random: Random, *, pp: int, stages: int, microbatches: int) -> Schedule:
    """Some order that can be carried out: any owners, any order that the inputs allow, whole and split backwards mixed."""
    owners = [random.randrange(pp) for _ in range(stages)]
    ranks: list[list[Action]] = [[] for _ in range(pp)]
    eagerness = random.choice((0.5, 1, 4))
    ready = [Action(0, "F", batch) for batch in range(microbatches)] if stages else []
    while ready:
        weights = [1 if action.kind == "F" else eagerness for action in ready]
        action = ready.pop(random.choices(range(len(ready)), weights)[0])
        ranks[owners[action.stage]].append(action)
        ready += _enabled(action, stages, random)
    return Schedule("random", tuple(owners), microbatches, tuple(map(tuple, ranks)))


def _enabled(action: Action, stages: int, random: Random) -> list[Action]:
    """What can be done once an action is, each thing once."""
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


@st.composite
def random_schedules(draw: st.DrawFn, ranks: int = 4, stages: int = 7, microbatches: int = 6) -> Schedule:
    """Any schedule that can be carried out, up to these numbers."""
    shape: dict[str, Any] = {
        "pp": draw(st.integers(1, ranks)),
        "stages": draw(st.integers(1, stages)),
        "microbatches": draw(st.integers(1, microbatches)),
    }
    return make_random_schedule(Random(draw(st.integers(0, 2**32))), **shape)  # noqa: S311 -- which schedule, no secret


def write_naively(schedule: Schedule, ahead: int = 0) -> str:
    """A schedule CSV with communication as one first thinks of it: each send behind its action, each receive so many actions before it.

    Receives come in the order of their uses.
    """
    owners, lines = schedule.owners, []
    for rank, actions in enumerate(schedule.ranks):
        receives: list[list[str]] = [[] for _ in actions]
        for at, (stage, kind, batch) in enumerate(actions):
            if kind == "F" and stage and owners[stage - 1] != rank:
                receives[max(0, at - ahead)].append(f"{stage}RECV_F{batch}")
            if kind in ("B", "I") and stage < len(owners) - 1 and owners[stage + 1] != rank:
                receives[max(0, at - ahead)].append(f"{stage}RECV_B{batch}")
        cells = []
        for at, (stage, kind, batch) in enumerate(actions):
            cells += [*receives[at], str(actions[at])]
            if kind == "F" and stage < len(owners) - 1 and owners[stage + 1] != rank:
                cells.append(f"{stage}SEND_F{batch}")
            if kind in ("B", "I") and stage and owners[stage - 1] != rank:
                cells.append(f"{stage}SEND_B{batch}")
        lines.append(",".join(cells) + "\n")
    return "".join(lines)
