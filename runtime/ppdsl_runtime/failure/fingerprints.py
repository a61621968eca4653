"""What all ranks must have been given alike, compared before the first transfer."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple

from ppdsl._version import __version__
from ppdsl.lowering import program_to_json

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ppdsl.lowering import Program
    from ppdsl.planning.plan import Plan


class DifferenceError(RuntimeError):
    """Ranks were given different things; the text names what differs, every value, and the ranks that have it."""


class Refused(NamedTuple):
    """A program that cannot be made on this rank; the other ranks may have been given another, so it is compared like one.

    Attributes:
        schedule: The schedule that was asked for.
        microbatches: Number of microbatches.
        depth: How many actions ahead of its use a receive is posted.
        reason: Why it cannot be made.
    """

    schedule: str
    microbatches: int
    depth: int
    reason: str


def list_facts(program: Program | Refused, plan: Plan, **more: object) -> dict[str, str]:
    """List what all ranks must have alike.

    Args:
        program: The lowered program, or why there is none.
        plan: The plan.
        more: What else is to be compared, by name.

    Returns:
        Each fact as text, by its name. The versions are those of ppdsl and torch.
    """
    import torch  # noqa: PLC0415 -- the comparison itself needs none

    return {
        "version of ppdsl": __version__,
        "version of torch": torch.__version__,
        "plan": f"{plan.layout} ({plan.fingerprint})",
        "schedule": program.schedule,
        "microbatches": str(program.microbatches),
        "depth": str(program.depth),
        "program": _fingerprint(program),
    } | {name: str(value) for name, value in more.items()}


def _fingerprint(program: Program | Refused) -> str:
    if isinstance(program, Refused):
        return f"refused: {program.reason}"
    return "sha256:" + sha256(json.dumps(program_to_json(program), sort_keys=True).encode()).hexdigest()


def refuse_differences(ranks: Sequence[Mapping[str, str]]) -> None:
    """Refuse facts, given by rank, that differ.

    Raises:
        DifferenceError: A fact differs between two ranks.
    """
    names = dict.fromkeys(name for facts in ranks for name in facts)
    differences = [text for name in names if (text := _compare([facts.get(name, "missing") for facts in ranks], name))]
    if differences:
        raise DifferenceError("the ranks were given different things: " + "; ".join(differences))


def _compare(values: Sequence[str], name: str) -> str:
    """Say who has which value; nothing where all have the same."""
    holders: dict[str, list[int]] = {}
    for rank, value in enumerate(values):
        holders.setdefault(value, []).append(rank)
    if len(holders) == 1:
        return ""
    return f"{name} is " + " and ".join(f"{value} on {_write_ranks(ranks)}" for value, ranks in holders.items())


def _write_ranks(ranks: Sequence[int]) -> str:
    return f"rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, ranks))}"
