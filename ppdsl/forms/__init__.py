"""The other ways to say a layout: each comes to the canonical text of one, and everything after that is the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ppdsl.forms.cost_lists import read_cost_list
from ppdsl.forms.listing import convert_layer_lists, lower_layer_lists
from ppdsl.forms.reading import read_layer_lists, read_owned_chunks, read_partition, read_rank_major
from ppdsl.forms.rules import RULES
from ppdsl.forms.splitting import lower_owned_chunks, lower_partition, lower_rank_major, lower_uniform
from ppdsl.forms.uneven import lower_first_last
from ppdsl.forms.values import CostList, FirstLast, Form, LayerLists, Lowered, OwnedChunks, Partition, RankMajor, Uniform, refuse
from ppdsl.sizes import check_sizes, conflicting_forms, missing_sizes

if TYPE_CHECKING:
    from ppdsl.options import Options

__all__ = [
    "RULES",
    "CostList",
    "FirstLast",
    "Form",
    "LayerLists",
    "Lowered",
    "OwnedChunks",
    "Partition",
    "RankMajor",
    "Uniform",
    "check_sizes",
    "conflicting_forms",
    "convert_layer_lists",
    "lower",
    "missing_sizes",
    "read_cost_list",
    "read_layer_lists",
    "read_owned_chunks",
    "read_partition",
    "read_rank_major",
]


def lower(form: Form, options: Options) -> Lowered:  # noqa: PLR0911 -- one for each form
    """Bring a form to the canonical text of its layout.

    The embedding goes into the first stage. The final norm goes into the last one, behind it the MTP layers that the options count, and
    the loss; under target megatron or mindspeed, which imply the norm, it is not written. Sizes that the form implies are filled in.

    A size that was given is never overridden. One that a partition, rank-major or cost list or uneven pipeline differs from is reported
    here. Owned chunks and layer lists are compared by the rules of meaning, as a typed layout is: PP301, PP302, PP308, PP311, PP314.

    Args:
        form: The form.
        options: The sizes that are known. Where they are out of range, that alone is reported.

    Returns:
        The text and the options to check it against, or the faults: PP201, PP202, PP203, PP207, PP208, PP209, and PP401 for more
        stages than ``options.limits.stages``. Nothing is raised.
    """
    faults = check_sizes(options)
    if faults:
        return refuse(options, *faults)
    match form:
        case Uniform():
            return lower_uniform(options)
        case Partition():
            return lower_partition(form, options)
        case OwnedChunks():
            return lower_owned_chunks(form, options)
        case FirstLast():
            return lower_first_last(form, options)
        case LayerLists():
            return lower_layer_lists(form, options)
        case RankMajor():
            return lower_rank_major(form, options)
        case CostList():
            from ppdsl.forms.balancing import lower_cost_list  # noqa: PLC0415 -- exact numbers are slow to load

            return lower_cost_list(form, options)
