"""What layers of each kind cost, measured: the costs file of ``ppdsl suggest`` and ``ppdsl simulate``."""

from __future__ import annotations

from ppdsl_runtime.profiling.files import write_costs
from ppdsl_runtime.profiling.kinds import KindCosts, Workload, profile_kinds
from ppdsl_runtime.profiling.links import measure_link

__all__ = ["KindCosts", "Workload", "measure_link", "profile_kinds", "write_costs"]
