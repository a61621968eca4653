"""Invalid layouts, each with the code of a fault that it surely carries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hypothesis import strategies as st

from ppdsl.strategies.cases import layouts
from ppdsl.strategies.meaning_faults import MEANING_FAULTS
from ppdsl.strategies.spelling import Choices, Style, join_tokens, spell, symbols_of, write_tokens
from ppdsl.strategies.syntax_faults import SYNTAX_FAULTS, WHOLE_TEXTS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ppdsl.options import Placement, Sizes

_UNOWNED = ("PP401", "PP404")
"""Faults that would be owners at fault first, if stages had them."""

CODES = (*SYNTAX_FAULTS, *WHOLE_TEXTS, *MEANING_FAULTS)
"""The codes of the faults that can be drawn."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """A layout that is invalid.

    Attributes:
        text: The layout.
        code: A code that must be among those reported. Other faults may come with it.
        pp: Number of pipeline ranks to check it with; None where it is to be left open.
        vpp: Virtual pipeline size to check it with; None where it is to be left open.
        num_layers: Decoder layers to check it with; None where they are to be left open.
        mtp_num_layers: Multi-token-prediction layers to check it with; None where they are to be left open.
        placement: Placement to check it with; None where the layout has owners.
    """

    text: str
    code: str
    pp: int | None = None
    vpp: int | None = None
    num_layers: int | None = None
    mtp_num_layers: int | None = None
    placement: Placement | None = None

    @property
    def sizes(self) -> Sizes:
        """The keyword arguments with which ``check_layout`` reports the code."""
        return {
            "pp": self.pp,
            "vpp": self.vpp,
            "num_layers": self.num_layers,
            "mtp_num_layers": self.mtp_num_layers,
            "placement": self.placement,
        }


@st.composite
def mutants(draw: st.DrawFn, *, codes: Iterable[str] = CODES) -> Mutant:
    """Draw invalid layouts: a valid one, to which something was done that ppdsl must report.

    Args:
        draw: Given by Hypothesis.
        codes: The faults to draw from: PP101 to PP112, PP301 to PP314 and PP401 to PP404, all by default.
    """
    code = draw(st.sampled_from([*codes]))
    if code in WHOLE_TEXTS:
        return Mutant(draw(WHOLE_TEXTS[code]), code)
    if code in MEANING_FAULTS:
        return _draw_meaning(draw, code)
    case = draw(layouts(placements=("loop",) if code in _UNOWNED else ("loop", "owners")))
    choices, style = Choices(draw), Style()
    tokens = write_tokens(choices, symbols_of(case.stages, case.owners if case.placement == "owners" else None), style)
    return Mutant(join_tokens(choices, SYNTAX_FAULTS[code](draw, tokens), style), code)


def _draw_meaning(draw: st.DrawFn, code: str) -> Mutant:
    fault = MEANING_FAULTS[code]
    case = draw(layouts(placements=fault.placements, min_pp=fault.min_pp, min_vpp=fault.min_vpp))
    stages, changes = fault.mutate(draw, case)
    text = spell(draw, stages, case.owners if case.placement == "owners" else None, Style())
    sizes = {"pp": case.pp, "num_layers": "".join(stages).count("t"), "mtp_num_layers": "".join(stages).count("m"), **changes}
    return Mutant(text, code, placement=None if case.placement == "owners" else case.placement, **sizes)
