"""The options of a search, and the problem that they make."""

from __future__ import annotations

import re
from dataclasses import fields, replace
from typing import TYPE_CHECKING

import click

from ppdsl.cli.assumptions import Quantity, assumption_options
from ppdsl.cli.options import Number, all_of, number, refuse
from ppdsl.costs.values import FREE, LayerCosts
from ppdsl.options import SCHEDULES, Options
from ppdsl.sizes import check_sizes, missing_sizes, size_fault
from ppdsl.suggesting import Problem

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, Literal

    from ppdsl.cli.assumptions import AssumedValues, Assumptions
    from ppdsl.costs import Costs

    class SearchValues(AssumedValues, total=False):
        """The values of these options."""

        vpp_choice: int | None
        group_choice: int | None
        placement_choice: Literal["loop", "v", "auto"]
        owners: str | None
        objective: Literal["makespan", "span"]
        min_layers: int | None
        allow_empty: bool
        unit: int | None
        layer_kinds: str | None
        factors: tuple[str, ...]
        final_norm: bool
        memory_limit: float | None


AUTO = 0
"""What stands for ``auto`` where a number is asked for."""
_MOST_MEMORY = 1e18
_MOST_FACTOR = 1e6
_RUN = re.compile(r"([A-Za-z_][A-Za-z0-9_.-]{0,39})(?:\*([0-9]{1,9}))?")
_FACTOR = re.compile(r"([A-Za-z_][A-Za-z0-9_.-]{0,39})=([0-9]+(?:\.[0-9]+)?|\.[0-9]+)")
_OWNERS = re.compile(r"[0-9]{1,7}(?:,[0-9]{1,7})*")


class Chosen(Number):
    """A whole number, or ``auto``."""

    name = "number or auto"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:  # noqa: ANN401 -- click's signature
        """Read it; ``auto`` is 0, which no size may be."""
        if value == "auto":
            return AUTO
        size = super().convert(value, param, ctx)
        if size < 1:
            self.fail(f"'{value}' is not a number from 1, nor auto", param, ctx)
        return size


search_options = all_of(
    number("--num-layers", "Decoder layers of the model."),
    number("--mtp-num-layers", "MTP layers of the model."),
    number("--pp", "Pipeline ranks."),
    click.option("--vpp", "vpp_choice", type=Chosen(), metavar="N|auto", help="Stages on a rank; 1 by default, auto: 1 to 8."),
    number("--microbatches", "Microbatches of a step."),
    click.option(
        "--microbatch-group-size",
        "group_choice",
        type=Chosen(),
        metavar="N|auto",
        help="Microbatches that a stage works through before the next; pp by default.",
    ),
    click.option(
        "--schedule",
        type=click.Choice(SCHEDULES),
        help="1f1b by default, interleaved_1f1b where vpp > 1 in a loop, else auto, which is the best.",
    ),
    click.option(
        "--placement",
        "placement_choice",
        type=click.Choice(("loop", "v", "auto")),
        default="loop",
        help="Which rank owns which stage; loop by default.",
    ),
    click.option("--owners", metavar="0,1,1,0", help="Or the rank of each stage."),
    click.option(
        "--objective", type=click.Choice(("makespan", "span")), default="makespan", help="What is to be small; makespan by default."
    ),
    number("--min-layers", "Decoder layers of each stage at least. [default: 1, and 0 beside E or L]"),
    click.option("--allow-empty", is_flag=True, help="Any stage may be empty, if that helps."),
    click.option("--group", "unit", type=Number(), metavar="N", help="Cut only behind a multiple of so many layers."),
    click.option("--kinds", "layer_kinds", metavar="dense*3,moe*58", help="Kinds of the decoder layers, in order."),
    click.option(
        "--kind", "factors", multiple=True, metavar="moe=1.5", help="What a layer of a kind costs, in layers t; 1 by default. Repeatable."
    ),
    click.option("--final-norm", is_flag=True, help="Write the N."),
    click.option("--memory-limit", type=Quantity(), metavar="BYTES", help="Memory of a rank; by default what the costs file says."),
    assumption_options,
)


