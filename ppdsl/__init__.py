"""The compiler for pipeline-parallel layouts: text such as ``Et*3||t*3|t*6NL`` to a checked chunk-ownership table."""

from __future__ import annotations

from ppdsl._version import __version__
from ppdsl.compiling import CheckResult, check_layout, compile_layout
from ppdsl.diagnostics import Diagnostic, LayoutError
from ppdsl.forms import FirstLast, LayerLists, OwnedChunks, Partition, RankMajor, Uniform
from ppdsl.options import Limits, Options
from ppdsl.planning import Chunk, LayerMove, Plan
from ppdsl.source import Source, Span

__all__ = [
    "CheckResult",
    "Chunk",
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
]
