"""The executor: one rank's program, bound once to a flat list of calls, and walked step by step."""

from __future__ import annotations

from ppdsl_runtime.executor.binding import Binding, bind
from ppdsl_runtime.executor.buffers import Pool, Slot
from ppdsl_runtime.executor.projecting import forward_only
from ppdsl_runtime.executor.walking import Recorder, Walker

__all__ = ["Binding", "Pool", "Recorder", "Slot", "Walker", "bind", "forward_only"]
