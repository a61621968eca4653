"""The programs of a pipeline: lowered and proved once for each number of microbatches."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ppdsl.lowering import Program, lower
from ppdsl.proving import verify
from ppdsl.schedules import Schedule, make_schedule

if TYPE_CHECKING:
    from ppdsl.planning import Plan


class Programs:
    """Gives the program of each number of microbatches, and keeps it."""

    def __init__(
        self, plan: Plan, schedule: str | Schedule | None, *, depth: int, program: Program | None = None, queues: int | None = None
    ) -> None:
        """Make one.

        Args:
            plan: The layout.
            schedule: A schedule's name, or one that is made; None for the one that the plan has by default.
            depth: How many actions ahead of its use a receive is posted.
            program: A program that was made before, for its own number of microbatches. It is proved again.
            queues: Hardware queues that a rank's channels share; None gives each its own.

        Raises:
            ValueError: The program is not one of this plan, or is not proved.
        """
        self._plan = plan
        self._schedule = schedule
        self._depth = depth
        self._queues = queues
        self._named = schedule is not None or program is None
        self._made: dict[int, Program] = {}
        if program is not None:
            owners = tuple(chunk.pp_rank for chunk in plan.chunks)
            if program.owners != owners or program.pp != plan.pp:
                raise ValueError(f"the program's stages belong to ranks {program.owners}, those of the plan to {owners}")
            self._made[program.microbatches] = self._prove(program)

    def give(self, microbatches: int) -> Program:
        """Give the program for a number of microbatches.

        Raises:
            ValueError: There is none: the schedule is not legal for it, or the only program is for another number.
        """
        program = self._made.get(microbatches)
        if program is None:
            program = self._made[microbatches] = self._prove(lower(self._make(microbatches), self._depth))
        return program

    def _make(self, microbatches: int) -> Schedule:
        if not self._named:
            raise ValueError(f"the program is for {next(iter(self._made))} microbatches, not {microbatches}, and no schedule is named")
        if not isinstance(self._schedule, Schedule):
            return make_schedule(self._plan, self._schedule, microbatches)
        if self._schedule.microbatches != microbatches:
            raise ValueError(f"the schedule is for {self._schedule.microbatches} microbatches, not {microbatches}")
        return self._schedule

    def _prove(self, program: Program) -> Program:
        verdict = verify(program, queues=self._queues)
        if not verdict.proved:
            raise ValueError(f"the program is not proved: {verdict.faults[0].kind}: {verdict.faults[0].message}")
        return program


def hardware_queues(device: str) -> int | None:
    """Give how many hardware queues the channels of a rank share on a kind of device; None where each has its own."""
    most = os.environ.get("CUDA_DEVICE_MAX_CONNECTIONS", "")
    return int(most) if device == "cuda" and most.isdecimal() and int(most) else None
