"""What a command assumes of a model's costs, and of the program that it makes: options, and what is read from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from ppdsl.cli.options import all_of, number
from ppdsl.costs import UNIT_COSTS, ModelShape, costs_from_shape
from ppdsl.diagnostics import Diagnostic
from ppdsl.sizes import SIZE_RANGE, missing_sizes, size_fault

if TYPE_CHECKING:
    from typing import Any, Literal

    from ppdsl.cli.options import Values
    from ppdsl.costs import Costs
    from ppdsl.planning import Plan

    Origin = Literal["none", "shape", "file"]

    class AssumedValues(Values, total=False):
        """The values of these options."""

        costs: str | None
        warmup_samples: int | None
        hidden: int | None
        seq: int | None
        vocab: int | None
        batch: int | None
        tflops: float | None
        heads: int | None
        kv_heads: int | None
        ffn: int | None
        gated: bool
        depth: int | None
        max_actions: int | None


MOST_ACTIONS = 4_000_000
"""How many actions a schedule may have by default: with them a program takes minutes, and some GiB."""

_SHAPE = ("hidden", "seq", "vocab", "batch")
_OPTIONAL_SHAPE = ("heads", "kv_heads", "ffn")
_MOST_SIZE = 10**9
_MOST_DEPTH = 10**6
_LEAST_TFLOPS, _MOST_TFLOPS = 1e-6, 1e9


@dataclass(frozen=True, slots=True)
class Assumptions:
    """What is assumed.

    Attributes:
        costs: What layers cost.
        origin: Whether that comes from a costs ``file`` or the model's ``shape``; or ``none`` was given, and all layers cost the same.
        depth: How many actions ahead of its use a receive is posted.
        most_actions: How many actions a schedule may have.
    """

    costs: Costs
    origin: Origin
    depth: int
    most_actions: int


class Quantity(click.ParamType):  # type: ignore[type-arg]  # generic only in later versions of click
    """A number in ASCII, with or without a point. Whether it is in range is for the command to say."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:  # noqa: ANN401 -- click's signature
        """Read it, or fail with a usage error."""
        try:
            return float(value if value.isascii() and "_" not in value else "no number")
        except ValueError:
            self.fail(f"'{value[:40]}' is not a number", param, ctx)


assumption_options = all_of(
    click.option(
        "--costs",
        metavar="FILE",
        help="What layers cost: JSON (ppdsl schema costs describes it), CSV, a JSON list, a trace, or InfiniTrain's records.",
    ),
    number("--warmup-samples", "Samples of each layer that are dropped from such records, on each rank. [default: 1]"),
    number("--hidden", "Or the model's shape instead of a file: hidden size."),
    number("--seq", "Sequence length."),
    number("--vocab", "Vocabulary size."),
    number("--batch", "Sequences of a microbatch."),
    click.option("--tflops", type=Quantity(), metavar="X", help="What a rank computes, in 10^12 operations a second."),
    number("--heads", "Attention heads; needed beside --kv-heads alone."),
    number("--kv-heads", "Heads of keys and values, where queries share them."),
    number("--ffn", "Hidden size of the MLP; 4 x hidden by default."),
    click.option("--gated", is_flag=True, help="The MLP has a gate (SwiGLU)."),
    number("--depth", "Actions ahead of its use at which a receive is posted. [default: 1]"),
    number("--max-actions", f"Refuse a schedule of more actions. [default: {MOST_ACTIONS}]"),
)


def read_assumptions(values: AssumedValues, plan: Plan | None = None) -> Assumptions | tuple[Diagnostic, ...]:
    """Read what was typed, and the costs file.

    Args:
        values: What was typed.
        plan: The layout that a trace given as costs was made with; None where there is no valid one.

    Returns:
        What is assumed, or the faults that were found: PP202, PP203, PP206.
    """
    faults = [
        size_fault(flag, value, least, most)
        for flag, value, least, most in (
            *((f"--{name.replace('_', '-')}", values.get(name), 1, _MOST_SIZE) for name in (*_SHAPE, *_OPTIONAL_SHAPE)),
            ("--warmup-samples", values.get("warmup_samples"), 0, _MOST_SIZE),
            ("--depth", values.get("depth"), 0, _MOST_DEPTH),
            ("--max-actions", values.get("max_actions"), 1, _MOST_SIZE),
        )
        if isinstance(value, int) and not least <= value <= most
    ]
    shape = _read_shape(values) if not faults else None
    if isinstance(shape, Diagnostic):
        faults.append(shape)
    if faults or isinstance(shape, Diagnostic):
        return tuple(faults)
    path = values.get("costs")
    costs = UNIT_COSTS if shape is None else costs_from_shape(shape)
    if path is not None:
        from ppdsl.cli.cost_files import read_cost_files  # noqa: PLC0415 -- only where a file is given

        warmup = values.get("warmup_samples")
        read = read_cost_files(path, shape, plan, 1 if warmup is None else warmup)
        if isinstance(read, Diagnostic):
            return (read,)
        costs = read
    depth, most = values.get("depth"), values.get("max_actions")
    origin: Origin = "file" if path is not None else "none" if shape is None else "shape"
    return Assumptions(costs, origin, 1 if depth is None else depth, MOST_ACTIONS if most is None else most)


def list_read(values: AssumedValues) -> list[tuple[str, str | None]]:
    """Give the options that name files to read, and these; a pattern names all the files that it fits."""
    files = values.get("layouts", ()) if values.get("files") else ()
    path, costs = values.get("costs"), []
    if path is not None:
        from ppdsl.cli.cost_files import find_cost_files  # noqa: PLC0415 -- only where a file is given

        costs = find_cost_files(path)
    named = (("--from", values.get("launch_files", ())), ("--files", files), ("--costs", costs))
    return [(name, each) for name, paths in named for each in paths]


def _read_shape(values: AssumedValues) -> ModelShape | Diagnostic | None:
    """Give the model's shape; a fault where it is not whole; None where nothing of it was typed."""
    needed = {name: values.get(name) for name in (*_SHAPE, "tflops")}
    further = {name: values.get(name) for name in _OPTIONAL_SHAPE}
    if all(value is None for value in (*needed.values(), *further.values())) and not values.get("gated"):
        return None
    if None in needed.values():
        return missing_sizes("a model's shape", **needed)  # type: ignore[arg-type]  # whatever they are, those that are None are named
    tflops, heads, kv_heads = values.get("tflops") or 0.0, further["heads"], further["kv_heads"]
    if not _LEAST_TFLOPS <= tflops <= _MOST_TFLOPS:
        return SIZE_RANGE.report(f"--tflops is {tflops:g}, the range is {_LEAST_TFLOPS:g} to {_MOST_TFLOPS:g}")
    if isinstance(kv_heads, int):
        if not isinstance(heads, int):
            return missing_sizes("--kv-heads", heads=None)
        if heads % kv_heads:
            return SIZE_RANGE.report(f"--heads is {heads:,}, not a multiple of --kv-heads, which is {kv_heads:,}")
    return ModelShape(**needed, **further, gated=values.get("gated", False))  # type: ignore[arg-type]  # none of what is needed is None
