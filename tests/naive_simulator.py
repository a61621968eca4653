"""A simulator that is easy to believe: a clock that goes on by one, whole numbers for times, queues looked through at each tick."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ppdsl.schedules.actions import Action, Schedule
    from ppdsl.schedules.timing import Durations

Message = tuple[int, str, int]
"""The stage that it is for, F or B, and the microbatch."""


def run_naively(schedule: Schedule, durations: Durations) -> dict[Action, tuple[int, int]] | None:
    """Give the start and the end of each action; None where they cannot all be done. All durations must be whole numbers."""
    clock = _Clock(schedule, durations)
    while clock.alive:
        clock.tick()
    return clock.times if len(clock.times) == sum(map(len, schedule.ranks)) else None


class _Clock:
    def __init__(self, schedule: Schedule, durations: Durations) -> None:
        self.schedule = schedule
        self.durations = durations
        self.now = 0
        self.times: dict[Action, tuple[int, int]] = {}
        self.running: dict[int, Action] = {}
        self.to_do = [[*actions] for actions in schedule.ranks]
        self.at_hand: set[Message] = {(0, "F", batch) for batch in range(schedule.microbatches)}
        self.on_link: dict[tuple[int, int], list[tuple[int, Message]]] = {}
        self.link_free: dict[tuple[int, int], int] = {}
        self.on_their_way: list[tuple[int, Message]] = []
        self.alive = True

    def tick(self) -> None:
        """Do all that happens now, then let a unit of time go by, unless there is nothing to wait for."""
        while any([self.finish(), self.send(), self.deliver(), self.begin()]):
            pass
        self.now += 1
        self.alive = bool(self.running or self.on_their_way or any(self.on_link.values()))

    def finish(self) -> bool:
        """End the actions that are through."""
        through = [(rank, action) for rank, action in self.running.items() if self.times[action][1] <= self.now]
        for rank, (stage, kind, batch) in through:
            del self.running[rank]
            if kind in ("B", "I"):
                self.pass_on(rank, stage - 1, ("B", batch), stage - 1)
            if kind == "I":
                self.at_hand.add((stage, "I", batch))
            if kind == "F" and stage == self.schedule.stages - 1:
                self.at_hand.add((stage, "B", batch))
            elif kind == "F":
                self.pass_on(rank, stage + 1, ("F", batch), stage)
        return bool(through)

    def pass_on(self, rank: int, stage: int, what: tuple[str, int], edge: int) -> None:
        """Hand a message to its stage, or to the link to the rank of that stage."""
        if stage < 0:
            return
        receiver, message = self.schedule.owners[stage], (stage, *what)
        if receiver == rank:
            self.at_hand.add(message)
        else:
            self.on_link.setdefault((rank, receiver), []).append((edge, message))

    def send(self) -> bool:
        """Send what stands first on each link that is free; a link that takes no time is always free."""
        busy, sent = self.durations.link_busy, False
        for link, queue in self.on_link.items():
            if queue and self.link_free.get(link, 0) <= self.now:
                edge, message = queue.pop(0)
                taken = busy[edge] if isinstance(busy, tuple) else busy
                self.link_free[link] = int(self.now + taken)
                self.on_their_way.append((int(self.now + taken + self.durations.delay), message))
                sent = True
        return sent

    def deliver(self) -> bool:
        """Take in what has arrived."""
        arrived = [entry for entry in self.on_their_way if entry[0] <= self.now]
        for entry in arrived:
            self.on_their_way.remove(entry)
            self.at_hand.add(entry[1])
        return bool(arrived)

    def begin(self) -> bool:
        """Begin the next action of each rank that is free and has the input."""
        costs = {"F": self.durations.forward, "B": self.durations.backward, "I": self.durations.input_grad, "W": self.durations.weight_grad}
        begun = False
        for rank, actions in enumerate(self.to_do):
            if actions and rank not in self.running:
                stage, kind, batch = actions[0]
                if (stage, {"F": "F", "W": "I"}.get(kind, "B"), batch) in self.at_hand:
                    self.running[rank] = actions.pop(0)
                    self.times[self.running[rank]] = (self.now, int(self.now + costs[kind][stage]))
                    begun = True
        return begun
