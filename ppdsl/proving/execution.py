"""Carrying out a program without time: a transfer is done when its send and its receive are both at the head of their queues.

What can happen does not depend on the order in which it is tried, so one pass decides: either every instruction is done, or the
ranks that are left wait for one another.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from ppdsl.lowering.program import RECEIVES, SENDS, WAITS
from ppdsl.proving.faults import ProgramFault, Step

if TYPE_CHECKING:
    from ppdsl.lowering.program import Instruction, Program

Message = tuple[int, str, int]
"""A message by the stage that receives it: (stage, ``F`` or ``B``, microbatch)."""


def message_of(instruction: Instruction) -> Message:
    """Give the message that a send, receive or wait is about."""
    stage, kind, batch, _ = instruction
    if kind == "SEND_F":
        stage += 1
    elif kind == "SEND_B":
        stage -= 1
    return stage, kind[-1], batch


class _End:
    """One half of a transfer, issued by a rank: a send or a receive in a queue."""

    __slots__ = ("index", "message", "queue", "rank")

    def __init__(self, rank: int, index: int, message: Message, queue: deque[_End]) -> None:
        self.rank = rank
        self.index = index
        self.message = message
        self.queue = queue


class Execution:
    """One pass over a program.

    Attributes:
        position: Where each rank is.
    """

    def __init__(self, program: Program, queues: int | None) -> None:
        self.program = program
        self.position = [0] * program.pp
        self._queues: dict[tuple[int, int], deque[_End]] = {}
        self._numbers = {channel: number for number, channel in enumerate(program.channels())}
        self._shared = queues
        self._issued: dict[tuple[Message, bool], _End] = {}
        self._done: set[Message] = set()
        self._waiting: dict[Message, int] = {}

    def run(self) -> ProgramFault | None:
        """Carry out as much as can be; give the deadlock where not all can."""
        moving = [*range(self.program.pp)]
        while moving:
            moving += self._advance(moving.pop())
        left = [rank for rank, at in enumerate(self.position) if at < len(self.program.ranks[rank])]
        return self._explain(left[0]) if left else self._explain_undone()

    def _advance(self, rank: int) -> list[int]:
        instructions, woken = self.program.ranks[rank], []
        at = self.position[rank]
        while at < len(instructions):
            kind = instructions[at].kind
            if kind in WAITS:
                message = message_of(instructions[at])
                if message not in self._done:
                    self._waiting[message] = rank
                    break
            elif kind in SENDS or kind in RECEIVES:
                woken += self._issue(rank, at, instructions[at])
            at += 1
        self.position[rank] = at
        return woken

    def _issue(self, rank: int, at: int, instruction: Instruction) -> list[int]:
        peer = self.program.peer(instruction)
        sends = instruction.kind in SENDS
        number = self._numbers.get((rank, peer) if sends else (peer, rank), 0)
        name = number if self._shared is None else number % self._shared
        # without sharing, the two ends of a channel have a queue each; with it, all channels of a rank that share a number share a queue
        queue = self._queues.setdefault((rank, name), deque())
        end = _End(rank, at, message_of(instruction), queue)
        queue.append(end)
        self._issued[end.message, sends] = end
        return self._settle(queue)

    def _settle(self, queue: deque[_End]) -> list[int]:
        """Do the transfers that have come to the head of both queues; give the ranks that waited for them."""
        woken, touched = [], [queue]
        while touched:
            queue = touched.pop()
            if not queue:
                continue
            message = queue[0].message
            send, receive = self._issued.get((message, True)), self._issued.get((message, False))
            if send is None or receive is None or send.queue[0] is not send or receive.queue[0] is not receive:
                continue
            send.queue.popleft()
            receive.queue.popleft()
            touched += [send.queue, receive.queue]
            self._done.add(message)
            if message in self._waiting:
                woken.append(self._waiting.pop(message))
        return woken

    def _explain_undone(self) -> ProgramFault | None:
        """Every rank came to its end; a transfer that is not done then never will be."""
        for queue in self._queues.values():
            if queue:
                return self._explain_end(queue[0])
        return None

    def _explain(self, rank: int) -> ProgramFault:
        step = Step(rank, self.position[rank], self.program.ranks[rank][self.position[rank]])
        return self._follow(step)

    def _explain_end(self, end: _End) -> ProgramFault:
        return self._follow(Step(end.rank, end.index, self.program.ranks[end.rank][end.index]))

    def _follow(self, step: Step) -> ProgramFault:
        """Follow what each step waits for until it comes round."""
        path: list[Step] = []
        while step not in path:
            path.append(step)
            after = self._blocker(step)
            if after is None:
                return ProgramFault("deadlock", f"{_say(step)} waits for what never comes", tuple(path))
            step = after
        cycle = path[path.index(step) :]
        return ProgramFault("deadlock", ", which waits for ".join(map(_say, [*cycle, step])), tuple(cycle))

    def _blocker(self, step: Step) -> Step | None:
        """Give what must happen before a step: the half that is not issued yet, or what stands before it in a queue."""
        if step.instruction is None:
            return None
        message = message_of(step.instruction)
        for sends in (True, False):
            end = self._issued.get((message, sends))
            if end is None:
                rank = self._rank_of(message, sends=sends)
                at = self.position[rank]
                if at >= len(self.program.ranks[rank]):
                    return None
                return Step(rank, at, self.program.ranks[rank][at])
            if end.queue and end.queue[0] is not end:
                head = end.queue[0]
                return Step(head.rank, head.index, self.program.ranks[head.rank][head.index])
        return None

    def _rank_of(self, message: Message, *, sends: bool) -> int:
        stage, kind, _ = message
        if sends:
            stage += -1 if kind == "F" else 1
        return self.program.owners[stage]


def _say(step: Step) -> str:
    return f"{step.instruction} on rank {step.rank}"
