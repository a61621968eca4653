"""What a program says of itself is judged before its instructions are, whoever made it and whatever it says."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ppdsl.lowering import Program, lower, read_program_csv
from ppdsl.proving import verify
from ppdsl.schedules.orders import one_forward_one_backward
from tests.random_schedules import random_schedules

HUGE = 10**18
FIELDS = ("forward_slots", "backward_slots", "in_flight", "send_slots")
NUMBERS = st.sampled_from([-HUGE, -1, 0, 1, 2, 9, HUGE])


def two_ranks() -> Program:
    return lower(one_forward_one_backward((0, 1), 2, 2))


@pytest.mark.parametrize(
    ("changes", "report"),
    [
        ({"forward_slots": (1,)}, "limit: forward_slots has 1 entry, the program has 2 ranks"),
        ({"in_flight": (), "send_slots": (1, 1, 1)},
         "limit: in_flight has 0 entries, the program has 2 ranks\nlimit: send_slots has 3 entries, the program has 2 ranks"),
        ({"owners": (0, 5)}, "misplaced: stage 1 belongs on rank 5, the program has 2 ranks"),
        ({"owners": (-1, 1)}, "misplaced: stage 0 belongs on rank -1, the program has 2 ranks"),
        ({"microbatches": -1}, "missing: microbatches is -1, not an integer from 0"),
        ({"microbatches": HUGE},
         "missing: 1,000,000,000,000,000,000 microbatches of each stage are more than 22 instructions can do"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_said_to_be_so(changes: dict[str, Any], report: str) -> None:
    assert str(verify(replace(two_ranks(), **changes))) == report


def test_a_program_without_ranks_has_none_for_its_stages() -> None:
    nothing: dict[str, Any] = dict.fromkeys(FIELDS, ())
    program = replace(two_ranks(), ranks=(), **nothing)
    assert str(verify(program)) == (
        "misplaced: stage 0 belongs on rank 0, the program has 0 ranks\nmisplaced: stage 1 belongs on rank 1, the program has 0 ranks"
    )


def test_buffers_of_any_number_may_be_stated() -> None:
    huge: dict[str, Any] = dict.fromkeys(FIELDS, (HUGE, HUGE))
    assert verify(replace(two_ranks(), **huge)).proved


def test_a_csv_of_one_late_microbatch_is_judged_at_once() -> None:
    report = str(verify(read_program_csv("0F999999999,0B999999999\n")))
    assert report == "missing: 1,000,000,000 microbatches of each stage are more than 2 instructions can do"


def test_of_many_microbatches_that_are_missing_the_first_are_told() -> None:
    assert str(verify(replace(two_ranks(), microbatches=400_000))).splitlines()[0] == "missing: 0F2 is never done"


@pytest.mark.parametrize("queues", [0, -1, True, 1.5])
def test_there_is_one_queue_at_least(queues: Any) -> None:  # noqa: ANN401 -- what is no such number
    with pytest.raises(ValueError, match=f"^queues is '{re.escape(str(queues))}', not an integer from 1$"):
        verify(two_ranks(), queues=queues)


@st.composite
def misstated(draw: st.DrawFn) -> Program:
    """Draw a program with one of its fields changed to something that need not fit."""
    program = lower(draw(random_schedules(ranks=3, stages=4, microbatches=3)))
    name = draw(st.sampled_from([*FIELDS, "owners", "microbatches", "ranks"]))
    if name == "ranks":
        return replace(program, ranks=program.ranks[: draw(st.integers(0, program.pp))])
    value: object = draw(NUMBERS) if name == "microbatches" else tuple(draw(st.lists(NUMBERS, max_size=4)))
    return replace(program, **{name: value})  # type: ignore[arg-type]  # the name of one of its fields


@given(misstated(), st.sampled_from([None, 1, 2]), st.booleans())
def test_every_program_has_a_verdict(program: Program, queues: int | None, pairs: bool) -> None:  # noqa: FBT001 -- drawn
    verdict = verify(program, queues=queues, pairs=pairs)
    assert verdict.proved == (str(verdict) == "proved")
