"""What ``ppdsl compile -o FILE`` wrote: a plan, and perhaps a program, which are compared with what else was typed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ppdsl import Plan
from ppdsl.cli.inputs import form_names
from ppdsl.cli.options import refuse
from ppdsl.lowering import Program, program_from_json
from ppdsl_runtime.commands.program import RefusedError
from ppdsl_runtime.reading import reason_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ppdsl_runtime.commands.layouts import LayoutValues


class Compiled(NamedTuple):
    """What a file holds.

    Attributes:
        plan: The layout.
        program: What each rank does, not proved yet; None where the file has none.
    """

    plan: Plan
    program: Program | None


def read_compiled(path: str, values: LayoutValues) -> Compiled:
    """Read a compiled plan.

    Args:
        path: The file.
        values: What was typed besides.

    Raises:
        click.UsageError: A layout is given as well.
        RefusedError: The file cannot be read, is damaged, or says something else than what was typed.
    """
    if form_names(values):
        refuse("--plan and a layout are given; one of them is enough")
    try:
        text = Path(path).read_text(encoding="utf-8")
        plan = Plan.from_json(text)
        program = program_from_json(text) if "schedule" in json.loads(text) else None
    except (OSError, ValueError) as error:
        raise RefusedError(f"error: cannot read the plan {path}: {reason_of(error)}") from None
    sizes = {name: getattr(plan, name) for name in ("pp", "vpp", "num_layers", "mtp_num_layers", "placement")}
    _compare(values, sizes, f"the plan {path}")
    if program is not None:
        if values["microbatch_group_size"] is not None:
            raise RefusedError(f"error: --microbatch-group-size is given, but {path} has a program")
        found = {"schedule": program.schedule, "microbatches": program.microbatches, "depth": program.depth}
        _compare(values, found, f"the program of {path}")
    return Compiled(plan, program)


def _compare(values: LayoutValues, found: Mapping[str, object], where: str) -> None:
    for name, there in found.items():
        typed = values.get(name)
        if typed is not None and typed != there:
            raise RefusedError(f"error: --{name.replace('_', '-')} is {typed}, {where} has {there}")
