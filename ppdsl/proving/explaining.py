"""Why a program does not come to its end: sends and receives that do not pair up, and steps that wait for one another."""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING

from ppdsl.lowering.program import RECEIVES, SENDS, WAITS, Instruction
from ppdsl.proving.content import RECEIVE, SEND
from ppdsl.proving.faults import ProgramFault, Step

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ppdsl.proving.execution import Execution

Place = tuple[int, int]
"""A rank, and a number among its events."""


class Explanation:
    """What stands where in an execution that has come to a halt."""

    def __init__(self, execution: Execution) -> None:
        self.execution = execution
        self.events, self.position = execution.events, execution.position
        self.owners, self.batches = execution.program.owners, execution.program.microbatches
        self._issued: dict[int, Place] = {}
        self._coming: set[int] = set()
        for rank, (events, position) in enumerate(zip(self.events, self.position, strict=True)):
            self._issued.update((event, (rank, at)) for at, event in enumerate(events[:position]))
            self._coming.update(events[position:])
        transfers = SENDS | RECEIVES | WAITS
        ranks = execution.program.ranks
        self._indices = [[at for at, instruction in enumerate(rank) if instruction.kind in transfers] for rank in ranks]

    def _step(self, place: Place) -> Step:
        rank, at = place
        index = self._indices[rank][at]
        return Step(rank, index, self.execution.program.ranks[rank][index])

    def _half(self, message: int, act: int) -> tuple[int, Instruction]:
        """Give the rank that sends or receives a message, and the instruction by which it does."""
        block, batch = divmod(message, self.batches)
        side, stage = divmod(block, len(self.owners))
        if act == SEND:
            stage += 1 if side else -1
        return self.owners[stage], Instruction(stage, ("SEND_" if act == SEND else "RECV_") + "FB"[side], batch)

    def find_unpaired(self) -> Iterator[ProgramFault]:
        """Find the first message of each channel that is not sent and received at the same place."""
        channels: dict[tuple[int, int], tuple[list[tuple[int, Step]], list[tuple[int, Step]]]] = {}
        for rank, events in enumerate(self.events):
            for at, event in enumerate(events):
                message, act = event >> 2, event & 3
                if act in (SEND, RECEIVE):
                    channel = (self._half(message, SEND)[0], self._half(message, RECEIVE)[0])
                    channels.setdefault(channel, ([], []))[act].append((message, self._step((rank, at))))
        for channel, halves in sorted(channels.items()):
            where = f"from rank {channel[0]} to rank {channel[1]}"
            for number, (send, receive) in enumerate(zip_longest(*halves)):
                if send is None or receive is None:
                    _, step = send or receive
                    yield ProgramFault("unpaired", f"{step.instruction} {where} has no other half", (step,))
                    break
                if send[0] != receive[0]:
                    names = f"sent as {send[1].instruction} and received as {receive[1].instruction}"
                    yield ProgramFault("unpaired", f"message {number} {where} is {names}", (send[1], receive[1]))
                    break

    def find_deadlock(self) -> ProgramFault:
        """Follow what the first rank that is stuck waits for until it comes round, or never comes."""
        stuck = [(rank, at) for rank, at in enumerate(self.position) if at < len(self.events[rank])]
        place = stuck[0] if stuck else self._issued[next(queue[0] for side in self.execution.queues for queue in side if queue)]
        path: list[Place] = []
        while place not in path:
            path.append(place)
            after = self._blocker(place)
            if isinstance(after, str):
                joint = ", which " if len(path) > 1 else " "
                return ProgramFault("deadlock", self._chain(path) + joint + after, tuple(map(self._step, path)))
            place = after
        cycle = path[path.index(place) :]
        first = cycle.index(min(cycle))
        cycle = [*cycle[first:], *cycle[:first]]
        return ProgramFault("deadlock", self._chain([*cycle, cycle[0]]), tuple(map(self._step, cycle)))

    def _blocker(self, place: Place) -> Place | str:
        """Give what must happen before a step: what the other rank is at, or what stands before it in a queue; or say what never comes."""
        rank, at = place
        message = self.events[rank][at] >> 2
        for act in (SEND, RECEIVE):
            event = 4 * message + act
            owner, instruction = self._half(message, act)
            if event not in self._issued:
                blocker = (owner, self.position[owner])
                if event not in self._coming:
                    return f"waits for {instruction} on rank {owner}, which never comes"
                return f"waits for {instruction}, which comes behind it" if blocker == place else blocker
            queue = self.execution.queues[act][message // self.batches]
            if event in queue and queue[0] != event:
                return self._issued[queue[0]]
        return "has no other half"

    def _chain(self, path: list[Place]) -> str:
        steps = [f"{step.instruction} on rank {step.rank}" for step in map(self._step, path)]
        return ", which waits for ".join(steps).replace(", which", "", 1) if len(steps) > 1 else steps[0]
