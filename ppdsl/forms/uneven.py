"""Megatron's uneven pipeline: own counts for the first and the last rank, or the embedding and the loss counted as layers."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ppdsl.formatting import MOST_COUNT
from ppdsl.forms.rules import FIRST_LAST
from ppdsl.forms.values import FirstLast, Lowered, refuse
from ppdsl.forms.writing import write_layout
from ppdsl.sizes import TWO_FORMS, missing_sizes, size_fault
from ppdsl.validation.subject import join_words, plural

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ppdsl.diagnostics import Diagnostic
    from ppdsl.forms.writing import Stretch
    from ppdsl.options import Options


def lower_first_last(form: FirstLast, options: Options) -> Lowered:
    """Deal the layers as Megatron-LM does; without a vpp each rank has one stage."""
    pp, num_layers = options.pp, options.num_layers
    if pp is None or num_layers is None:
        return refuse(options, missing_sizes("an uneven pipeline", pp=pp, num_layers=num_layers))
    faults = _check_form(form, pp)
    if faults:
        return refuse(options, *faults)
    options = replace(options, vpp=options.vpp or 1)
    if form.first is None and form.last is None:
        return _lower_accounted(form, options, pp, num_layers)
    return _lower_stated(form, options, pp, num_layers)


def _check_form(form: FirstLast, pp: int) -> list[Diagnostic]:
    """Find what is wrong with the form whatever the number of layers."""
    stated = _stated(form)
    accounted = _accounted(form, "--account-for-embedding", "--account-for-loss")
    faults = [size_fault(flag, count, 1, MOST_COUNT) for flag, count in stated if not 1 <= count <= MOST_COUNT]
    if stated and accounted:
        names = join_words([*(flag for flag, _ in stated), *accounted])
        message = f"two forms of the layout at once: {names}"
        faults.append(TWO_FORMS.report(message, help="give layer counts or account-for options, not both"))
    if not faults and pp == 1 and len({count for _, count in stated}) > 1:
        message = f"{_name(stated)} differ, and with --pp 1 one rank is both the first and the last"
        faults.append(FIRST_LAST.report(message, help="give one of them"))
    return faults


def _stated(form: FirstLast) -> list[tuple[str, int]]:
    counts = (("--first-stage-layers", form.first), ("--last-stage-layers", form.last))
    return [(flag, count) for flag, count in counts if count is not None]


def _accounted(form: FirstLast, embedding: str, loss: str) -> list[str]:
    return [name for name, chosen in ((embedding, form.account_for_embedding), (loss, form.account_for_loss)) if chosen]


def _name(stated: list[tuple[str, int]]) -> str:
    return " and ".join(f"{flag} {count:,}" for flag, count in stated)


def _lower_stated(form: FirstLast, options: Options, pp: int, num_layers: int) -> Lowered:
    """Split what the first and the last rank leave evenly over the other ranks, and each rank's layers evenly over its chunks."""
    ends = {rank: count for rank, count in ((0, form.first), (pp - 1, form.last)) if count is not None}
    others = pp - len(ends)
    left = num_layers - sum(ends.values())
    fault = _check_left(_stated(form), num_layers, left, others)
    if fault is not None:
        return refuse(options, fault)
    share = left // others if others else 0
    vpp = options.vpp or 1
    named = [(f"rank {rank:,} has", count) for rank, count in ends.items()] + ([("each other rank has", share)] if others else [])
    faults = [_undivided(who, count, vpp) for who, count in named if count % vpp]
    if faults:
        return refuse(options, *faults)
    ranks = [(ends.get(rank, share), times) for rank, times in ((0, 1), (1, pp - 2), (pp - 1, 1))] if pp > 1 else [(ends[0], 1)]
    return write_layout(pp * vpp, _deal(ranks, vpp, backwards=options.placement == "v"), options)


def _deal(ranks: list[tuple[int, int]], vpp: int, *, backwards: bool) -> Iterator[Stretch]:
    """Give the stages in forward order, from (layers of a rank, how many such ranks in a row), in the order of the ranks."""
    for chunk in range(vpp):
        for layers, times in reversed(ranks) if backwards and chunk % 2 else ranks:
            yield layers // vpp, None, times


def _check_left(stated: list[tuple[str, int]], num_layers: int, left: int, others: int) -> Diagnostic | None:
    """Check that the other ranks can share the layers that are left evenly, each having some."""
    take = f"{_name(stated)} take" if len(stated) > 1 else f"{_name(stated)} takes"
    taken = f"{num_layers - left:,} of {plural(num_layers, 'layer')}"
    if left < 0:
        message = f"{take} {plural(num_layers - left, 'layer')}, --num-layers says {num_layers:,}"
        return FIRST_LAST.report(message, help="lower the counts" if others else f"lower the counts to {num_layers:,} in all")
    if left and not others:
        message = f"{take} {taken}, and no rank is there for the other {left:,}"
        return FIRST_LAST.report(message, help=f"raise the counts to {num_layers:,} in all")
    if others and not left:
        message = f"{take} all {plural(num_layers, 'layer')}, and {plural(others, 'other rank')} would have none"
        return FIRST_LAST.report(message, help="lower the counts, or --pp")
    if others and left % others:
        message = f"{take} {taken}, and {left:,} for {plural(others, 'other rank')} leave {left % others:,} in no stage"
        return FIRST_LAST.report(message, help=f"leave a multiple of {others:,}")
    return None


def _undivided(who: str, count: int, vpp: int) -> Diagnostic:
    message = f"{who} {plural(count, 'layer')}, not a multiple of --vpp {vpp:,}: {count % vpp:,} would be in no stage"
    return FIRST_LAST.report(message, help=f"give each rank a multiple of {vpp:,}")


def _lower_accounted(form: FirstLast, options: Options, pp: int, num_layers: int) -> Lowered:
    """Split the layers evenly, where the embedding and the loss may each take the place of one."""
    vpp = options.vpp or 1
    stages = pp * vpp
    names = _accounted(form, "the embedding", "the loss")
    total = num_layers + len(names)
    share, over = divmod(total, stages)
    if over:
        what = f"{join_words([plural(num_layers, 'layer'), *names])} make {total:,}," if names else f"--num-layers {num_layers:,} is"
        fits = join_words(num_layers + change for change in (-over, stages - over) if num_layers + change >= 0)
        sizes = f"--pp {pp:,}" if vpp == 1 else f"--pp {pp:,} x --vpp {vpp:,}"
        message = f"{what} not a multiple of {sizes}: {over:,} would be in no stage"
        return refuse(options, FIRST_LAST.report(message, help=f"the nearest --num-layers that fit: {fits}"))
    first, last = share - form.account_for_embedding, share - form.account_for_loss
    stretches: list[Stretch] = [(first, None, 1), (share, None, stages - 2), (last, None, 1)]
    return write_layout(stages, stretches if stages > 1 else [(first + last - share, None, 1)], options)
