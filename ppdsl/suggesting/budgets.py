"""How long a search may go on: counted in work, so that the same question has the same answer; by the clock where a time is given."""

from __future__ import annotations

import time

_OFTEN = 100_000
"""Steps after which the clock is looked at again."""


class ExhaustedError(Exception):
    """The budget is spent."""


class Budget:
    """What is left of the work that a search may do.

    Attributes:
        left: Steps left: one is a node of a graph that is timed, or a bound that is looked at, about 0.1 microseconds.
        deadline: The monotonic time, in seconds, at which the search ends whatever is left; None for no such time.
    """

    __slots__ = ("_unchecked", "deadline", "left")

    def __init__(self, steps: int, deadline: float | None = None) -> None:
        self.left = steps
        self.deadline = deadline
        self._unchecked = 0

    def spend(self, steps: int) -> None:
        """Take steps off what is left.

        Raises:
            ExhaustedError: Nothing is left, or the time has come.
        """
        if self.left <= 0:
            raise ExhaustedError
        self.left -= steps
        self._unchecked += steps
        if self._unchecked > _OFTEN:
            self._unchecked = 0
            self.check()

    def check(self) -> None:
        """Look at the clock.

        Raises:
            ExhaustedError: The time has come.
        """
        if self._late:
            self.left = 0
            raise ExhaustedError

    @property
    def over(self) -> bool:
        """Whether nothing is left, or the time has come."""
        return self.left <= 0 or self._late

    @property
    def _late(self) -> bool:
        return self.deadline is not None and time.monotonic() > self.deadline

    def portion(self, steps: int) -> Budget:
        """Take a part of what is left as a budget of its own; what is not spent there is given back with ``give_back``."""
        part = Budget(max(0, min(steps, self.left)), self.deadline)
        self.left -= part.left
        return part

    def give_back(self, part: Budget) -> None:
        """Take back what is left of a part."""
        self.left += max(0, part.left)
        part.left = 0
