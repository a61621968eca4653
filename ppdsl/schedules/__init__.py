"""Schedules: the order in which each rank does its forwards and backwards, as data, made by pure functions."""

from __future__ import annotations

from ppdsl.schedules.actions import Action, Kind, Schedule, read_action, read_csv, write_csv
from ppdsl.schedules.making import default_name, make_schedule
from ppdsl.schedules.naming import NAMES, find_obstacle
from ppdsl.schedules.timing import Durations, StuckError, Timing, time_schedule

__all__ = [
    "NAMES",
    "Action",
    "Durations",
    "Kind",
    "Schedule",
    "StuckError",
    "Timing",
    "default_name",
    "find_obstacle",
    "make_schedule",
    "read_action",
    "read_csv",
    "time_schedule",
    "write_csv",
]
