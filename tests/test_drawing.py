"""What the pictures share: colours, axes, shares of columns."""

from __future__ import annotations

from itertools import combinations, pairwise
from math import dist, isclose
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ppdsl.drawing.axes import choose_ticks, say_time
from ppdsl.drawing.colors import INK, KINDS, NAMES, color_of
from ppdsl.drawing.shares import share_columns

if TYPE_CHECKING:
    from collections.abc import Sequence

Color = tuple[float, ...]

# Machado, Oliveira and Fernandes 2009, the whole loss of one kind of cone; the rows give red, green and blue, of linear colours
SIGHTS = {
    "all cones": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protanopia": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deuteranopia": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.01182, 0.04294, 0.968881)),
    "tritanopia": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.3039)),
}


def times(matrix: Sequence[Sequence[float]], color: Color) -> Color:
    return tuple(sum(factor * part for factor, part in zip(row, color, strict=True)) for row in matrix)


def linear(fill: str) -> Color:
    parts = (int(fill[at : at + 2], 16) / 255 for at in (1, 3, 5))
    return tuple(part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)


def oklab(color: Color) -> Color:
    cones = times(((0.4122215, 0.5363325, 0.051446), (0.2119035, 0.6806995, 0.107397), (0.0883025, 0.2817188, 0.6299787)), color)
    roots = tuple(max(cone, 0.0) ** (1 / 3) for cone in cones)
    return times(((0.2104543, 0.7936178, -0.004072), (1.9779985, -2.4285922, 0.4505937), (0.025904, 0.7827718, -0.8086758)), roots)


def luminance(fill: str) -> float:
    return sum(factor * part for factor, part in zip((0.2126, 0.7152, 0.0722), linear(fill), strict=True))


@pytest.mark.parametrize("sight", SIGHTS)
@pytest.mark.parametrize("pair", ["FB", "FI", "FW", "IW"])  # those of which one schedule is full
def test_kinds_differ_in_every_shade_also_for_those_who_see_few_colors(sight: str, pair: str) -> None:
    one, other = (
        [oklab(tuple(min(max(part, 0.0), 1.0) for part in times(SIGHTS[sight], linear(color_of(kind, chunk, 5))))) for chunk in range(5)]
        for kind in pair
    )
    assert min(dist(first, second) for first in one for second in other) > 0.1


@pytest.mark.parametrize("kind", KINDS)
def test_dark_text_can_be_read_on_every_fill(kind: str) -> None:
    for chunk in range(5):
        contrast = (luminance(color_of(kind, chunk, 5)) + 0.05) / (luminance(INK) + 0.05)
        assert contrast >= 4.5  # what WCAG 2.1 asks of small text


@pytest.mark.parametrize("kind", KINDS)
def test_shades_go_from_light_to_dark(kind: str) -> None:
    shades = [luminance(color_of(kind, chunk, 4)) for chunk in range(4)]
    assert shades == sorted(shades, reverse=True)
    assert len(set(shades)) == 4
    assert shades[0] > luminance(color_of(kind, 0, 1)) > shades[-1]


def test_all_kinds_have_names_and_their_own_color() -> None:
    assert sorted(NAMES) == sorted(KINDS)
    assert all(color_of(one, 0, 1) != color_of(other, 0, 1) for one, other in combinations(KINDS, 2))


@pytest.mark.parametrize(
    ("total", "most", "ticks"),
    [(28.2, 9, [0, 5, 10, 15, 20, 25]), (120.0, 12, [0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 110, 120]), (3.0, 0, [0]), (0.0, 5, [0])],
)
def test_ticks(total: float, most: int, ticks: list[float]) -> None:
    assert choose_ticks(total, most) == ticks


@given(st.floats(1e-6, 1e12), st.integers(1, 40))
def test_ticks_are_equally_far_apart_and_no_more_than_asked_for(total: float, most: int) -> None:
    ticks = choose_ticks(total, most)
    steps = [second - first for first, second in pairwise(ticks)]
    assert ticks[0] == 0
    assert ticks[-1] <= total
    assert len(steps) <= most
    assert all(isclose(step, steps[0], rel_tol=1e-6) for step in steps)


@pytest.mark.parametrize(
    ("time", "text"), [(0, "0"), (28.2, "28.2"), (0.12345, "0.1235"), (1457.25, "1457"), (9999.9, "10000"), (123456.7, "123457")]
)
def test_times_are_short(time: float, text: str) -> None:
    assert say_time(time) == text


def test_columns_share_the_time_of_what_lies_in_them() -> None:
    shares = share_columns("FBF", [0.0, 1.5, 4.0], [1.5, 3.0, 4.25], 5, 1.0)
    assert shares == [{"F": 1.0}, {"F": 0.5, "B": 0.5}, {"B": 1.0}, {}, {"F": 0.25}]


MOMENTS = st.integers(0, 3000).map(lambda number: number / 1000)


@given(st.lists(st.tuples(st.sampled_from("FBIW"), MOMENTS, MOMENTS), max_size=30), st.integers(1, 50))
def test_shares_of_all_columns_are_the_whole_time(work: list[tuple[str, float, float]], columns: int) -> None:
    starts: list[float] = []
    ends: list[float] = []
    clock = 0.0
    for _, wait, length in work:
        starts.append(clock + wait)
        clock += wait + length
        ends.append(clock)
    scale = columns / clock if clock else 0.0
    shares = share_columns([kind for kind, _, _ in work], starts, ends, columns, scale)
    for kind in KINDS:
        busy = sum(end - start for (key, _, _), start, end in zip(work, starts, ends, strict=True) if key == kind)
        assert isclose(sum(share.get(kind, 0.0) for share in shares), busy * scale, rel_tol=1e-9, abs_tol=1e-9)
    assert all(sum(share.values()) <= 1 + 1e-9 for share in shares)
