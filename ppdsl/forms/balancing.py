"""Costs of layers to stages: one a rank, split so that the heaviest is as light as it can be."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

from ppdsl.forms.cost_lists import FIELDS, WHAT, is_cost
from ppdsl.forms.rules import ENTRIES
from ppdsl.forms.values import Lowered, refuse
from ppdsl.forms.writing import write_layout
from ppdsl.sizes import missing_sizes, show_number
from ppdsl.splitting import split_evenly
from ppdsl.validation.advice import HEAVY, IMBALANCE
from ppdsl.validation.subject import join_words, plural

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ppdsl.diagnostics import Diagnostic
    from ppdsl.forms.values import CostList
    from ppdsl.options import Options

MOST_WORK = 100_000_000
"""Decoder layers times ranks that are split: with them it takes about ten seconds."""

_MOST_FAULTS = 20


def lower_cost_list(form: CostList, options: Options) -> Lowered:
    """Split the layers into one stage a rank, each with a decoder layer at least.

    What a rank carries is then known by cost, so that it is judged by that (PP602) and not by the number of its layers.
    """
    if options.pp is None:
        return refuse(options, missing_sizes("a split by layer costs", pp=options.pp))
    if form.mtp is not None and options.mtp_num_layers is None:
        return refuse(options, missing_sizes("the cost of MTP layers", mtp_num_layers=options.mtp_num_layers))
    faults = _check_costs(form) or _check_sizes(form, options, options.pp)
    if faults:
        return refuse(options, *faults)
    first, last = _weigh_ends(form, options.mtp_num_layers or 0)
    costs = [*map(float, form.layers)]
    counts = split_evenly(costs, options.pp, first=first, last=last)
    options = replace(options, vpp=1, num_layers=len(costs))
    lowered = write_layout(len(counts), [(layers, None, 1) for layers in counts], options)
    advice = _advise(_weigh_ranks(costs, counts, first, last))
    return replace(lowered, diagnostics=(*lowered.diagnostics, *advice), judged=frozenset({IMBALANCE.code}))


def _check_costs(form: CostList) -> list[Diagnostic]:
    """Check each cost; those that were typed are right already."""
    if not form.layers:
        return [ENTRIES.report(f"the {WHAT} has no decoder layer")]
    wrong = [(f"entry {index:,}", cost, "above 0, up to") for index, cost in enumerate(form.layers, 1) if not is_cost(cost)]
    for letter, field in FIELDS.items():
        cost = getattr(form, field)
        if cost is not None and not is_cost(cost, least=0):
            wrong.append((f"`{letter}`", cost, "0 to"))
    return [
        ENTRIES.report(f"{where} of the {WHAT} is {show_number(cost)}, the range is {bounds} 1e18")
        for where, cost, bounds in wrong[:_MOST_FAULTS]
    ]


def _check_sizes(form: CostList, options: Options, pp: int) -> list[Diagnostic]:
    """Compare the costs with the sizes that were given."""
    number, faults = len(form.layers), []
    if number >= pp and number * pp > MOST_WORK:
        message = f"{WHAT} has {plural(number, 'decoder layer')}, which times --pp {pp:,} is over the limit of {MOST_WORK:,}"
        faults.append(ENTRIES.report(message))
    if options.num_layers not in {None, number}:
        message = f"{WHAT} has {plural(number, 'decoder layer')}, --num-layers says {options.num_layers:,}"
        faults.append(ENTRIES.report(message, help="write one cost for each decoder layer"))
    if options.vpp not in {None, 1}:
        message = f"a split by layer costs has one stage on each rank, --vpp says {options.vpp:,}"
        faults.append(ENTRIES.report(message, help="leave out --vpp"))
    if number < pp:
        message = f"{WHAT} has {plural(number, 'decoder layer')}, fewer than --pp {pp:,}: each rank has one at least"
        faults.append(ENTRIES.report(message, help="lower --pp"))
    return faults


def _weigh_ends(form: CostList, mtp_layers: int) -> tuple[float, float]:
    """Give what the first and the last stage bear beside decoder layers; sums are made in decimals, as the costs are written."""
    mtp = form.layers[-1] if form.mtp is None else form.mtp
    return float(form.embedding), float(_exact(mtp) * mtp_layers + _exact(form.norm) + _exact(form.loss))


def _exact(cost: float) -> Fraction:
    return Fraction(repr(float(cost)))


def _weigh_ranks(costs: Sequence[float], counts: Sequence[int], first: float, last: float) -> list[float]:
    loads, at = [], 0
    for count in counts:
        loads.append(sum(map(_exact, costs[at : at + count])))
        at += count
    loads[0] += _exact(first)
    loads[-1] += _exact(last)
    return [float(load) for load in loads]


def _advise(loads: Sequence[float]) -> list[Diagnostic]:
    """Warn of a heaviest rank that the costs leave far above the mean."""
    heaviest, mean = max(loads), sum(loads) / len(loads)
    if heaviest <= HEAVY * mean:
        return []
    ranks = [rank for rank, load in enumerate(loads) if load == heaviest]
    who = f"rank {ranks[0]:,} carries" if len(ranks) == 1 else f"ranks {join_words(ranks)} carry"
    message = f"{who} a cost of {heaviest:,.6g}, {heaviest / mean:.2f} times the mean of {mean:,.6g}"
    return [IMBALANCE.report(message, notes=["no other split into one stage a rank has a lighter heaviest rank"])]
