"""The compiler for pipeline-parallel layouts: text such as ``Et*3||t*3|t*6NL`` to a checked chunk-ownership table.

Each name is loaded from its module when it is first used, so that importing the package costs next to nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ppdsl._version import __version__

if TYPE_CHECKING:
    from ppdsl.compiling import CheckResult, check_layout, compile_layout
    from ppdsl.costs import read_costs
    from ppdsl.diagnostics import Diagnostic, LayoutError
    from ppdsl.forms import CostList, FirstLast, LayerLists, OwnedChunks, Partition, RankMajor, Uniform
    from ppdsl.lowering import lower
    from ppdsl.options import Limits, Options
    from ppdsl.planning import Chunk, LayerMove, Plan
    from ppdsl.proving import verify
    from ppdsl.schedules import make_schedule
    from ppdsl.simulation import simulate
    from ppdsl.source import Source, Span

__all__ = [
    "CheckResult",
    "Chunk",
    "CostList",
    "Diagnostic",
    "FirstLast",
    "LayerLists",
    "LayerMove",
    "LayoutError",
    "Limits",
    "Options",
    "OwnedChunks",
    "Partition",
    "Plan",
    "RankMajor",
    "Source",
    "Span",
    "Uniform",
    "__version__",
    "check_layout",
    "compile_layout",
    "lower",
    "make_schedule",
    "read_costs",
    "simulate",
    "verify",
]

_HOMES = {
    **dict.fromkeys(("CheckResult", "check_layout", "compile_layout"), "compiling"),
    **dict.fromkeys(("Diagnostic", "LayoutError"), "diagnostics"),
    **dict.fromkeys(("CostList", "FirstLast", "LayerLists", "OwnedChunks", "Partition", "RankMajor", "Uniform"), "forms"),
    **dict.fromkeys(("Limits", "Options"), "options"),
    **dict.fromkeys(("Chunk", "LayerMove", "Plan"), "planning"),
    **dict.fromkeys(("Source", "Span"), "source"),
    "lower": "lowering",
    "make_schedule": "schedules",
    "read_costs": "costs",
    "simulate": "simulation",
    "verify": "proving",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415 -- only the first use of a name comes here

    value: object = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
