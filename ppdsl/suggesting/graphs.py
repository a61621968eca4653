"""The order of a schedule as a graph: laid out once, then timed for one layout after another, and asked for its critical path."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ppdsl.schedules.actions import Action, Schedule

KINDS = "FBIW"
"""The kinds of action, in the order in which a list of durations has them: first all stages' F, then all B, I, W, then the transfers."""


class Graph:
    """The actions of a schedule and the transfers between them, each behind what it waits for.

    A node is (the node before it on its rank or link, the node whose output it needs, how long that is on its way, number of its duration).
    Node 0 is the start of the step. A node begins when both are done, so that timing them is one pass over a list.

    Attributes:
        schedule: The schedule.
        nodes: All nodes but the start.
        lasts: The last node of each rank that has one.
        firsts: The first, as the place in ``nodes``.
    """

    __slots__ = ("_busy", "_delay", "_links", "_made", "_places", "firsts", "lasts", "nodes", "schedule")

    def __init__(self, schedule: Schedule, delay: float, busy: Sequence[float] = ()) -> None:
        """Lay out a schedule that can be carried out.

        Args:
            schedule: The schedule.
            delay: Time from the end of an action, or of its transfer, to the arrival of its output on another rank.
            busy: Time that a transfer takes up its link, by edge; empty where it takes up none.

        Raises:
            ValueError: The schedule cannot be carried out.
        """
        self.schedule = schedule
        self.nodes: list[tuple[int, int, float, int]] = []
        self._delay = delay
        self._busy = busy
        self._made: dict[tuple[int, str, int], tuple[int, float]] = {}
        self._links: dict[tuple[int, int], int] = {}
        self._places = [0] * schedule.pp
        self.firsts: list[int] = []
        self.lasts: list[int] = []
        self._lay_out()

    def _lay_out(self) -> None:
        last = [0] * self.schedule.pp
        moved = True
        while moved:
            moved = False
            for rank in range(self.schedule.pp):
                moved |= self._advance(rank, last)
        if any(place < len(actions) for place, actions in zip(self._places, self.schedule.ranks, strict=True)):
            raise ValueError(f"the schedule {self.schedule.name} cannot be carried out")
        self.lasts = [node for node in last if node]
        self._made.clear()

    def _advance(self, rank: int, last: list[int]) -> bool:
        """Add a rank's nodes until one waits for what is not made yet; tell whether there were any."""
        actions, start, stages = self.schedule.ranks[rank], self._places[rank], self.schedule.stages
        at = start
        while at < len(actions):
            source = self._source(actions[at])
            if source is None:
                break
            stage, kind, batch = actions[at]
            if not at:
                self.firsts.append(len(self.nodes))
            self.nodes.append((last[rank], *source, KINDS.index(kind) * stages + stage))
            last[rank] = len(self.nodes)
            self._note(stage, kind, batch, len(self.nodes))
            at += 1
        self._places[rank] = at
        return at > start

    def _source(self, action: Action) -> tuple[int, float] | None:
        """Give the node whose output an action needs, and how long that is on its way; None where it is not there yet."""
        stage, kind, batch = action
        if kind == "F":
            return self._made.get((stage, "F", batch)) if stage else (0, 0.0)
        return self._made.get((stage, "W" if kind == "W" else "B", batch))

    def _note(self, stage: int, kind: str, batch: int, node: int) -> None:
        """Note what an action makes for others, and send it where they are elsewhere."""
        if kind == "F":
            behind = stage + 1 < self.schedule.stages
            self._made[stage + 1 if behind else stage, "F" if behind else "B", batch] = self._send(stage, stage + 1, node)
        elif kind != "W":
            self._made[stage - 1, "B", batch] = self._send(stage, stage - 1, node)
            self._made[stage, "W", batch] = (node, 0.0)

    def _send(self, stage: int, receiver: int, node: int) -> tuple[int, float]:
        owners = self.schedule.owners
        if not 0 <= receiver < len(owners) or owners[stage] == owners[receiver]:
            return node, 0.0
        if not self._busy:
            return node, self._delay
        link = (owners[stage], owners[receiver])
        self.nodes.append((self._links.get(link, 0), node, 0.0, len(KINDS) * len(owners) + min(stage, receiver)))
        self._links[link] = len(self.nodes)
        return len(self.nodes), self._delay

    def time(self, durations: Sequence[float]) -> list[float]:
        """Give the end of each node, that of the start first.

        Args:
            durations: As ``KINDS`` says.
        """
        ends = [0.0]
        add = ends.append
        for before, source, lag, number in self.nodes:
            start, input_end = ends[before], ends[source] + lag
            add((start if start > input_end else input_end) + durations[number])  # noqa: FURB136 -- a call for each node would be felt
        return ends

    def makespan(self, ends: Sequence[float]) -> float:
        """Give the end of the last action."""
        return max((ends[node] for node in self.lasts), default=0.0)

    def span(self, ends: Sequence[float]) -> tuple[float, int]:
        """Give the largest over ranks of last end minus own first start, and the rank."""
        starts = {}
        for first in self.firsts:
            before, source, lag, number = self.nodes[first]
            starts[self._owner(number)] = max(ends[before], ends[source] + lag)
        ranks = {self._owner(self.nodes[last - 1][3]): ends[last] for last in self.lasts}
        return max(((end - starts[rank], rank) for rank, end in ranks.items()), default=(0.0, 0))

    def _owner(self, number: int) -> int:
        return self.schedule.owners[number % self.schedule.stages]

    def walk_back(self, ends: Sequence[float]) -> Iterator[int]:
        """Give the numbers of the durations on the critical path, from its end."""
        node = max(self.lasts, key=lambda last: ends[last], default=0)
        while node:
            before, source, lag, number = self.nodes[node - 1]
            yield number
            node = before if ends[before] >= ends[source] + lag else source

    def share_back(self, ends: Sequence[float], numbers: int, width: float) -> tuple[list[float], float]:
        """Walk back from the end on many paths at once, which part where two inputs arrive at nearly the same time.

        Args:
            ends: The end of each node.
            numbers: How many durations there are.
            width: An input that arrives by this much earlier than the other has no part.

        Returns:
            How much of all paths each duration is on, by number, and what the delays add: a mixture of paths.
        """
        flows = [0.0] * len(ends)
        flows[max(self.lasts, key=lambda last: ends[last], default=0)] = 1.0
        shares, lags = [0.0] * numbers, 0.0
        for node in range(len(ends) - 1, 0, -1):
            flow = flows[node]
            if flow:
                before, source, lag, number = self.nodes[node - 1]
                shares[number] += flow
                ahead = (ends[before] - ends[source] - lag) / width
                part = flow if ahead >= 1 else 0.0 if ahead <= -1 else flow * (1 + ahead) / 2
                flows[before] += part
                flows[source] += flow - part
                lags += (flow - part) * lag
        return shares, lags
