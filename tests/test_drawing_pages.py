"""The schedule as an HTML page, without a browser: what is in it. What it shows is tested in test_drawing_browser.py."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ppdsl.drawing import draw_page
from ppdsl.drawing.colors import color_of
from ppdsl.schedules.timing import time_schedule
from tests.drawn_cases import HOSTILE, full_size, nothing, two_chunks, two_ranks, without_time
from tests.random_schedules import all_durations, schedules

if TYPE_CHECKING:
    from hypothesis.strategies import DataObject

    from ppdsl.schedules.actions import Schedule
    from ppdsl.schedules.timing import Timing

HOSTILE_SHOWN = r"""</script><b title="'">&amp; \u{d800}\u{202e}\u{0}\u{a}<!-- ]]>"""


class Reader(HTMLParser):
    """What a browser finds: tags with their attributes, and the text of scripts and of the title."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self.at = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.at = tag

    def handle_data(self, data: str) -> None:
        if self.at in {"script", "title"}:
            self.texts.setdefault(self.at, []).append(data)

    def handle_endtag(self, tag: str) -> None:
        self.at = "" if tag == self.at else self.at


def data_of(page: str) -> Any:  # noqa: ANN401 -- JSON
    return json.loads(Reader(page).texts["script"][1])


def unpack(data: Any, rank: int) -> list[tuple[str, float, float]]:  # noqa: ANN401 -- JSON
    """Read a rank's actions and their times, as the page does."""
    work, unit = data["ranks"][rank], 10 ** data["digits"]
    sorts = [work["sorts"][number] for number in work["work"]]
    steps = [step for wait, sort in zip(work["waits"], sorts, strict=True) for step in (wait, sort[2])]
    times = [time / unit for time in accumulate(steps)]
    names = [f"{stage}{kind}{batch}" for (stage, kind, _), batch in zip(sorts, work["batches"], strict=True)]
    return [*zip(names, times[::2], times[1::2], strict=True)]


def test_whole_data() -> None:
    page = draw_page(*two_ranks(), title="Et|tL", facts="1f1b, 4 microbatches", columns=["rank", "ms"], rows=[["0", "12"], ["1", "12"]])
    assert data_of(page) == {
        "title": "Et|tL",
        "facts": "1f1b, 4 microbatches",
        "makespan": 17.0,
        "digits": 7,
        "owners": [0, 1],
        "fills": {"F": ["#7caae8"] * 3, "B": ["#eea14b"] * 3},
        "ranks": [
            {
                "sorts": [[0, "F", 10000000], [0, "B", 20000000]],
                "work": [0, 0, 1, 0, 1, 0, 1, 1],
                "batches": [0, 1, 0, 2, 1, 3, 2, 3],
                "waits": [0, 0, 30000000, 0, 0, 0, 10000000, 10000000],
            },
            {
                "sorts": [[1, "F", 10000000], [1, "B", 20000000]],
                "work": [0, 1, 0, 1, 0, 1, 0, 1],
                "batches": [0, 0, 1, 1, 2, 2, 3, 3],
                "waits": [15000000, 0, 0, 0, 10000000, 0, 0, 0],
            },
        ],
        "columns": ["rank", "ms"],
        "rows": [["0", "12"], ["1", "12"]],
    }


def test_texts_are_only_text() -> None:
    page = draw_page(*two_ranks(), title=HOSTILE, facts=HOSTILE, columns=[HOSTILE], rows=[[HOSTILE]])
    page.encode()
    read, plain = Reader(page), Reader(draw_page(*two_ranks(), title="t", facts="f", columns=["c"], rows=[["r"]]))
    assert read.tags == plain.tags
    assert read.texts["title"] == [HOSTILE_SHOWN]
    data = data_of(page)
    assert [data["title"], data["facts"], *data["columns"], *data["rows"][0]] == [HOSTILE_SHOWN] * 4


@pytest.mark.parametrize("title", ["__DATA__", "__TITLE__", "\\u003c/script>", "${data}", "\u2028"])
def test_a_title_that_looks_like_part_of_the_page(title: str) -> None:
    data = data_of(draw_page(*two_ranks(), title=title, facts=title))
    assert data["title"] == data["facts"] == title.replace("\u2028", r"\u{2028}")


def test_nothing_is_loaded_from_anywhere() -> None:
    page = draw_page(*two_ranks(), title="t", facts="f")
    assert not re.search(r"https?:|//[a-z]|url\(|@import|fetch\(|XMLHttp|import\(|localStorage|cookie", page)
    assert not [tag for tag, given in Reader(page).tags if {"src", "href", "srcset", "action", "style"} & set(given)]
    policy = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
    assert ("meta", {"http-equiv": "Content-Security-Policy", "content": policy}) in Reader(page).tags


def test_fills_are_those_of_the_other_pictures() -> None:
    fills = data_of(draw_page(*two_chunks(), title="t", facts="f"))["fills"]
    places = [(0, 2), (0, 2), (1, 2), (1, 2), (0, 1)]
    assert fills == {kind: [color_of(kind, *place) for place in places] for kind in "FB"}


@pytest.mark.parametrize("case", [nothing(), without_time()])
def test_without_any_time(case: tuple[Schedule, Timing]) -> None:
    data = data_of(draw_page(*case, title="t", facts="f"))
    assert (data["makespan"], data["digits"]) == (0.0, 0)
    assert unpack(data, 0) == [(str(action), 0.0, 0.0) for action in case[0].ranks[0]]


def test_full_size_stays_small() -> None:
    page = draw_page(*full_size(), title="full size", facts="196608 actions")
    assert len(page) < 2_500_000


@given(st.data(), st.sampled_from([1e-6, 0.37, 1.0, 4321.0, 1e9]))
def test_actions_and_times_read_back(data: DataObject, unit: float) -> None:
    schedule = data.draw(schedules())
    lengths = st.sampled_from([0.0, 1 / 3, 1.0, 7.123456789]).map(lambda time: time * unit)
    timing = time_schedule(schedule, data.draw(all_durations(schedule.stages, lengths)))
    found = data_of(draw_page(schedule, timing, title="t", facts="f"))
    for rank, actions in enumerate(schedule.ranks):
        work = unpack(found, rank)
        assert [name for name, _, _ in work] == [*map(str, actions)]
        assert [start for _, start, _ in work] == pytest.approx(timing.starts[rank], abs=1e-8 * timing.makespan)
        assert [end for _, _, end in work] == pytest.approx(timing.ends[rank], abs=1e-8 * timing.makespan)
