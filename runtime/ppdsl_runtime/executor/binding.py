"""One rank's program to a flat list of calls: nothing is looked up by name in a step."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeVar

from ppdsl_runtime.executor.ports import BackwardPort, ForwardPort
from ppdsl_runtime.executor.projecting import forward_only
from ppdsl_runtime.executor.stages import EmptyStage, LastStage, Stage

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ppdsl.lowering import Instruction, Program
    from ppdsl_runtime.chunks.running import Runner
    from ppdsl_runtime.executor.buffers import Pool
    from ppdsl_runtime.executor.edges import Edge
    from ppdsl_runtime.losses import Losses
    from ppdsl_runtime.transport.interface import Transport

PortT = TypeVar("PortT", ForwardPort, BackwardPort)

Call: TypeAlias = "tuple[Instruction, Callable[[], object]]"
"""An instruction and what carries it out."""


class Rank(NamedTuple):
    """What a rank has, whatever the program.

    Attributes:
        transport: Its end of the channels.
        runners: What runs the chunk of each of its stages, by stage.
        edges: Its ends of the cuts to other ranks, by the stage before the cut.
        activations: The pool of receive buffers for activations.
        gradients: The same for gradients.
        losses: Takes the losses.
        reduce: Called with a stage once its gradients are complete; None where nothing is to be done then.
    """

    transport: Transport
    runners: Mapping[int, Runner]
    edges: Mapping[int, Edge]
    activations: Pool
    gradients: Pool
    losses: Losses
    reduce: Callable[[int], None] | None = None


class Binding(NamedTuple):
    """A rank's program, ready to be walked.

    Attributes:
        calls: What is done, in order.
        stages: The rank's stages, by number.
        splits: Whether any of its backwards is split in two.
    """

    calls: Sequence[Call]
    stages: Mapping[int, Stage]
    splits: bool


def bind(program: Program, rank: Rank, *, train: bool) -> Binding:
    """Bind a rank's part of a program.

    Args:
        program: A program that is proved.
        rank: The rank's own things.
        train: Whether backwards are done; else only the forwards, without a graph.
    """
    instructions: Sequence[Instruction] = program.ranks[rank.transport.rank]
    if not train:
        instructions = forward_only(instructions)
    splits = any(instruction.kind == "W" for instruction in instructions)
    stages = {number: _make_stage(number, program, rank, splits=splits) for number in rank.runners}
    for stage in stages.values():
        _connect(stage, stages, program, rank)
    calls = [(instruction, _call_of(instruction, stages, rank, train=train)) for instruction in instructions]
    return Binding([(instruction, call) for instruction, call in calls if call is not None], stages, splits)


def _make_stage(number: int, program: Program, rank: Rank, *, splits: bool) -> Stage:
    runner = rank.runners[number]
    if number == len(program.owners) - 1:
        last = LastStage(number, runner, program.microbatches, splits=splits)
        last.losses = rank.losses
        return last
    kind = EmptyStage if runner.module is None else Stage
    return kind(number, runner, program.microbatches, splits=splits)


def _connect(stage: Stage, stages: Mapping[int, Stage], program: Program, rank: Rank) -> None:
    """Tie a stage to its neighbours: directly on this rank, by ports elsewhere."""
    number, owners = stage.number, program.owners
    if number:
        stage.previous = stages.get(number - 1)
        if stage.previous is None:
            stage.incoming = ForwardPort(rank.edges[number - 1], owners[number - 1], rank.transport, stage.payloads)
    if number + 1 < len(owners):
        stage.next = stages.get(number + 1)
        if stage.next is None:
            stage.outgoing = BackwardPort(rank.edges[number], owners[number + 1], rank.transport, stage.gradients)


def _call_of(instruction: Instruction, stages: Mapping[int, Stage], rank: Rank, *, train: bool) -> Callable[[], object] | None:
    """Give what carries an instruction out; None for nothing."""
    number, kind, batch, _ = instruction
    stage = stages[number]
    if kind == "REDUCE_GRAD":
        return None if rank.reduce is None else partial(rank.reduce, number)
    if kind == "F":
        return partial(stage.forward if train else stage.evaluate, batch)
    if kind == "B":
        return partial(stage.whole_backward if stage.splits else stage.backward, batch)
    if kind in ("I", "W"):
        return partial(stage.input_gradient if kind == "I" else stage.weight_gradient, batch)
    return partial(_transfer_of(instruction, stage, rank), batch)


def _transfer_of(instruction: Instruction, stage: Stage, rank: Rank) -> Callable[[int], None]:
    """Give the port's method for a send, a receive or a wait; a receive is given its buffer."""
    _, kind, batch, slot = instruction
    act, direction = kind.split("_")
    if direction == "F" and act == "SEND":
        return _there(stage.outgoing, instruction).send
    if direction == "F":
        port = _there(stage.incoming, instruction)
        if act == "WAIT":
            return port.wait
        port.use(batch, rank.activations[slot])
        return port.post
    if act == "SEND":
        return _there(stage.incoming, instruction).send
    back = _there(stage.outgoing, instruction)
    if act == "WAIT":
        return back.wait
    back.use(batch, rank.gradients[slot])
    return back.post


def _there(port: PortT | None, instruction: Instruction) -> PortT:
    if port is None:
        raise ValueError(f"{instruction} has nobody at its other end")
    return port
