"""The version of ppdsl, in one place: the build reads it from this file too."""

from __future__ import annotations

__version__ = "0.1.0"
