"""The one total order of all transfers, found by carrying out the schedule with receives that are posted only so far ahead.

Every rank issues its sends and receives in this order. So a transfer waits only for transfers before it, and for actions that are done
before it: nothing can deadlock, whether each channel has a queue of its own or all channels of a rank share one.

Each channel carries its messages in the order in which the receiver consumes them, whatever the order in which the sender makes them. So a
receive is never posted early only because its message comes before one that is needed sooner, and the receiver's buffers stay few; the
sender holds an output until those before it are sent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ppdsl.schedules.timing import StuckError

if TYPE_CHECKING:
    from ppdsl.lowering.wiring import Wiring
    from ppdsl.schedules.actions import Action, Schedule

_UNITS = {"F": 2, "B": 4, "I": 2, "W": 2}
"""Lengths of the actions while the order is found; a program does not depend on measured costs."""

_NEVER = 1 << 62
"""Behind every action of a rank."""


@dataclass(frozen=True, slots=True)
class Transfers:
    """All messages between ranks, in their total order.

    A step is 2i before the wait of a rank's action i, and 2i+1 behind that wait, before the action itself.

    Attributes:
        order: The messages.
        sent_at: The sender's step from which a message may be sent, by message.
        posted_at: The receiver's step from which its receive may be posted, by message.
    """

    order: list[int]
    sent_at: list[int]
    posted_at: list[int]


def order_transfers(schedule: Schedule, wiring: Wiring, depth: int) -> Transfers:
    """Give all transfers in their total order.

    Args:
        schedule: Any order of actions that can be carried out.
        wiring: The same schedule's.
        depth: How many actions ahead of its use a receive is posted.

    Raises:
        StuckError: The schedule deadlocks by itself.
    """
    run = _Rendezvous(schedule, wiring, depth)
    for rank in range(schedule.pp):
        run.post(rank, 0, 0, depth - 1 if depth else 0)
    while run.moving:
        run.advance(run.moving.pop())
    run.refuse_stuck()
    # equal times keep the order in which they were found, in which nothing comes before what it waits for
    order = sorted(run.settled, key=run.came.__getitem__)
    return Transfers(order, run.sent_at, run.posted_at)


class _Rendezvous:
    """One pass over a schedule in which a message arrives when it is sent, its receive is posted, and those before it have arrived.

    Attributes:
        came: When each result is at hand where it is used; -1 before.
        settled: The messages that have arrived, in the order in which that was found.
        moving: The ranks that can go on.
    """

    def __init__(self, schedule: Schedule, wiring: Wiring, depth: int) -> None:
        self.schedule = schedule
        self.wiring = wiring
        self.depth = depth
        self.came = [-1] * wiring.results
        self.settled: list[int] = []
        self.moving = [*range(schedule.pp)]
        self.sent_at = [0] * wiring.messages
        self.posted_at = [0] * wiring.messages
        self._sent = [-1] * wiring.messages
        self._posted = [-1] * wiring.messages
        self._position = [0] * schedule.pp
        self._clock = [0] * schedule.pp
        self._needed = [-1] * schedule.pp
        inputs = [wiring.read_inputs(actions) for actions in schedule.ranks]
        self._uses = [[*uses, _NEVER] for uses, _ in inputs]
        self._inputs = [messages for _, messages in inputs]
        self._next = [0] * schedule.pp

    def post(self, rank: int, time: int, step: int, furthest: int) -> None:
        """Post the receives of a rank's actions up to ``furthest``."""
        uses, inputs, at = self._uses[rank], self._inputs[rank], self._next[rank]
        while uses[at] <= furthest:
            message = inputs[at]
            at += 1
            self._posted[message] = time
            self.posted_at[message] = step
            if self._sent[message] >= 0:
                self._settle(message)
        self._next[rank] = at

    def _settle(self, message: int) -> None:
        """Let a message that is sent and posted arrive, when those before it have, and then those behind it."""
        channel = self.wiring.carriers[message // self.wiring.batches]
        messages, at, time = channel.messages, channel.settled, channel.time
        while at < len(messages):
            message = messages[at]
            sent, posted = self._sent[message], self._posted[message]
            if sent < 0 or posted < 0:
                break
            at += 1
            time = max(time, sent, posted)
            self.came[message] = time
            self.settled.append(message)
            if self._needed[channel.receiver] == message:
                self._needed[channel.receiver] = -1
                self.moving.append(channel.receiver)
        channel.settled, channel.time = at, time

    def advance(self, rank: int) -> None:
        """Do a rank's actions until one waits."""
        wiring, came, depth, uses = self.wiring, self.came, self.depth, self._uses[rank]
        needs, makes, outgoing = wiring.needs, wiring.makes, wiring.outgoing
        actions, clock = self.schedule.ranks[rank], self._clock[rank]
        for at in range(self._position[rank], len(actions)):
            stage, kind, batch = actions[at]
            need = needs[kind][stage] + batch
            if need >= 0:
                arrival = came[need]
                if arrival < 0:
                    self._needed[rank], self._position[rank], self._clock[rank] = need, at, clock
                    return
                clock = max(clock, arrival)
            if depth and uses[self._next[rank]] <= at + depth:
                self.post(rank, clock, 2 * at + 1, at + depth)
            clock += _UNITS[kind]
            made = makes[kind][stage] + batch
            if outgoing[kind][stage] is None:
                came[made] = clock
            else:
                self._sent[made], self.sent_at[made] = clock, 2 * at + 2
                if self._posted[made] >= 0:
                    self._settle(made)
            if kind == "I":
                came[made + wiring.cells] = clock
            if not depth:
                self.post(rank, clock, 2 * at + 2, at + 1)
        self._position[rank] = len(actions)

    def refuse_stuck(self) -> None:
        """Raise where a rank has actions left."""
        waiting: dict[int, tuple[Action, tuple[int, str, int]]] = {}
        for rank, at in enumerate(self._position):
            if at < len(self.schedule.ranks[rank]):
                waiting[rank] = (self.schedule.ranks[rank][at], self.wiring.name(self._needed[rank]))
        if waiting:
            raise StuckError(waiting)