def read_problem(values: SearchValues, assumptions: Assumptions) -> Problem:
    """Make the problem that was typed.

    Raises:
        click.UsageError: A value is missing or out of range, or values do not fit each other.
    """
    pp, layers, batches = values.get("pp"), values.get("num_layers"), values.get("microbatches")
    if pp is None or layers is None or batches is None:
        refuse(missing_sizes("a search", pp=pp, num_layers=layers, microbatches=batches).message)
    if values.get("allow_empty") and values.get("min_layers"):
        refuse("--allow-empty and --min-layers contradict each other")
    owners, vpp, group = _read_owners(values), values.get("vpp_choice"), values.get("group_choice")
    mtp = values.get("mtp_num_layers")
    sizes = Options(pp=pp, num_layers=layers, microbatches=batches, mtp_num_layers=mtp, vpp=vpp or None)
    _refuse_sizes(values, replace(sizes, microbatch_group_size=group or None), layers)
    try:
        return Problem(
            costs=_read_costs(values, assumptions.costs, layers),
            num_layers=layers,
            pp=pp,
            microbatches=batches,
            mtp_num_layers=mtp or 0,
            vpp=None if vpp == AUTO else vpp or 1,
            schedule=values.get("schedule"),
            placement=values.get("placement_choice", "loop"),
            owners=owners,
            group=group,
            objective=values.get("objective", "makespan"),
            min_layers=0 if values.get("allow_empty") else values.get("min_layers"),
            unit=values.get("unit") or 1,
            final_norm=values.get("final_norm", False),
            depth=assumptions.depth,
        )
    except ValueError as error:
        refuse(str(error))


def _refuse_sizes(values: SearchValues, sizes: Options, layers: int) -> None:
    faults = check_sizes(sizes)
    for flag, count, fewest in (("--min-layers", values.get("min_layers"), 0), ("--group", values.get("unit"), 1)):
        most = max(layers, fewest)
        if count is not None and not fewest <= count <= most:
            faults.append(size_fault(flag, count, fewest, most))
    for fault in faults:
        refuse(fault.message)


def _read_owners(values: SearchValues) -> tuple[int, ...] | None:
    text = values.get("owners")
    if text is None:
        return None
    if values.get("vpp_choice") is not None or values.get("placement_choice", "loop") != "loop":
        refuse("--owners says itself which rank each stage is on, so it takes no --vpp and no --placement")
    if not _OWNERS.fullmatch(text):
        refuse(f"--owners is {text[:40]!a}, not ranks with commas between them")
    return tuple(map(int, text.split(",")))


def _read_costs(values: SearchValues, costs: Costs, num_layers: int) -> Costs:
    """Bring the kinds of layers and the memory limit into the costs."""
    limit = values.get("memory_limit")
    if limit is not None:
        if not 0 < limit <= _MOST_MEMORY:
            refuse(f"--memory-limit is {limit:g}, the range is above 0 to {_MOST_MEMORY:g}")
        costs = replace(costs, memory_limit_bytes=limit)
    factors = _read_factors(values.get("factors", ()))
    text = values.get("layer_kinds")
    if text is None:
        if factors:
            refuse("--kind says what a kind costs, and no --kinds says which layers are of one")
        return costs
    if factors and costs.num_layers is not None:
        refuse("--kind says what layers cost, and so does the costs file, which has each layer on its own")
    kinds = _read_kinds(text, num_layers)
    unknown = [name for name in factors if name not in kinds]
    if unknown:
        refuse(f"--kind names {unknown[0]}, --kinds has {', '.join(dict.fromkeys(kinds))}")
    common = costs.kinds.get("t", FREE)
    scaled = {name: _scale(common, factor) for name, factor in factors.items() if factor != 1}
    own = {layer: scaled[name] for layer, name in enumerate(kinds) if name in scaled}
    if kinds and costs.kinds.get("m") == common:
        # nothing else is known of an MTP layer, which Megatron-LM models after the last decoder layer
        costs = replace(costs, kinds={**costs.kinds, "m": scaled.get(kinds[-1], common)})
    return replace(costs, layers={**own, **costs.layers})


def _read_kinds(text: str, num_layers: int) -> list[str]:
    kinds: list[str] = []
    for word in text.split(","):
        match = _RUN.fullmatch(word.strip())
        if match is None:
            refuse(f"--kinds has {word[:40]!a}, not a name or name*count")
        count = int(match[2] or 1)
        if len(kinds) + count > num_layers:
            refuse(f"--kinds has more than {num_layers} layers, as many as --num-layers says")
        kinds += [match[1]] * count
    if len(kinds) != num_layers:
        refuse(f"--kinds has {len(kinds)} layers, --num-layers says {num_layers}")
    return kinds


def _read_factors(texts: Sequence[str]) -> dict[str, float]:
    factors: dict[str, float] = {}
    for name, factor in map(_read_factor, texts):
        if name in factors:
            refuse(f"--kind names {name} twice")
        factors[name] = factor
    return factors


def _read_factor(text: str) -> tuple[str, float]:
    match = _FACTOR.fullmatch(text)
    if match is None or float(match[2]) > _MOST_FACTOR:
        refuse(f"--kind is {text[:40]!a}, not name=factor, such as moe=1.5")
    return match[1], float(match[2])


def _scale(layer: LayerCosts, factor: float) -> LayerCosts:
    return LayerCosts(**{entry.name: getattr(layer, entry.name) * factor for entry in fields(LayerCosts)})
