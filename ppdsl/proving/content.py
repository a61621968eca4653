"""Whether a program does all the work, once, where it belongs, with its inputs at hand and its buffers to itself."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

from ppdsl.lowering.program import REDUCE
from ppdsl.proving.faults import FaultKind, ProgramFault, Step

if TYPE_CHECKING:
    from ppdsl.lowering.program import Instruction, Program

MOST_FAULTS = 20
"""How many faults of a kind are given at most."""

SEND, RECEIVE, WAIT = range(3)
"""What a rank does with a message."""

_F, _B, _I, _W, _POSTED_F, _POSTED_B, _HAS_F, _HAS_B = (1 << bit for bit in range(8))
"""What has happened to a cell (stage and microbatch): its work; receives posted of its activation and its gradient; these waited for."""

_GRADIENT = _B | _I
_BACKWARD = _B | _I | _W

Found = tuple[FaultKind, str] | None
"""A fault, without its place."""


class Content:
    """What one pass over each rank's instructions finds.

    Attributes:
        faults: What was found, at most ``MOST_FAULTS`` of a kind.
        events: For each rank its dealings with messages, in order: four times the number of the message, and SEND, RECEIVE or WAIT. An
            activation's number is ``stage * microbatches + microbatch`` by the stage that receives it, a gradient's that plus the number of
            cells.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self.faults: list[ProgramFault] = []
        self.events = [array("q") for _ in program.ranks]
        self.stages, self.batches = len(program.owners), program.microbatches
        self.cells = self.stages * self.batches
        self.happened = bytearray(self.cells)
        self._counts: dict[FaultKind, int] = {}
        for rank in range(program.pp):
            _RankContent(self, rank).check()
        found, self.faults = self.faults, []
        self._check_completeness()  # what is missing altogether comes first: it may be why the rest is wrong
        self.faults += found

    def add(self, kind: FaultKind, message: str, *steps: Step) -> None:
        """Note a fault."""
        self._counts[kind] = self._counts.get(kind, 0) + 1
        if self._counts[kind] <= MOST_FAULTS:
            self.faults.append(ProgramFault(kind, message, steps))

    def _check_completeness(self) -> None:
        """Every F, and B or I and W, of every stage and microbatch is there."""
        complete = bytes((bits & _F) != 0 and (bits & _BACKWARD) in (_B, _I | _W) for bits in range(256))
        done = self.happened.translate(complete)
        cell = done.find(0)
        while cell >= 0 and self._counts.get("missing", 0) < MOST_FAULTS:
            self._explain_incomplete(*divmod(cell, self.batches), self.happened[cell])
            cell = done.find(0, cell + 1)

    def _explain_incomplete(self, stage: int, batch: int, bits: int) -> None:
        if not bits & _F:
            self.add("missing", f"{stage}F{batch} is never done")
        backward = bits & _BACKWARD
        if backward == _I:
            self.add("missing", f"{stage}I{batch} is done, {stage}W{batch} never")
        elif backward == _W:
            self.add("missing", f"{stage}W{batch} is done, {stage}I{batch} never")
        elif not backward:
            self.add("missing", f"{stage}B{batch} is never done")


class _Buffers:
    """A rank's receive buffers of one kind, and the cells whose input they hold."""

    __slots__ = ("_cells", "_size", "_slots")

    def __init__(self, size: int) -> None:
        self._size = size
        self._cells: dict[int, int] = {}  # by buffer; only those in use, since a program may state any number
        self._slots: dict[int, int] = {}

    def take(self, cell: int, slot: int) -> Found:
        """Give a buffer to what a cell receives."""
        if not 0 <= slot < self._size:
            return "buffer", f"has no buffer among {self._size}"
        taken = slot in self._cells
        self._cells[slot] = cell
        self._slots[cell] = slot
        return ("buffer", "overwrites a buffer that is in use") if taken else None

    def release(self, cell: int) -> None:
        """Free the buffer of a cell, if it has one."""
        slot = self._slots.pop(cell, -1)
        if self._cells.get(slot) == cell:
            del self._cells[slot]


