"""Normal form to plan: the chunk-ownership table, its queries, and its JSON."""

from __future__ import annotations

from ppdsl.planning.building import build_plan
from ppdsl.planning.plan import Chunk, LayerMove, Plan

__all__ = ["Chunk", "LayerMove", "Plan", "build_plan"]
