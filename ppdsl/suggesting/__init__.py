"""The search for the best layout of a model's layers, with its distance from a lower bound."""

from __future__ import annotations

from ppdsl.suggesting.answers import Answer, NoLayoutError
from ppdsl.suggesting.fronts import trade_memory
from ppdsl.suggesting.layouts import make_uniform
from ppdsl.suggesting.problem import Problem
from ppdsl.suggesting.searching import suggest

__all__ = ["Answer", "NoLayoutError", "Problem", "make_uniform", "suggest", "trade_memory"]
