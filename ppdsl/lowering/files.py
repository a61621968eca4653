"""Programs as JSON, both ways: what a plan's file says under ``schedule``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeVar

from ppdsl.lowering.program import COMPUTE, RECEIVES, REDUCE, Instruction, Program, read_instruction
from ppdsl.planning.plan import Plan
from ppdsl.schedules.actions import Action, read_action

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Item = TypeVar("Item")

BUFFERS = ("forward_slots", "backward_slots", "send_slots", "in_flight")
"""The fields of a program that count something of each rank."""


def program_to_json(program: Program) -> dict[str, object]:
    """Give a program as data that ``json.dumps`` takes: the value of ``schedule`` in a plan's file.

    Its actions stand there by themselves too, in torch's notation, for those who need no more.
    """
    return {
        "name": program.schedule,
        "microbatches": program.microbatches,
        "depth": program.depth,
        "owners": [*program.owners],
        "actions": [[*map(str, _actions_of(instructions))] for instructions in program.ranks],
        "program": [[*map(str, instructions)] for instructions in program.ranks],
        "buffers": {name: [*getattr(program, name)] for name in BUFFERS},
    }


def program_from_json(data: Mapping[str, object] | str) -> Program:
    """Read the program of a plan's file, as ``ppdsl compile --schedule`` writes it.

    It is well formed and that of the plan; whether it is right is for ``verify`` to say, which is to be asked before it is run.

    Args:
        data: The whole file, the plan included, as data or as JSON text.

    Raises:
        ValueError: The file is damaged, of a later version, or has no program; one line says what is wrong.
    """
    plan = Plan.from_json(data)
    fields = _object(_decode(data) if isinstance(data, str) else data, "schedule", "")
    program = _read_program(fields)
    owners = tuple(chunk.pp_rank for chunk in plan.chunks)
    if program.owners != owners or program.pp != plan.pp:
        raise ValueError("schedule.owners are not those of the plan")
    actions = _read_ranks(fields, "actions", read_action)
    for rank, (given, instructions) in enumerate(zip(actions, program.ranks, strict=False)):
        if given != tuple(_actions_of(instructions)):
            raise ValueError(f"schedule.actions[{rank}] are not those of schedule.program[{rank}]")
    if len(actions) != program.pp:
        raise ValueError(f"schedule.actions has {len(actions)} ranks, schedule.program {program.pp}")
    return program


def _decode(text: str) -> Mapping[str, object]:
    from json import loads  # noqa: PLC0415 -- only text needs it

    data: Mapping[str, object] = loads(text)  # it was read before, as a plan
    return data


def _actions_of(instructions: Sequence[Instruction]) -> list[Action]:
    return [Action(stage, kind, batch) for stage, kind, batch, _ in instructions if kind in COMPUTE]  # type: ignore[arg-type]  # a kind of action


def _read_program(fields: Mapping[str, object]) -> Program:
    name = _take(fields, "name", "schedule.")
    if not isinstance(name, str):
        raise _wrong("schedule.name", name, "a string")
    ranks = _read_ranks(fields, "program", read_instruction)
    counts = {each: _integers(_object(fields, "buffers", "schedule."), each, "schedule.buffers.") for each in BUFFERS}
    for each, values in counts.items():
        if len(values) != len(ranks):
            raise ValueError(f"schedule.buffers.{each} has {len(values)} entries, there are {len(ranks)} ranks")
    program = Program(
        schedule=name,
        owners=_integers(fields, "owners", "schedule."),
        microbatches=_integer(_take(fields, "microbatches", "schedule."), "schedule.microbatches", 1),
        depth=_integer(_take(fields, "depth", "schedule."), "schedule.depth"),
        ranks=ranks,
        **counts,
    )
    for rank, instructions in enumerate(ranks):
        for number, instruction in enumerate(instructions):
            fault = _find_stranger(program, rank, instruction)
            if fault is not None:
                raise ValueError(f"schedule.program[{rank}][{number}] is {str(instruction)!a}, which has {fault}")
    return program


def _find_stranger(program: Program, rank: int, instruction: Instruction) -> str | None:
    """Say what of an instruction the program does not have."""
    stage, kind, batch, slot = instruction
    if stage >= len(program.owners):
        return f"no stage among {len(program.owners)}"
    if kind != REDUCE and batch >= program.microbatches:
        return f"no microbatch among {program.microbatches}"
    if kind not in RECEIVES:
        return "a buffer" if slot >= 0 else None
    slots = program.forward_slots[rank] if kind == "RECV_F" else program.backward_slots[rank]
    return None if 0 <= slot < slots else f"no buffer among {slots}"


def _read_ranks(fields: Mapping[str, object], name: str, read: Callable[[str], Item]) -> tuple[tuple[Item, ...], ...]:
    """Read a list of texts for each rank."""
    where = f"schedule.{name}"
    ranks = []
    for rank, texts in enumerate(_list(_take(fields, name, "schedule."), where)):
        ranks.append(
            tuple(_read_text(text, f"{where}[{rank}][{number}]", read) for number, text in enumerate(_list(texts, f"{where}[{rank}]")))
        )
    return tuple(ranks)


def _read_text(text: object, where: str, read: Callable[[str], Item]) -> Item:
    if not isinstance(text, str):
        raise _wrong(where, text, "a string")
    try:
        return read(text)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None


def _integers(fields: Mapping[str, object], name: str, path: str) -> tuple[int, ...]:
    values = _list(_take(fields, name, path), path + name)
    return tuple(_integer(value, f"{path}{name}[{number}]") for number, value in enumerate(values))


def _integer(value: object, where: str, least: int = 0) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise _wrong(where, value, f"an integer from {least}")
    return value


def _list(value: object, where: str) -> Sequence[object]:
    if not isinstance(value, (list, tuple)):
        raise _wrong(where, value, "a list")
    return value


def _object(fields: Mapping[str, object], name: str, path: str) -> Mapping[str, object]:
    value = _take(fields, name, path)
    if not isinstance(value, Mapping):
        raise _wrong(path + name, value, "an object")
    return value


def _take(fields: Mapping[str, object], name: str, path: str) -> object:
    if name not in fields:
        raise ValueError(f"{path}{name} is missing")
    return fields[name]


def _wrong(where: str, value: object, wanted: str) -> ValueError:
    from ppdsl.costs.numbers import show  # noqa: PLC0415 -- only for a fault

    return ValueError(f"{where} is {show(value)}, not {wanted}")
