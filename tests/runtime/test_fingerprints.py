from __future__ import annotations

import re
from dataclasses import replace

import pytest

torch = pytest.importorskip("torch")  # the runtime is tested where torch is among the tests' requirements

from ppdsl import compile_layout  # noqa: E402 -- after the skip, like what needs torch
from ppdsl.lowering import lower  # noqa: E402
from ppdsl.schedules import make_schedule  # noqa: E402
from ppdsl_runtime.failure.fingerprints import DifferenceError, list_facts, refuse_differences  # noqa: E402


def facts_of(layout: str = "Et|tL", schedule: str = "1f1b", microbatches: int = 4, depth: int = 1) -> dict[str, str]:
    plan = compile_layout(layout, pp=2)
    program = lower(make_schedule(plan, schedule, microbatches), depth)
    return list_facts(program, plan, seed=3)


def test_equal_facts_are_accepted() -> None:
    refuse_differences([facts_of() for _ in range(3)])


@pytest.mark.parametrize(
    ("other", "texts"),
    [
        (facts_of(schedule="gpipe"), ["schedule is 1f1b on ranks 0, 2 and gpipe on rank 1"]),
        (facts_of(microbatches=8), ["microbatches is 4 on ranks 0, 2 and 8 on rank 1"]),
        (facts_of(depth=2), ["depth is 1 on ranks 0, 2 and 2 on rank 1"]),
        (facts_of("Ett|L"), ["plan is Et|tL (sha256:", " on ranks 0, 2 and Ett|L (sha256:"]),
        (facts_of() | {"version of torch": "1.0"}, [f"version of torch is {torch.__version__} on ranks 0, 2 and 1.0 on rank 1"]),
        (facts_of() | {"version of ppdsl": "0"}, ["version of ppdsl is ", " and 0 on rank 1"]),
        (facts_of() | {"seed": "4"}, ["seed is 3 on ranks 0, 2 and 4 on rank 1"]),
        (facts_of() | {"group": "2"}, ["group is missing on ranks 0, 2 and 2 on rank 1"]),
    ],
)
def test_a_difference_is_named_with_all_values(other: dict[str, str], texts: list[str]) -> None:
    with pytest.raises(DifferenceError, match=r"^the ranks were given different things: ") as caught:
        refuse_differences([facts_of(), other, facts_of()])
    assert all(text in str(caught.value) for text in texts)


def test_a_program_that_differs_in_its_order_alone_is_told() -> None:
    plan = compile_layout("Et|tL", pp=2)
    program = lower(make_schedule(plan, "1f1b", 2))
    swapped = replace(program, ranks=program.ranks[::-1])
    both = [list_facts(one, plan) for one in (program, swapped)]
    with pytest.raises(
        DifferenceError, match=r"^the ranks were given different things: program is sha256:\w{64} on rank 0 and sha256:\w{64} on rank 1$"
    ):
        refuse_differences(both)


def test_several_differences_are_all_named_in_one_line() -> None:
    text = "the ranks were given different things: a is 1 on rank 0 and 2 on rank 1 and 3 on rank 2; b is x on ranks 0, 2 and y on rank 1"
    with pytest.raises(DifferenceError, match=f"^{re.escape(text)}$"):
        refuse_differences([{"a": "1", "b": "x"}, {"a": "2", "b": "y"}, {"a": "3", "b": "x"}])
