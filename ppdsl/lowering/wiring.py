"""What each action needs and makes, as flat numbers, and which results cross from rank to rank.

With C cells (stages times microbatches), the activation made by stage s for microbatch b has number ``s * microbatches + b``; the gradient
that it makes for the stage before, that plus C; and its own input gradient, which its weight gradient needs, that plus 2C. The numbers
below 2C are those of messages, where the next stage is on another rank. A stage's numbers of one kind are a block: number divided by
microbatches.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ppdsl.schedules.actions import Action, Schedule


class Channel:
    """The messages from one rank to another, and how far a pass over the schedule has come with them.

    Attributes:
        receiver: The rank that they go to.
        messages: Their numbers, in the order in which the receiver consumes them.
        settled: How many have arrived.
        time: When the last of these did.
    """

    __slots__ = ("messages", "receiver", "settled", "time")

    def __init__(self, receiver: int) -> None:
        self.receiver = receiver
        self.messages: list[int] = []
        self.settled = 0
        self.time = 0


class Wiring:
    """Tables by kind of action and stage.

    Attributes:
        batches: Number of microbatches.
        cells: Number of stages times microbatches.
        messages: One more than the highest number of a message.
        results: One more than the highest number of a result, with room for a microbatch's worth of results that nobody needs.
        needs: The number of the result that the action needs for microbatch 0; so low where it needs none that it stays negative.
        makes: The number of the result that it makes for microbatch 0.
        incoming: What carries the input; None where it comes from the rank itself.
        outgoing: What carries the output; None where it stays.
        carriers: What carries the messages of a block; something idle where there are none.
    """

    def __init__(self, schedule: Schedule) -> None:
        owners, stages, batches = schedule.owners, schedule.stages, schedule.microbatches
        self.batches = batches
        self.cells = cells = stages * batches
        self.messages = 2 * cells
        self.results = 3 * cells + batches
        firsts = [stage * batches for stage in range(stages)]
        gradients = [cells + first for first in firsts]
        needed = [*gradients[1:], *firsts[-1:]]  # the last stage's backward starts from its own forward
        self.needs = {"F": [first - batches for first in firsts], "B": needed, "I": needed, "W": [2 * cells + first for first in firsts]}
        self.makes = {"F": firsts, "B": gradients, "I": gradients, "W": [3 * cells] * stages}
        self._channels: dict[tuple[int, int], Channel] = {}
        ahead = [self._channel(before, behind) for before, behind in pairwise(owners)]
        back = [self._channel(behind, before) for before, behind in pairwise(owners)]
        nothing: list[Channel | None] = [None] * stages
        self.outgoing = {"F": [*ahead, None], "B": [None, *back], "I": [None, *back], "W": nothing}
        self.incoming = {"F": [None, *ahead], "B": [*back, None], "I": [*back, None], "W": nothing}
        idle = Channel(-1)
        self.carriers = [channel or idle for channel in (*self.outgoing["F"], *self.outgoing["B"])]

    def _channel(self, sender: int, receiver: int) -> Channel | None:
        return None if sender == receiver else self._channels.setdefault((sender, receiver), Channel(receiver))

    def read_inputs(self, actions: Iterable[Action]) -> tuple[list[int], list[int]]:
        """Find the inputs that a rank's actions need from other ranks, and give their messages to the channels.

        Returns:
            Which action needs each, and its number.
        """
        needs, incoming = self.needs, self.incoming
        uses, messages = [], []
        for at, (stage, kind, batch) in enumerate(actions):
            channel = incoming[kind][stage]
            if channel is not None:
                message = needs[kind][stage] + batch
                channel.messages.append(message)
                uses.append(at)
                messages.append(message)
        return uses, messages

    def name(self, result: int) -> tuple[int, str, int]:
        """Write a result as (stage, kind, microbatch)."""
        kind, cell = divmod(result, self.cells)
        stage, batch = divmod(cell, self.batches)
        return stage, "FBI"[kind], batch
