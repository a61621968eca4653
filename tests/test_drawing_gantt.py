"""The schedule in a terminal."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ppdsl.drawing import draw_gantt
from ppdsl.schedules.timing import time_schedule
from tests.drawn_cases import full_size, nothing, split_backwards, two_chunks, two_ranks, with_empty_stage, without_time
from tests.random_schedules import all_durations, schedules

if TYPE_CHECKING:
    from hypothesis.strategies import DataObject

ESCAPE = re.compile(r"\x1b\[[0-9;]*m")


def test_actions_with_their_microbatches() -> None:
    assert draw_gantt(*two_ranks(), 47).split("\n") == [
        "rank 0 F0F1 .......B0  F2 B1   F3..B2   ..B3   ",
        "rank 1 ....F0B0   F1B1   ..F2B2   F3B3   ......",
        "       0           5           10         17 ms",
        "F forward   B backward   . idle",
        "number: microbatch",
    ]


def test_one_letter_a_column_where_actions_have_no_room() -> None:
    assert draw_gantt(*two_ranks(), 28).split("\n") == [
        "rank 0 FF....BBBFBBF..BB.BBB",
        "rank 1 ..FBBBFBB.FBBBFFBB...",
        "       0           10  17 ms",
        "F forward   B backward",
        ". idle",
    ]


def test_backwards_in_halves() -> None:
    assert draw_gantt(*split_backwards(), 47).split("\n") == [
        "rank 0 F0  F1  ....I0  W0  F2  I1  W1  I2  W2  ",
        "rank 1 ....F0  I0  F1  I1  W0  F2  I2  W1  W2  ",
        "       0                   5              10 ms",
        "F forward   I input gradient",
        "W weight gradient   . idle   number: microbatch",
    ]


def test_chunks_in_two_cases() -> None:
    assert draw_gantt(*two_chunks(), 80).split("\n") == [
        "rank 0 F0 F1f0 f1 F2 ..b0    F3b1    f2B0    f3 B1   ...b2   ...b3   B2    B3   ",
        "rank 1 ...F0F1 f0 b0   f1 b1   F2 B0   F3 B1    f2b2    f3b3    B2   B3    .....",
        "       0             5            10            15           20            27 ms",
        "F forward   B backward   . idle   number: microbatch",
        "lower case: every second chunk",
    ]


def test_stages_that_take_next_to_no_time() -> None:
    assert draw_gantt(*with_empty_stage(), 60).split("\n") == [
        "rank 0 .....................................................",
        "rank 1 .....................................................",
        "rank 2 F0           B0            F1           B1           ",
        "       0            2            4             6     8.04 ms",
        "F forward   B backward   . idle   number: microbatch",
    ]


def test_a_rank_without_actions() -> None:
    assert draw_gantt(*nothing(), 30).split("\n") == [
        "rank 0 .......................",
        "       0                  0 ms",
        ". idle",
    ]


def test_actions_without_time() -> None:
    assert draw_gantt(*without_time(), 30).split("\n") == [
        "rank 0 .......................",
        "       0                  0 ms",
        "F forward   B backward",
        ". idle",
    ]


def test_colors() -> None:
    fills = {"F": "\x1b[38;5;16;48;5;111m", "f": "\x1b[38;5;16;48;5;68m", "B": "\x1b[38;5;16;48;5;215m", "b": "\x1b[38;5;16;48;5;172m"}
    lines = draw_gantt(*two_chunks(2), 60, color=True)
    for letter, fill in fills.items():
        lines = lines.replace(fill, f"<{letter}:")
    assert lines.replace("\x1b[0m", ">").split("\n") == [
        "rank 0 <F:F0  F1 ><f:f0  f1 >.......<b:b0     >....<b:b1     ><B:B0     B1     >",
        "rank 1 ....<F:F0 F1  ><f:f0 ><b:b0     ><f:f1  ><b:b1     ><B:B0     B1     >.......",
        "       0                 5                10           15 ms",
        "<F:F> forward   <B:B> backward   . idle   number: microbatch",
        "lower case: every second chunk",
    ]


def test_ranks_beyond_the_most_are_counted() -> None:
    lines = draw_gantt(*two_ranks(), 47, most_ranks=1).splitlines()
    assert lines[:2] == ["rank 0 F0F1 .......B0  F2 B1   F3..B2   ..B3   ", "and 1 more rank"]
    lines = draw_gantt(*full_size(4), 80, most_ranks=8).splitlines()
    assert [line[:7] for line in lines[:8]] == [f"rank {rank} " for rank in range(8)]
    assert lines[8] == "and 56 more ranks"


def test_chunks_and_kinds_mixed_where_actions_have_no_room() -> None:
    assert draw_gantt(*two_chunks(8), 60).split("\n") == [
        "rank 0 FFffF.bbFbbfBBfBBFbbbFbbfBBfBBFbbFbbfBBfBB.bb.bbbBBBB",
        "rank 1 .FFfbbfbbFBBFBBfbbbfbbFBBFBBfbbfbbFBBFBBfbbfbbbBBBB..",
        "       0                    20                   40    51 ms",
        "F forward   B backward   . idle",
        "lower case: every second chunk",
    ]


@pytest.mark.parametrize("width", [80, 140])
def test_each_kind_has_as_many_columns_as_it_takes_time(width: int) -> None:
    schedule, timing = full_size(128)
    rows = draw_gantt(schedule, timing, width).split("\n")[:64]
    column = timing.makespan / (width - 8)
    for row, actions, starts, ends in zip(rows, schedule.ranks, timing.starts, timing.ends, strict=True):
        for kind in "FIW":
            taken = sum(end - start for action, start, end in zip(actions, starts, ends, strict=True) if action.kind == kind)
            assert row[8:].upper().count(kind) == pytest.approx(taken / column, abs=2)
        assert len(row) == width


@given(st.data(), st.integers(0, 150))
def test_every_line_fits_and_color_changes_no_character(data: DataObject, width: int) -> None:
    schedule = data.draw(schedules())
    timing = time_schedule(schedule, data.draw(all_durations(schedule.stages, st.sampled_from([0.0, 0.3, 1.0, 7.0]))))
    plain = draw_gantt(schedule, timing, width)
    lines = plain.split("\n")
    columns = max(width - 7, 10)
    assert plain.isascii()
    assert [len(line) for line in lines[: schedule.pp + 1]] == [7 + columns] * (schedule.pp + 1)
    assert ESCAPE.sub("", draw_gantt(schedule, timing, width, color=True)) == plain
