"""An obvious executor: runs a program on tokens, in one interleaving after another, and says whether anything went wrong.

It knows nothing of how programs are made or proved. Each rank does its instructions in order. A send takes its token along when it is
issued; it meets the receive at the same place of its channel, whatever either is labelled, and the token lands in the receive's buffer at
any moment from then on. Every action looks at the tokens that it uses.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from ppdsl.lowering import Instruction, Program

Token = tuple[str, int, int]
"""What a stage made for a microbatch: kind, stage, microbatch."""

Sharing = Literal["channels", "pairs", "ranks"]
"""What has a queue of its own at each rank: a directed channel, a pair of ranks, or the rank."""

Mood = Literal["eager", "lazy", "random"]
"""Whether tokens land at once, or only when nothing else can be done, or now and then."""


class BrokenError(Exception):
    """What went wrong."""


class _End:
    """A send or a receive that is issued."""

    def __init__(self, channel: tuple[int, int], token: Token | None, place: tuple[str, int] | None) -> None:
        self.channel = channel
        self.token = token
        self.place = place
        self.done = False


class _Rank:
    def __init__(self, program: Program, number: int) -> None:
        self.number = number
        self.instructions = program.ranks[number]
        self.at = 0
        self.made: set[Token] = set()
        self.buffers = {"F": [None] * program.forward_slots[number], "B": [None] * program.backward_slots[number]}  # type: dict[str, list[Token | None]]
        self.slots: dict[Token, int] = {}
        self.posted: dict[Token, _End] = {}
        self.queues: dict[object, list[_End]] = {}


class Run:
    """One run of a program."""

    def __init__(self, program: Program, seed: int, mood: Mood, sharing: Sharing = "channels") -> None:
        self.program = program
        self.random = Random(seed)  # noqa: S311 -- which interleaving, no secret
        self.mood = mood
        self.sharing = sharing
        self.last = len(program.owners) - 1
        self.ranks = [_Rank(program, number) for number in range(len(program.ranks))]
        self.done: dict[Token, int] = {}
        self.reduced: set[int] = set()

    def carry_out(self) -> None:
        """Do everything, or raise BrokenError."""
        while True:
            movable = [rank for rank in self.ranks if self.can_move(rank)]
            landable = self.landable()
            if self.mood == "eager" and landable:
                movable = []
            if self.mood == "lazy" and movable:
                landable = []
            choices: list[object] = [*movable, *landable]
            if not choices:
                break
            choice = self.random.choice(choices)
            if isinstance(choice, _Rank):
                self.step(choice)
            else:
                self.land(*choice)  # type: ignore[misc]  # a pair of ends
        self.check_end()

    def can_move(self, rank: _Rank) -> bool:
        if rank.at == len(rank.instructions):
            return False
        instruction = rank.instructions[rank.at]
        if not instruction.kind.startswith("WAIT"):
            return True
        end = rank.posted.get((instruction.kind[-1], instruction.stage, instruction.microbatch))
        return end is not None and end.done

    def landable(self) -> list[tuple[_End, _End]]:
        """Give the sends and receives that stand at the heads of both their queues."""
        heads = [queue[0] for rank in self.ranks for queue in rank.queues.values() if queue]
        sends = [end for end in heads if end.place is None]
        return [(send, other) for send in sends for other in heads if other.place is not None and other.channel == send.channel]

    def land(self, send: _End, receive: _End) -> None:
        sender, receiver = send.channel
        for rank, end in ((sender, send), (receiver, receive)):
            self.ranks[rank].queues[self.queue_name(end.channel)].remove(end)
            end.done = True
        if receive.place is not None:
            side, slot = receive.place
            self.ranks[receiver].buffers[side][slot] = send.token

    def queue_name(self, channel: tuple[int, int]) -> object:
        return {"channels": channel, "pairs": frozenset(channel), "ranks": None}[self.sharing]

    def step(self, rank: _Rank) -> None:
        """Do a rank's next instruction."""
        instruction = rank.instructions[rank.at]
        rank.at += 1
        kind = instruction.kind
        if kind.startswith("SEND"):
            self.send(rank, instruction)
        elif kind.startswith("RECV"):
            self.receive(rank, instruction)
        elif kind == "REDUCE_GRAD":
            self.reduce(rank, instruction)
        elif kind in ("F", "B", "I", "W"):
            self.compute(rank, instruction)

    def owner(self, stage: int) -> int:
        if not 0 <= stage <= self.last:
            raise BrokenError(f"no stage {stage}")
        return self.program.owners[stage]

    def send(self, rank: _Rank, instruction: Instruction) -> None:
        stage, kind, batch, _ = instruction
        side = kind[-1]
        token = (side, stage, batch)
        if token not in rank.made:
            raise BrokenError(f"{instruction}: nothing to send")
        channel = (rank.number, self.owner(stage + (1 if side == "F" else -1)))
        if channel[0] == channel[1]:
            raise BrokenError(f"{instruction}: to itself")
        rank.queues.setdefault(self.queue_name(channel), []).append(_End(channel, token, None))

    def receive(self, rank: _Rank, instruction: Instruction) -> None:
        stage, kind, batch, slot = instruction
        side = kind[-1]
        if self.owner(stage) != rank.number or not 0 <= slot < len(rank.buffers[side]):
            raise BrokenError(f"{instruction}: no such stage or buffer here")
        channel = (self.owner(stage - (1 if side == "F" else -1)), rank.number)
        if channel[0] == channel[1]:
            raise BrokenError(f"{instruction}: from itself")
        end = _End(channel, None, (side, slot))
        rank.posted[side, stage, batch] = end
        rank.slots[side, stage, batch] = slot
        rank.queues.setdefault(self.queue_name(channel), []).append(end)

    def use(self, rank: _Rank, side: str, stage: int, batch: int) -> None:
        """Look at the input of a stage: what the neighbouring stage made."""
        token = (side, stage - 1 if side == "F" else stage + 1, batch)
        if self.owner(token[1]) == rank.number:
            if token not in rank.made:
                raise BrokenError(f"{token} is not made")
        elif (slot := rank.slots.get((side, stage, batch))) is None or rank.buffers[side][slot] != token:
            raise BrokenError(f"{token} is not in its buffer")

    def compute(self, rank: _Rank, instruction: Instruction) -> None:
        stage, kind, batch, _ = instruction
        if self.owner(stage) != rank.number or not 0 <= batch < self.program.microbatches:
            raise BrokenError(f"{instruction}: not here")
        if stage and kind != "I":
            self.use(rank, "F", stage, batch)
        if kind in ("B", "I"):
            if ("F", stage, batch) not in rank.made:
                raise BrokenError(f"{instruction}: no forward")
            if stage < self.last:
                self.use(rank, "B", stage, batch)
        if kind == "W" and ("I", stage, batch) not in self.done:
            raise BrokenError(f"{instruction}: no input gradient")
        if kind in ("B", "W") and stage in self.reduced:
            raise BrokenError(f"{instruction}: already reduced")
        self.done[kind, stage, batch] = self.done.get((kind, stage, batch), 0) + 1
        if kind != "W":
            rank.made.add(("F" if kind == "F" else "B", stage, batch))

    def reduce(self, rank: _Rank, instruction: Instruction) -> None:
        stage = instruction.stage
        if instruction.microbatch != -1 or self.owner(stage) != rank.number or stage in self.reduced:
            raise BrokenError(f"{instruction}: not to be reduced")
        self.reduced.add(stage)

    def check_end(self) -> None:
        if any(rank.at < len(rank.instructions) for rank in self.ranks):
            raise BrokenError("stuck")
        if any(queue for rank in self.ranks for queue in rank.queues.values()):
            raise BrokenError("messages left")
        if self.reduced != {*range(self.last + 1)} or any(times > 1 for times in self.done.values()):
            raise BrokenError("not reduced, or done twice")
        for stage in range(self.last + 1):
            for batch in range(self.program.microbatches):
                kinds = "".join(kind for kind in "FBIW" if (kind, stage, batch) in self.done)
                if kinds not in ("FB", "FIW"):
                    raise BrokenError(f"stage {stage}, microbatch {batch}: {kinds}")


def find_break(program: Program, sharing: Sharing = "channels", runs: int = 6) -> str | None:
    """Give what goes wrong in some interleaving; None where all that are tried go well."""
    moods: list[Mood] = ["eager", "lazy"]
    found = (_try_run(program, seed, moods[seed] if seed < len(moods) else "random", sharing) for seed in range(runs))
    return next((fault for fault in found if fault is not None), None)


def _try_run(program: Program, seed: int, mood: Mood, sharing: Sharing) -> str | None:
    try:
        Run(program, seed, mood, sharing).carry_out()
    except BrokenError as fault:
        return str(fault)
    return None
