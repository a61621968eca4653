"""The zero-bubble orders of arXiv 2401.10241, with the backward split into input gradient (I) and weight gradient (W)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ppdsl.schedules.actions import Action, Schedule

if TYPE_CHECKING:
    from collections.abc import Sequence


def zb_h1(owners: Sequence[int], pp: int, microbatches: int) -> Schedule:
    """ZB-H1: the memory of 1F1B. Stage r warms up with p-1-r forwards; a W follows each I once the stage has done more than r of them.

    Raises:
        ValueError: A rank does not own exactly one stage.
    """
    return _one_chunk("zb_h1", owners, pp, microbatches, [(pp - 1 - stage, stage) for stage in range(pp)])


def zb_h2(owners: Sequence[int], pp: int, microbatches: int) -> Schedule:
    """ZB-H2: no bubble inside the span, for up to twice the memory.

    Stage r has 2(p-1-r)+1 forwards done before its first I; a W follows each I once more than 2r are done.

    Raises:
        ValueError: A rank does not own exactly one stage.
    """
    return _one_chunk("zb_h2", owners, pp, microbatches, [(2 * (pp - 1 - stage), 2 * stage) for stage in range(pp)])


def _one_chunk(name: str, owners: Sequence[int], pp: int, microbatches: int, shapes: list[tuple[int, int]]) -> Schedule:
    if sorted(owners) != [*range(pp)]:
        message = f"{name} needs one stage on each rank"
        raise ValueError(message)
    ranks: list[tuple[Action, ...]] = [()] * pp
    for stage, owner in enumerate(owners):
        warm_up, delay = shapes[stage]
        ranks[owner] = tuple(_with_delayed_weights(stage, min(warm_up, microbatches), delay, microbatches))
    return Schedule(name, tuple(owners), microbatches, tuple(ranks))


def _with_delayed_weights(stage: int, warm_up: int, delay: int, microbatches: int) -> list[Action]:
    actions = [Action(stage, "F", batch) for batch in range(warm_up)]
    weights = 0
    for batch in range(microbatches):
        if warm_up + batch < microbatches:
            actions.append(Action(stage, "F", warm_up + batch))
        actions.append(Action(stage, "I", batch))
        if batch + 1 > delay:
            actions.append(Action(stage, "W", weights))
            weights += 1
    actions += [Action(stage, "W", batch) for batch in range(weights, microbatches)]
    return actions


def zb_v(owners: Sequence[int], pp: int, microbatches: int) -> Schedule:
    """ZB-V: two chunks a rank, the second on the way back, so that a rank holds the first stage and the last.

    Raises:
        ValueError: The placement is not ``v`` with two chunks on each rank.
    """
    if tuple(owners) != (*range(pp), *reversed(range(pp))):
        message = "zb_v needs the placement v with two chunks on each rank"
        raise ValueError(message)
    ranks = tuple(tuple(_vee(rank, pp, microbatches)) for rank in range(pp))
    return Schedule("zb_v", tuple(owners), microbatches, ranks)


class _Vee:
    """One rank's actions so far; each method adds the next action of a chunk, where one is left."""

    def __init__(self, stages: tuple[int, int], microbatches: int) -> None:
        self.actions: list[Action] = []
        self._stages = stages
        self._microbatches = microbatches
        self._done = {kind: [0, 0] for kind in "FIW"}

    def add(self, *words: str) -> None:
        """Add actions: ``F0`` is the next forward of the first chunk, ``I1`` the next input gradient of the second."""
        for word in words:
            kind, chunk = word[0], int(word[1])
            done = self._done[kind]
            if done[chunk] < self._microbatches:
                self.actions.append(Action(self._stages[chunk], kind, done[chunk]))  # type: ignore[arg-type]  # one of F, I, W
                done[chunk] += 1

    def left(self, word: str) -> int:
        """How many of the actions that a word names are still to do."""
        return self._microbatches - self._done[word[0]][int(word[1])]


def _vee(rank: int, pp: int, microbatches: int) -> list[Action]:
    """One rank's order: fill both arms of the V, then turn over F, I and W of each, then drain with the W that are left."""
    rows = _Vee((rank, 2 * pp - 1 - rank), microbatches)
    for _ in range(2 * (pp - rank) - 1):
        rows.add("F0")
    for _ in range(rank):
        rows.add("F1", "F0")
    for _ in range(pp - rank):
        rows.add("F1", "I1", "W1")
    while rows.left("F1"):
        rows.add("F0", "I0", "W0", "F1", "I1", "W1")
    for _ in range(rank):
        rows.add("I0", "I1")
    while rows.left("I0"):
        rows.add("I0", "W0")
    while rows.left("W1"):
        rows.add("W1")
    while rows.left("W0"):
        rows.add("W0")
    return rows.actions
