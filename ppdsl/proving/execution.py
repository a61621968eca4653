"""Carrying out a program without time: a transfer is done when its send and its receive are both at the head of their queues.

What can happen does not depend on the order in which it is tried, so one pass decides: either every instruction is done, or the
ranks that are left wait for one another. A reduction of gradients over the copies of the pipeline changes nothing here: every copy comes
to it by the same steps.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from ppdsl.proving.content import RECEIVE, SEND, WAIT

if TYPE_CHECKING:
    from array import array

    from ppdsl.lowering.program import Program

Queue = deque[int]
"""The sends and receives that a rank has issued and that are not done, as events."""


def assign_queues(program: Program, queues: int | None, *, pairs: bool) -> tuple[list[Queue], list[Queue]]:
    """Give the queues that the sends and the receives of each message use, by the message's number divided by the microbatches.

    Args:
        program: Any program.
        queues: How many queues the channels of a rank share: in turn, as they come in the order of their (sender, receiver) ranks; None
            gives each channel its own.
        pairs: Whether both directions between two ranks are one channel.
    """
    channels = program.channels()
    if pairs:
        channels = tuple(sorted({(min(channel), max(channel)) for channel in channels}))
    made: dict[tuple[int, int], Queue] = {}
    by_channel: dict[tuple[int, tuple[int, int]], Queue] = {}
    counts = [0] * program.pp
    for channel in channels:
        for rank in channel:
            number = counts[rank] if queues is None else counts[rank] % queues
            counts[rank] += 1
            by_channel[rank, channel] = made.setdefault((rank, number), deque())
    owners = program.owners
    edges = [*zip(owners[-1:] + owners[:-1], owners, strict=True), *zip(owners[1:] + owners[:1], owners, strict=True)]
    names = [(min(edge), max(edge)) if pairs else edge for edge in edges]
    # the first stage receives no activation and the last no gradient: what stands for them there is not used
    nowhere: Queue = deque()
    sends = [by_channel.get((sender, name), nowhere) for (sender, _), name in zip(edges, names, strict=True)]
    receives = [by_channel.get((receiver, name), nowhere) for (_, receiver), name in zip(edges, names, strict=True)]
    return sends, receives


class Execution:
    """One pass over a program.

    Attributes:
        program: The program.
        events: What each rank does with messages; see ``Content``.
        position: How many of them each rank has done.
        queues: What ``assign_queues`` gives: for sends, then for receives.
    """

    def __init__(self, program: Program, events: list[array[int]], queues: int | None, *, pairs: bool) -> None:
        self.program = program
        self.events = events
        self.position = [0] * program.pp
        self.queues = assign_queues(program, queues, pairs=pairs)
        self._batches = program.microbatches
        self._receivers = program.owners * 2
        self._done = bytearray(2 * len(program.owners) * program.microbatches)
        self._blocked = [-1] * program.pp
        self._moving = [*range(program.pp)]

    def run(self) -> bool:
        """Carry out as much as can be; tell whether that is all."""
        while self._moving:
            self._advance(self._moving.pop())
        ended = all(at == len(events) for at, events in zip(self.position, self.events, strict=True))
        return ended and not any(queue for side in self.queues for queue in side)

    def _advance(self, rank: int) -> None:
        """Do a rank's events until it waits."""
        events, batches, done, queues = self.events[rank], self._batches, self._done, self.queues
        for at in range(self.position[rank], len(events)):
            event = events[at]
            message, act = event >> 2, event & 3
            if act == WAIT:
                if not done[message]:
                    self._blocked[rank], self.position[rank] = message, at
                    return
            else:
                block = message // batches
                queue = queues[act][block]
                queue.append(event)
                if queue[0] == event:
                    self._settle(queue)
        self.position[rank] = len(events)

    def _settle(self, queue: Queue) -> None:
        """Do the transfer at the head of a queue, if it is at the head of both its queues, and then what comes to the head behind it."""
        queues, batches = self.queues, self._batches
        touched = [queue]
        while touched:
            head = touched.pop()
            if not head:
                continue
            message = head[0] >> 2
            block = message // batches
            send, receive = queues[SEND][block], queues[RECEIVE][block]
            if not (send and receive and send[0] >> 2 == receive[0] >> 2 == message):
                continue
            send.popleft()
            receive.popleft()
            touched += (send, receive)
            self._done[message] = 1
            receiver = self._receivers[block]
            if self._blocked[receiver] == message:
                self._blocked[receiver] = -1
                self._moving.append(receiver)