class _RankContent:
    """One pass over one rank's instructions.

    Each method named by a kind of instruction checks one of them, given its stage, cell and buffer, and notes what it does.
    """

    def __init__(self, content: Content, rank: int) -> None:
        program = content.program
        self.content = content
        self.rank = rank
        self.program = program
        self.batches, self.cells, self.last = content.batches, content.cells, content.stages - 1
        self.happened = content.happened
        self.add_event = content.events[rank].append
        owners = program.owners
        self.own = [owner == rank for owner in owners]
        # whether the stage before an own one, or the one behind it, is on another rank
        self.before = [owner != rank for owner in (rank, *owners[:-1])]
        self.behind = [owner != rank for owner in (*owners[1:], rank)]
        self.flying = self.unsent = 0
        self.most_flying, self.most_unsent = program.in_flight[rank], program.send_slots[rank]
        self.backwards = [0] * len(owners)
        self.reduced = [False] * len(owners)
        self.activations = _Buffers(program.forward_slots[rank])
        self.gradients = _Buffers(program.backward_slots[rank])

    def check(self) -> None:
        """Check every instruction, and that each stage's gradients are reduced."""
        batches, own = self.batches, {stage for stage, owned in enumerate(self.own) if owned}
        checks = {
            "F": self.forward,
            "B": self.backward,
            "I": self.input_gradient,
            "W": self.weight_gradient,
            "SEND_F": self.send_activation,
            "SEND_B": self.send_gradient,
            "RECV_F": self.receive_activation,
            "RECV_B": self.receive_gradient,
            "WAIT_F": self.wait_activation,
            "WAIT_B": self.wait_gradient,
        }
        for index, instruction in enumerate(self.program.ranks[self.rank]):
            stage, kind, batch, slot = instruction
            check = checks.get(kind)
            if check is not None and stage in own and 0 <= batch < batches:
                found = check(stage, stage * batches + batch, slot)
            else:
                found = self.other(instruction, known=check is not None)
            if found is not None:
                self.content.add(found[0], f"{instruction} on rank {self.rank} {found[1]}", Step(self.rank, index, instruction))
        for stage in sorted(own):
            if batches and not self.reduced[stage]:
                self.content.add("missing", f"{stage}{REDUCE} is never done")

    def other(self, instruction: Instruction, *, known: bool) -> Found:
        """Check a reduction, and refuse what is none."""
        stage, kind, batch, _ = instruction
        if not (known or (kind == REDUCE and batch == -1)):
            return "misplaced", "is no instruction"
        if not 0 <= stage <= self.last:
            return "misplaced", f"has no stage among {self.last + 1}"
        if not self.own[stage]:
            return "misplaced", f"belongs on rank {self.program.owners[stage]}"
        if kind != REDUCE:
            return "misplaced", f"has no microbatch among {self.batches}"
        if self.reduced[stage]:
            return "repeated", "is done twice"
        self.reduced[stage] = True
        return None if self.backwards[stage] == self.batches else ("unready", "comes before the last backward of its stage")

    def forward(self, stage: int, cell: int, _slot: int) -> Found:
        bits = self.happened[cell]
        if bits & _F:
            return "repeated", "is done twice"
        self.happened[cell] = bits | _F
        self.flying += 1
        if self.before[stage]:
            if not bits & _HAS_F:
                return "unready", "comes before the wait for its input"
        elif stage and not self.happened[cell - self.batches] & _F:
            return "unready", "comes before the forward of the stage before"
        if self.flying > self.most_flying:
            return "limit", f"is number {self.flying} in flight, the limit is {self.most_flying}"
        return self.make() if self.behind[stage] else None

    def backward(self, stage: int, cell: int, slot: int) -> Found:
        found = self.input_gradient(stage, cell, slot, _B)
        return found if found and found[0] == "repeated" else self.weight_gradient(stage, cell, slot, _B) or found

    def input_gradient(self, stage: int, cell: int, _slot: int, bit: int = _I) -> Found:
        bits = self.happened[cell]
        if bits & _GRADIENT or (bit == _B and bits & _W):
            return "repeated", "is done twice"
        self.happened[cell] = bits | bit
        self.flying -= 1
        self.gradients.release(cell)
        if not bits & _F:
            return "unready", "comes before its forward"
        if self.behind[stage]:
            if not bits & _HAS_B:
                return "unready", "comes before the wait for its input"
        elif stage < self.last and not self.happened[cell + self.batches] & _GRADIENT:
            return "unready", "comes before the backward of the stage behind"
        return self.make() if self.before[stage] else None

    def weight_gradient(self, stage: int, cell: int, _slot: int, bit: int = _W) -> Found:
        bits = self.happened[cell]
        if bits & (_W if bit == _B else _W | _B):
            return "repeated", "is done twice"
        self.happened[cell] = bits | bit
        self.activations.release(cell)
        self.backwards[stage] += 1
        if self.reduced[stage]:
            return "unready", "comes behind the reduction of its stage's gradients"
        return None if bits & (_I | _B) else ("unready", "comes before its input gradient")

    def make(self) -> Found:
        """Count an output that is to be sent."""
        self.unsent += 1
        if self.unsent <= self.most_unsent:
            return None
        return "limit", f"makes output number {self.unsent} that waits to be sent, the limit is {self.most_unsent}"

    def send_activation(self, stage: int, cell: int, _slot: int) -> Found:
        if not self.behind[stage]:
            return "misplaced", "has no peer"
        self.unsent -= 1
        self.add_event(4 * (cell + self.batches) + SEND)
        return None if self.happened[cell] & _F else ("unready", "comes before what it sends")

    def send_gradient(self, stage: int, cell: int, _slot: int) -> Found:
        if not self.before[stage]:
            return "misplaced", "has no peer"
        self.unsent -= 1
        self.add_event(4 * (self.cells + cell - self.batches) + SEND)
        return None if self.happened[cell] & _GRADIENT else ("unready", "comes before what it sends")

    def receive_activation(self, stage: int, cell: int, slot: int) -> Found:
        if not self.before[stage]:
            return "misplaced", "has no peer"
        self.add_event(4 * cell + RECEIVE)
        if self.happened[cell] & _POSTED_F:
            return "repeated", "is posted twice"
        self.happened[cell] |= _POSTED_F
        return self.activations.take(cell, slot)

    def receive_gradient(self, stage: int, cell: int, slot: int) -> Found:
        if not self.behind[stage]:
            return "misplaced", "has no peer"
        self.add_event(4 * (self.cells + cell) + RECEIVE)
        if self.happened[cell] & _POSTED_B:
            return "repeated", "is posted twice"
        self.happened[cell] |= _POSTED_B
        return self.gradients.take(cell, slot)

    def wait_activation(self, stage: int, cell: int, _slot: int) -> Found:
        if not self.before[stage]:
            return "misplaced", "has no peer"
        self.add_event(4 * cell + WAIT)
        bits = self.happened[cell]
        if bits & _HAS_F:
            return "repeated", "is done twice"
        self.happened[cell] = bits | _HAS_F
        return None if bits & _POSTED_F else ("unready", "comes before its receive")

    def wait_gradient(self, stage: int, cell: int, _slot: int) -> Found:
        if not self.behind[stage]:
            return "misplaced", "has no peer"
        self.add_event(4 * (self.cells + cell) + WAIT)
        bits = self.happened[cell]
        if bits & _HAS_B:
            return "repeated", "is done twice"
        self.happened[cell] = bits | _HAS_B
        return None if bits & _POSTED_B else ("unready", "comes before its receive")
