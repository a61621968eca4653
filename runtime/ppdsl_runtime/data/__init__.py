"""Tokens to train on, and batches of them that every rank cuts alike."""

from __future__ import annotations

from ppdsl_runtime.data.batches import Batches
from ppdsl_runtime.data.tokens import TokenData, load_tokens

__all__ = ["Batches", "TokenData", "load_tokens"]
