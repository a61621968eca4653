"""Chunks: building a rank's own, and running their forwards and backwards."""

from __future__ import annotations

from ppdsl_runtime.chunks.accumulating import MainGrads
from ppdsl_runtime.chunks.building import build
from ppdsl_runtime.chunks.deferring import Deferral, Store
from ppdsl_runtime.chunks.running import Runner, RunOptions
from ppdsl_runtime.chunks.tying import TiedWeights

__all__ = ["Deferral", "MainGrads", "RunOptions", "Runner", "Store", "TiedWeights", "build"]
