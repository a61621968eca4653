"""The one total order of all transfers, found by carrying out the schedule with receives that are posted only so far ahead.

Every rank issues its sends and receives in this order. So a transfer waits only for transfers before it, and for actions that are done
before it: nothing can deadlock, whether each channel has a queue of its own or all channels of a rank share one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ppdsl.simulation.timing import StuckError

if TYPE_CHECKING:
    from ppdsl.schedules.actions import Action, Schedule

_UNITS = {"F": 2, "B": 4, "I": 2, "W": 2}
"""Lengths of the actions while the order is found; a program does not depend on measured costs."""


class Transfer(NamedTuple):
    """One message between two ranks.

    Attributes:
        time: When it is done, in the units of this pass; equal times are told apart by ``number``.
        number: How many were settled before it.
        stage: The stage that sends.
        kind: ``F`` an activation, to the next stage; ``B`` a gradient, to the stage before.
        microbatch: Number of the microbatch.
        sent_at: The sender's step from which it may be issued.
        posted_at: The receiver's step from which it may be issued.

    A step is 2i before the wait of a rank's action i, and 2i+1 behind that wait, before the action itself.
    """

    time: int
    number: int
    stage: int
    kind: str
    microbatch: int
    sent_at: int
    posted_at: int


class _Channel:
    """The messages from one rank to another, in the order in which the sender makes them."""

    __slots__ = ("messages", "posted", "receiver", "sent", "settled", "time")

    def __init__(self, receiver: int) -> None:
        self.receiver = receiver
        self.messages: list[tuple[int, str, int]] = []
        self.sent: list[tuple[int, int]] = []
        self.posted: list[tuple[int, int]] = []
        self.settled = 0
        self.time = 0


def order_transfers(schedule: Schedule, depth: int) -> list[Transfer]:
    """Give all transfers in their total order.

    Args:
        schedule: Any order of actions that can be carried out.
        depth: How many actions ahead of its use a receive is posted.

    Raises:
        StuckError: The schedule deadlocks by itself.
    """
    run = _Rendezvous(schedule, depth)
    moving = [*range(schedule.pp)]
    for rank in moving:
        run.post(rank, 0, 0, -1 + depth if depth else 0)
    while moving:
        moving += run.advance(moving.pop())
    run.refuse_stuck()
    return sorted(run.transfers)


class _Rendezvous:
    """One pass over a schedule in which a message arrives when it is sent, its receive is posted, and those before it have arrived."""

    def __init__(self, schedule: Schedule, depth: int) -> None:
        self.schedule = schedule
        self.depth = depth
        self.position = [0] * schedule.pp
        self.clock = [0] * schedule.pp
        self.transfers: list[Transfer] = []
        self.arrived: dict[tuple[int, str, int], int] = {}
        self.waiting: dict[tuple[int, str, int], int] = {}
        self.channels: dict[tuple[int, int], _Channel] = {}
        self.place: dict[tuple[int, str, int], int] = {}
        for rank, actions in enumerate(schedule.ranks):
            self._open_channels(rank, actions)
        self.inputs = [self._remote_inputs(rank, actions) for rank, actions in enumerate(schedule.ranks)]
        self.next_input = [0] * schedule.pp

    def _open_channels(self, rank: int, actions: tuple[Action, ...]) -> None:
        for stage, kind, batch in actions:
            receiver = self._receiver(stage, kind)
            if receiver is not None and receiver != rank:
                channel = self.channels.setdefault((rank, receiver), _Channel(receiver))
                message = (stage, "F" if kind == "F" else "B", batch)
                self.place[message] = len(channel.messages)
                channel.messages.append(message)

    def _receiver(self, stage: int, kind: str) -> int | None:
        owners = self.schedule.owners
        if kind == "F":
            return owners[stage + 1] if stage + 1 < len(owners) else None
        return owners[stage - 1] if kind != "W" and stage else None

    def needed(self, stage: int, kind: str, batch: int) -> tuple[int, str, int] | None:
        """Give the result that an action waits for, as (stage, kind, microbatch); None where it waits for none."""
        if kind == "F":
            return (stage - 1, "F", batch) if stage else None
        if kind == "W":
            return stage, "I", batch
        return (stage, "F", batch) if stage == self.schedule.stages - 1 else (stage + 1, "B", batch)

    def _remote_inputs(self, rank: int, actions: tuple[Action, ...]) -> list[tuple[int, tuple[int, str, int]]]:
        owners = self.schedule.owners
        needs = ((at, self.needed(*action)) for at, action in enumerate(actions))
        return [(at, need) for at, need in needs if need is not None and need[1] != "I" and owners[need[0]] != rank]

    def post(self, rank: int, time: int, step: int, furthest: int) -> list[int]:
        """Post the receives of a rank's actions up to ``furthest``; give the ranks that this wakes."""
        inputs, woken = self.inputs[rank], []
        while self.next_input[rank] < len(inputs) and inputs[self.next_input[rank]][0] <= furthest:
            message = inputs[self.next_input[rank]][1]
            self.next_input[rank] += 1
            place = self.place.get(message)
            if place is None:
                continue
            channel = self.channels[self.schedule.owners[message[0]], rank]
            if place >= len(channel.posted):
                channel.posted += [(time, step)] * (place + 1 - len(channel.posted))
                woken += self._settle(channel)
        return woken

    def _settle(self, channel: _Channel) -> list[int]:
        woken = []
        while channel.settled < min(len(channel.sent), len(channel.posted)):
            at = channel.settled
            (sent, sent_at), (posted, posted_at) = channel.sent[at], channel.posted[at]
            channel.time = max(sent, posted, channel.time)
            message = channel.messages[at]
            self.transfers.append(Transfer(channel.time, len(self.transfers), *message, sent_at, posted_at))
            self.arrived[message] = channel.time
            channel.settled += 1
            if message in self.waiting:
                woken.append(self.waiting.pop(message))
        return woken

    def advance(self, rank: int) -> list[int]:
        """Do a rank's actions until one waits; give the ranks that can go on."""
        actions, woken = self.schedule.ranks[rank], []
        at, clock = self.position[rank], self.clock[rank]
        while at < len(actions):
            stage, kind, batch = actions[at]
            need = self.needed(stage, kind, batch)
            if need is not None:
                if need not in self.arrived:
                    self.waiting[need] = rank
                    break
                clock = max(clock, self.arrived[need])
            if self.depth:
                woken += self.post(rank, clock, 2 * at + 1, at + self.depth)
            clock += _UNITS[kind]
            woken += self._finish(rank, actions[at], clock, 2 * at + 2)
            at += 1
            if not self.depth:
                woken += self.post(rank, clock, 2 * at, at)
        self.position[rank], self.clock[rank] = at, clock
        return woken

    def _finish(self, rank: int, action: Action, clock: int, step: int) -> list[int]:
        """Hand over what an action made: to the rank itself, or to a channel."""
        stage, kind, batch = action
        woken = []
        if kind == "I":
            self.arrived[stage, "I", batch] = clock
        receiver = self._receiver(stage, kind)
        made = (stage, "F" if kind == "F" else "B", batch)
        if receiver is not None and receiver != rank:
            channel = self.channels[rank, receiver]
            channel.sent.append((clock, step))
            return self._settle(channel)
        if kind != "W":
            self.arrived[made] = clock
            if made in self.waiting:
                woken.append(self.waiting.pop(made))
        return woken

    def refuse_stuck(self) -> None:
        """Raise where a rank has actions left."""
        waiting = {}
        for rank, at in enumerate(self.position):
            if at < len(self.schedule.ranks[rank]):
                action = self.schedule.ranks[rank][at]
                need = self.needed(*action)
                waiting[rank] = (action, need if need is not None else tuple(action))
        if waiting:
            raise StuckError(waiting)
