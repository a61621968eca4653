"""Nodes to the run-length normal form: exact counts for any layout, and its stages in runs of equal ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ppdsl.normal_form.listing import Listing, Stage, TooManyError
from ppdsl.normal_form.tally import Tally, tally

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ppdsl.nodes import Item
    from ppdsl.options import Limits

__all__ = ["NormalForm", "Stage", "Tally", "normalize"]


class NormalForm(NamedTuple):
    """A layout with its repeats resolved, but not expanded.

    Attributes:
        tally: Exact counts; always there.
        stages: The distinct stages that ``order`` counts in.
        order: (index into ``stages``, how many of it in a row), in forward order; neighbours differ. None where there are too many to list;
            then the tally alone shows why the layout is refused.
    """

    tally: Tally
    stages: tuple[Stage, ...] = ()
    order: tuple[tuple[int, int], ...] | None = None

    def runs(self) -> Iterator[tuple[int, Stage, int]]:
        """Give the runs of equal stages: number of the first stage, the stage, how many there are. Empty where unlisted."""
        number = 0
        for index, count in self.order or ():
            yield number, self.stages[index], count
            number += count

    def implied_norm_stage(self) -> int:
        """Give the stage where the final norm is when no ``N`` is written: where Megatron-LM builds it.

        That is with ``L``, or with the last ``t`` when the layout has both ``t`` and MTP layers (has_final_layernorm_in_this_stage of
        megatron-core 0.16.1).
        """
        return self._last_stage_with("t" if self.tally.count("m") and self.tally.count("t") else "L")

    def norm_stage(self) -> int:
        """Give the stage of the final norm: where ``N`` is written, else where it is implied."""
        return self._last_stage_with("N") if self.tally.count("N") else self.implied_norm_stage()

    def _last_stage_with(self, kind: str) -> int:
        number = self.tally.stages - 1
        for index, count in reversed(self.order or ()):
            if self.stages[index].count(kind):
                return number
            number -= count
        return self.tally.stages - 1


def normalize(items: tuple[Item, ...], limits: Limits) -> NormalForm:
    """Bring a layout into normal form.

    Args:
        items: What ``parse`` gave.
        limits: ``limits.stages`` bounds how many runs of equal stages are listed.
    """
    whole = tally(items)
    listing = Listing(limits.stages)
    try:
        order = listing.run(items)
    except TooManyError:
        return NormalForm(whole)
    return NormalForm(whole, tuple(listing.stages), tuple(order))
