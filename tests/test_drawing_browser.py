"""The HTML page as people see it: opened in headless Chromium, by its document and by its pixels."""

from __future__ import annotations

import html
import re
from typing import TYPE_CHECKING

import pytest

from ppdsl.drawing import draw_page
from ppdsl.drawing.colors import color_of
from tests import browser
from tests.drawn_cases import HOSTILE, full_size, split_backwards, two_chunks, two_ranks

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(browser.CHROMIUM is None, reason="no Chromium on this machine: HTML pages are not opened, only read")

HOSTILE_SHOWN = r"""</script><b title="'">&amp; \u{d800}\u{202e}\u{0}\u{a}<!-- ]]>"""
LIGHT = {"page": "#ffffff", "lane": "#eaeef2"}
DARK = {"page": "#0d1117", "lane": "#262c36"}


def text_of(document: str, name: str) -> str:
    """Give what an element says, by its id."""
    found = re.search(rf'id="{name}"[^>]*>([^<]*)<', document)
    return html.unescape(found[1]) if found else ""


def body_of(document: str) -> dict[str, str]:
    found = re.search(r"<body([^>]*)>", document)
    return dict(re.findall(r'data-([\w-]+)="([^"]*)"', found[1] if found else ""))


def test_the_document(tmp_path: Path) -> None:
    page = draw_page(*two_chunks(), title=HOSTILE, facts=HOSTILE, columns=["rank", HOSTILE], rows=[["0", "<i>"], ["1", HOSTILE]])
    document = browser.dump_document(page, tmp_path, "#hover=1,5")
    body = body_of(document)
    assert body.keys() == {"actions", "drawn-ms"}  # above all no "error"
    assert body["actions"] == "32"
    assert [text_of(document, name) for name in ("title", "facts")] == [HOSTILE_SHOWN] * 2
    cells = [html.unescape(f"{kind} {cell}") for kind, cell in re.findall(r"<t([hd])>([^<]*)</t[hd]>", document)]
    assert cells == ["h rank", f"h {HOSTILE_SHOWN}", "d 0", "d <i>", "d 1", f"d {HOSTILE_SHOWN}"]
    assert re.findall(r"</i><b>([^<]*)</b>", document) == ["forward", "backward"]
    assert "light to dark: first to last chunk of a rank" in document
    assert text_of(document, "tip") == "3B1: backward of stage 3, microbatch 1\nrank 1, 7 to 9 ms (2 ms)\nneeds 3F1 of rank 1, done at 7 ms"


def test_details_of_an_action_that_waited(tmp_path: Path) -> None:
    document = browser.dump_document(draw_page(*two_ranks(), title="t", facts="f"), tmp_path, "#hover=0,2")
    assert text_of(document, "tip") == (
        "0B0: backward of stage 0, microbatch 0\nrank 0, 5 to 7 ms (2 ms)\nneeds 1B0 of rank 1, done at 4.5 ms\n3 ms idle before"
    )


@pytest.mark.parametrize("fragment", ["#hover=2,0", "#hover=0,99"])
def test_an_address_that_names_no_action(tmp_path: Path, fragment: str) -> None:
    document = browser.dump_document(draw_page(*two_ranks(), title="t", facts="f"), tmp_path, fragment)
    assert body_of(document).keys() == {"actions", "drawn-ms"}
    assert text_of(document, "tip") == ""


ACTS = """
<script>
const seen = [], note = () => seen.push([from, to].map(time => time.toFixed(2)).join("-"));
const middle = LEFT + room() / 2, place = chart.getBoundingClientRect();
const at = (x, more) => ({clientX: place.left + x, clientY: place.top + 60, bubbles: true, cancelable: true, ...more});
const press = key => { chart.dispatchEvent(new KeyboardEvent("keydown", {key, cancelable: true})); note(); };
const point = (name, x) => { chart.dispatchEvent(new PointerEvent(name, at(x, {pointerId: 1}))); note(); };
note();
["+", "ArrowRight", "ArrowLeft", "Home", "End", "-", "0", "q"].forEach(press);
chart.setPointerCapture = () => {};
chart.dispatchEvent(new WheelEvent("wheel", at(middle, {deltaY: -1}))); note();
chart.dispatchEvent(new WheelEvent("wheel", at(middle, {deltaX: room() / 8, deltaY: 1}))); note();
chart.dispatchEvent(new WheelEvent("wheel", at(10, {deltaY: -1}))); note();
point("pointerdown", middle); point("pointermove", middle + room() / 8); point("pointerup", middle); point("pointermove", middle + 5);
chart.dispatchEvent(new MouseEvent("dblclick")); note();
document.body.dataset.seen = seen.join(" ");
</script>
</html>"""


def test_keys_wheel_and_drag(tmp_path: Path) -> None:
    page = draw_page(*two_ranks(), title="t", facts="f").replace("</html>", ACTS)
    document = browser.dump_document(page, tmp_path)
    assert "error" not in body_of(document)
    assert body_of(document)["seen"].split() == [
        "0.00-17.00",
        "1.70-15.30",  # +
        "3.40-17.00",  # right, to the end
        "1.70-15.30",  # left
        "0.00-13.60",  # Home
        "3.40-17.00",  # End
        "0.00-17.00",  # -
        "0.00-17.00",  # 0
        "0.00-17.00",  # another key
        "1.70-15.30",  # wheel
        "3.40-17.00",  # wheel to the side
        "3.40-17.00",  # wheel over the ranks' names
        "3.40-17.00",  # held
        "1.70-15.30",  # dragged
        "1.70-15.30",  # let go
        "1.70-15.30",  # moved over an action
        "0.00-17.00",  # double click
    ]
    assert text_of(document, "tip").startswith("1F2: forward of stage 1, microbatch 2\n")


@pytest.mark.parametrize(("dark", "colors"), [(False, LIGHT), (True, DARK)], ids=["light", "dark"])
def test_the_picture(tmp_path: Path, dark: bool, colors: dict[str, str]) -> None:  # noqa: FBT001 -- a parameter
    picture = browser.take_picture(draw_page(*split_backwards(), title="zb_h1", facts="f"), tmp_path, dark=dark)
    assert picture.rows[2][2] == colors["page"]
    fills = {kind: color_of(kind, 0, 1) for kind in "FIW"}
    rows = [row for row in picture.rows if fills["F"] in row and colors["lane"] in row]
    # two ranks, each 30 pixels high; along the upper edge of a row, where no number is, the schedule itself can be read
    assert 56 <= len(rows) <= 60
    first, last = rows[1], rows[-2]
    letters = {color: kind for kind, color in {**fills, ".": colors["lane"]}.items()}
    read = ["".join(letters.get(pixel, "") for pixel in row) for row in (first, last)]
    assert [re.sub(r"(.)\1*", r"\1", line) for line in read] == ["F.IWFIWIW", ".FIFIWFIW"]


@pytest.mark.slow
def test_full_size_is_quick(tmp_path: Path) -> None:
    schedule, timing = full_size()
    document = browser.dump_document(draw_page(schedule, timing, title="zb_v", facts="f"), tmp_path, "#hover=63,3071")
    body = body_of(document)
    assert body["actions"] == "196608"
    assert text_of(document, "tip").startswith("63W511: weight gradient of stage 63, microbatch 511\nrank 63, ")
    print(f"196608 actions drawn in {body['drawn-ms']} ms")  # noqa: T201 -- a figure
    assert float(body["drawn-ms"]) < 5000
