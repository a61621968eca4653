"""What a schedule costs, without running it: times, bubble, idle time by cause, memory, critical path."""

from __future__ import annotations

from ppdsl.schedules.timing import Durations, StuckError, Timing, time_schedule
from ppdsl.simulation.memory import follow_memory
from ppdsl.simulation.report import IdleTime, PathStep, RankReport, SimulationReport
from ppdsl.simulation.schema import SCHEMA
from ppdsl.simulation.simulating import simulate

__all__ = [
    "SCHEMA",
    "Durations",
    "IdleTime",
    "PathStep",
    "RankReport",
    "SimulationReport",
    "StuckError",
    "Timing",
    "follow_memory",
    "simulate",
    "time_schedule",
]
