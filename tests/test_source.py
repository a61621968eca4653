from __future__ import annotations

import re
import time

from hypothesis import given
from hypothesis import strategies as st

from ppdsl.source import Source


@given(st.text("ab\r\n"))
def test_lines_begin_where_the_lines_before_end(text: str) -> None:
    assert list(Source(text).line_starts()) == [0, *(match.end() for match in re.finditer(r"\r\n|\r|\n", text))]


@given(st.text("ab\r\n", min_size=1), st.data())
def test_a_place_is_found_again_from_its_line_and_column(text: str, data: st.DataObject) -> None:
    source = Source(text)
    offset = data.draw(st.integers(0, len(text)))
    line, column = source.line_column(offset)
    assert source.line_starts()[line - 1] + column - 1 == offset


def test_a_layout_in_a_file_has_the_lines_of_the_file() -> None:
    file_text = "a: 1\nlayout: Et|tL\n"
    start = file_text.index("Et")
    source = Source("Et|tL", "run.yaml", file_text, range(start, start + 6))
    assert source.line_column(0) == (2, 9)
    assert source.line_column(5) == (2, 14)


def test_many_layouts_of_one_page_find_their_lines_in_linear_time() -> None:
    page = "Et|tL\n" * 20_000
    began = time.perf_counter()
    for line in range(0, 20_000, 2):
        assert Source("Et|tL", "<stdin>", page, range(6 * line, 6 * line + 6)).line_column(0) == (line + 1, 1)
    assert time.perf_counter() - began < 5
