"""An even split, and lists of counts, to stages: uniform, partition, owned chunks, rank-major."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ppdsl.formatting import MOST_COUNT
from ppdsl.forms.rules import ENTRIES
from ppdsl.forms.values import Lowered, OwnedChunks, Partition, RankMajor, refuse
from ppdsl.forms.writing import write_layout
from ppdsl.placing import rank_cycle
from ppdsl.sizes import MOST_RANKS, is_whole, missing_sizes, placed_twice, show_number
from ppdsl.validation.subject import plural

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ppdsl.diagnostics import Diagnostic
    from ppdsl.options import Options

_MOST_FAULTS = 20


def lower_uniform(options: Options) -> Lowered:
    """Split ``options.num_layers`` evenly; without a vpp each rank has one stage."""
    pp, num_layers = options.pp, options.num_layers
    if pp is None or num_layers is None:
        return refuse(options, missing_sizes("an even split", pp=pp, num_layers=num_layers))
    vpp = options.vpp or 1
    stages = pp * vpp
    share, longer = divmod(num_layers, stages)
    stretches = [(share + 1, None, longer), (share, None, stages - longer)]
    return write_layout(stages, stretches, replace(options, vpp=vpp))


def lower_partition(form: Partition, options: Options) -> Lowered:
    """Give each rank its one stage."""
    what, number = "partition", len(form.layers)
    faults = _check_layers(what, form.layers, 1, options)
    if options.vpp not in {None, 1}:
        faults.append(
            ENTRIES.report(
                f"a partition has one stage on each rank, --vpp says {options.vpp}",
                help="use a rank-major list, or owned chunks, for more",
            )
        )
    if options.pp not in {None, number}:
        faults.append(ENTRIES.report(f"partition has {_entries(number)}, --pp says {options.pp}", help="write one count for each rank"))
    if faults:
        return refuse(options, *faults)
    options = replace(options, pp=number, vpp=1, num_layers=sum(form.layers))
    return write_layout(number, [(layers, None, 1) for layers in form.layers], options)


def lower_rank_major(form: RankMajor, options: Options) -> Lowered:
    """Take the chunks in forward order, which depends on the placement."""
    what, number, pp = "rank-major list", len(form.layers), options.pp
    if pp is None:
        return refuse(options, missing_sizes("a rank-major list", pp=pp))
    faults = _check_layers(what, form.layers, 0, options)
    if options.vpp is not None and number != pp * options.vpp:
        faults.append(
            ENTRIES.report(
                f"{what} has {_entries(number)}, --pp {pp} and --vpp {options.vpp} make {plural(pp * options.vpp, 'chunk')}",
                help="write one count for each chunk",
            )
        )
    elif number % pp:
        faults.append(ENTRIES.report(f"{what} has {_entries(number)}, not a multiple of --pp {pp}", help="write as many for each rank"))
    if faults:
        return refuse(options, *faults)
    vpp = number // pp
    cycle = rank_cycle(pp, options.placement or "loop")
    forward = (form.layers[cycle[stage % len(cycle)] * vpp + stage // pp] for stage in range(number))
    options = replace(options, vpp=vpp, num_layers=sum(form.layers))
    return write_layout(number, ((layers, None, 1) for layers in forward), options)


def lower_owned_chunks(form: OwnedChunks, options: Options) -> Lowered:
    """Write each stage with its owner. A pp, vpp or number of layers that was given is left for the rules of meaning to compare."""
    if options.placement is not None:
        return refuse(options, placed_twice("the form with owned chunks"))
    faults = _check_chunks(form)
    if faults:
        return refuse(options, *faults)
    pp = max(rank for rank, _ in form.chunks) + 1 if options.pp is None else options.pp
    num_layers = sum(layers for _, layers in form.chunks) if options.num_layers is None else options.num_layers
    stretches = ((layers, rank, 1) for rank, layers in form.chunks)
    return write_layout(len(form.chunks), stretches, replace(options, pp=pp, num_layers=num_layers))


def _check_layers(what: str, counts: Sequence[int], least: int, options: Options) -> list[Diagnostic]:
    """Check each count and, where all are in range, their sum."""
    if not counts:
        return [ENTRIES.report(f"the {what} has no entries")]
    wrong = [(index, count) for index, count in enumerate(counts, 1) if not is_whole(count) or not least <= count <= MOST_COUNT]
    if wrong:
        return [_entry_fault(what, index, show_number(count), "the range", least, MOST_COUNT) for index, count in wrong[:_MOST_FAULTS]]
    total = sum(counts)
    if options.num_layers in {None, total}:
        return []
    message = f"{what} has {plural(total, 'decoder layer')}, --num-layers says {options.num_layers:,}"
    return [ENTRIES.report(message, help="make the two agree")]


def _check_chunks(form: OwnedChunks) -> list[Diagnostic]:
    what = "chunk list"
    if not form.chunks:
        return [ENTRIES.report(f"the {what} has no entries")]
    faults = []
    for index, (rank, layers) in enumerate(form.chunks, 1):
        entry = f"{show_number(rank)}:{show_number(layers)}"
        if not is_whole(rank) or not 0 <= rank < MOST_RANKS:
            faults.append(_entry_fault(what, index, entry, "the range of ranks", 0, MOST_RANKS - 1))
        elif not is_whole(layers) or not 0 <= layers <= MOST_COUNT:
            faults.append(_entry_fault(what, index, entry, "the range of layers", 0, MOST_COUNT))
    return faults[:_MOST_FAULTS]


def _entry_fault(what: str, index: int, entry: str, kind: str, least: int, most: int) -> Diagnostic:  # noqa: PLR0913, PLR0917 -- parts of one sentence
    return ENTRIES.report(f"entry {index:,} of the {what} is {entry}, {kind} is {least:,} to {most:,}")


def _entries(number: int) -> str:
    return f"{number:,} entries" if number != 1 else "1 entry"
