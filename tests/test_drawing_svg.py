"""The schedule as SVG."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ppdsl.drawing import draw_svg
from ppdsl.schedules.orders import one_forward_one_backward
from ppdsl.schedules.timing import Durations, time_schedule
from tests.drawn_cases import HOSTILE, full_size, nothing, split_backwards, two_chunks, two_ranks, with_empty_stage, without_time
from tests.random_schedules import all_durations, schedules

if TYPE_CHECKING:
    from hypothesis.strategies import DataObject

    from ppdsl.schedules.actions import Schedule
    from ppdsl.schedules.timing import Timing

EXPECTED = Path(__file__).parent / "expected"
NAMESPACE = "{http://www.w3.org/2000/svg}"
ELEMENTS = {"svg", "title", "style", "g", "rect", "path", "text"}
MEGABYTE = 1_000_000


def read(text: str) -> ET.Element:
    """Parse it and look for anything but shapes and texts."""
    root = ET.fromstring(text)  # noqa: S314 -- our own text
    assert {element.tag.removeprefix(NAMESPACE) for element in root.iter()} <= ELEMENTS
    assert not [name for element in root.iter() for name in element.attrib if name.startswith(("on", "href", "{"))]
    assert not re.search(r"url\(|@import|javascript", text)
    return root


def bars(root: ET.Element) -> list[list[ET.Element]]:
    """Give the rectangles of each rank, without the lane."""
    return [group.findall(f"{NAMESPACE}rect")[1:] for group in root.findall(f"{NAMESPACE}g")]


def tip(element: ET.Element) -> str:
    return element.findtext(f"{NAMESPACE}title") or ""


@pytest.mark.parametrize(
    ("name", "case"),
    [("one_chunk", two_ranks()), ("two_chunks", two_chunks()), ("halves", split_backwards()), ("empty_stage", with_empty_stage())],
)
def test_whole_pictures(name: str, case: tuple[Schedule, Timing]) -> None:
    assert draw_svg(*case, f"{case[0].name}: {name}") == (EXPECTED / f"{name}.svg").read_text(encoding="utf-8")


def test_expected_pictures_are_all_used() -> None:
    assert sorted(path.stem for path in EXPECTED.glob("*.svg")) == ["empty_stage", "halves", "one_chunk", "two_chunks"]


def test_title_is_only_text() -> None:
    title = r"""</script><b title="'">&amp; \u{d800}\u{202e}\u{0}\u{a}<!-- ]]>"""
    root = read(draw_svg(*two_ranks(), HOSTILE))
    assert tip(root) == title
    assert root.findtext(f"{NAMESPACE}text") == title


def test_a_long_title_is_cut_where_it_is_shown() -> None:
    root = read(draw_svg(*two_ranks(), "t" * 1000))
    assert tip(root) == "t" * 1000
    assert root.findtext(f"{NAMESPACE}text") == "t" * 170 + "…"


@pytest.mark.parametrize("case", [nothing(), without_time()])
def test_without_any_time(case: tuple[Schedule, Timing]) -> None:
    root = read(draw_svg(*case, "t"))
    assert [text.text for text in root.findall(f"{NAMESPACE}text")][-3:] == ["rank 0", "0", "0 ms"]
    assert [[tip(bar) for bar in rank] for rank in bars(root)] == [[f"{action}: 0 to 0 ms" for action in case[0].ranks[0]]]


def test_full_size_shows_shares_and_stays_small() -> None:
    schedule, timing = full_size()
    text = draw_svg(schedule, timing, "full size")
    root = read(text)
    groups = root.findall(f"{NAMESPACE}g")
    assert len(text) < 0.5 * MEGABYTE
    assert [len(group.findall(f"{NAMESPACE}path")) for group in groups] == [3] * 64  # F, I, W
    assert [tip(group) for group in groups][:1] == ["rank 0: 3072 actions, busy 96.9% of the time; the height is the share of time"]


@pytest.mark.parametrize(("ranks", "microbatches"), [(64, 125), (24, 333), (1, 366)])
def test_as_many_bars_as_are_drawn_stay_below_two_megabytes(ranks: int, microbatches: int) -> None:
    schedule = one_forward_one_backward(range(ranks), ranks, microbatches)
    text = draw_svg(schedule, time_schedule(schedule, Durations.equal(ranks, 123.456789, 111.1111, 99.999, 1.23)), "many")
    assert sum(map(len, bars(read(text)))) == 2 * ranks * microbatches
    assert len(text) < 2 * MEGABYTE


def test_a_rank_with_bars_too_thin_shows_shares() -> None:
    schedule = one_forward_one_backward((0,), 1, 367)
    root = read(draw_svg(schedule, time_schedule(schedule, Durations.equal(1, 1.0, 1.0, 1.0)), "many"))
    assert bars(root) == [[]]
    last, first = (path.attrib for path in root.iter(f"{NAMESPACE}path"))
    assert last == {"class": "B0-1", "d": "M0 22H0V0H1100V22z"}
    assert first["class"] == "F0-1"


@given(st.data())
def test_each_action_is_a_bar_where_it_happens(data: DataObject) -> None:
    schedule = data.draw(schedules())
    timing = time_schedule(schedule, data.draw(all_durations(schedule.stages, st.sampled_from([0.0, 0.3, 1.0, 7.0]))))
    scale = 1100 / timing.makespan if timing.makespan else 0.0
    ranks = bars(read(draw_svg(schedule, timing, "t")))
    assert [[tip(bar).partition(":")[0] for bar in rank] for rank in ranks] == [[*map(str, actions)] for actions in schedule.ranks]
    for rank, starts in zip(ranks, timing.starts, strict=True):
        assert [float(bar.attrib["x"]) for bar in rank] == pytest.approx([start * scale for start in starts], rel=1e-4)
