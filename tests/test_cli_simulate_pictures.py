"""``ppdsl simulate``: what is drawn, into files and on a terminal."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.simulate_command import run, simulated, write_costs

ROOT = Path(__file__).parents[1]


@pytest.fixture
def costs(tmp_path: Path) -> str:
    return write_costs(tmp_path)


def test_pictures_are_written_whole(costs: str, tmp_path: Path) -> None:
    trace, svg, html = (tmp_path / name for name in ("x.json", "x.svg", "x.html"))
    svg.write_text("before")
    arguments = ("Ett|tttL", "--pp", "2", "--microbatches", "4", "--costs", costs)
    drawn = run(*arguments, "--trace", str(trace), "--svg", str(svg), "--html", str(html))
    assert drawn == run(*arguments)
    assert {path.name for path in tmp_path.iterdir()} == {"costs.json", "x.json", "x.svg", "x.html"}
    events = json.loads(trace.read_text())["traceEvents"]
    assert sum(event["ph"] == "X" for event in events) == 2 * 4 * 2
    most = [max(each["args"]["bytes"] for each in events if each["name"] == f"memory of rank {rank}") for rank in range(2)]
    assert most == [rank["peak_memory_bytes"] for rank in simulated(*arguments)["ranks"]]
    assert "1f1b, 4 microbatches" in (ET.fromstring(svg.read_text())[0].text or "")  # noqa: S314 -- ppdsl wrote it
    assert "peak memory" in html.read_text()


def test_without_sizes_a_trace_has_no_memory(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    assert run("Et|tL", "--pp", "2", "--microbatches", "2", "--trace", str(path))[2] == 0
    assert not any(event["ph"] == "C" for event in json.loads(path.read_text())["traceEvents"])


def test_a_layout_is_escaped_in_a_picture(tmp_path: Path) -> None:
    path = tmp_path / "x.svg"
    assert run("Et@0|tL@1", "--microbatches", "2", "--svg", str(path))[2] == 0
    assert "Et@0|tL@1" in (ET.fromstring(path.read_text())[0].text or "")  # noqa: S314 -- ppdsl wrote it


def test_forced_colour_draws_the_table_with_rich() -> None:
    output = run("Et|tL", "--pp", "2", "--microbatches", "2", "--color", "always", "--gantt")[0]
    assert "│\x1b[36m \x1b[0m\x1b[36m   0\x1b[0m\x1b[36m \x1b[0m│       6 │" in output
    assert "\x1b[38;5;16;48;5;111m" in output


@pytest.mark.parametrize(("option", "drawn"), [([], True), (["--no-gantt"], False)])
def test_on_a_terminal_the_schedule_is_drawn(option: list[str], drawn: bool) -> None:  # noqa: FBT001 -- a parameter of the test
    output = show(60, *option)
    assert ("\r\nrank 0 F0" in output) == drawn
    assert max(map(len, output.splitlines()[6:])) <= 60


@pytest.mark.parametrize("width", [1, 20, 40])
def test_no_figure_is_cut_off_on_a_narrow_terminal(width: int) -> None:
    lines = show(width).splitlines()
    assert lines[6:13] == [
        "╭──────┬─────────┬───────┬───────┬───────────┬───────────╮",
        "│ rank │ busy ms │  fill │ drain │ imbalance │ in flight │",
        "├──────┼─────────┼───────┼───────┼───────────┼───────────┤",
        "│    0 │       6 │     2 │     1 │         0 │         2 │",
        "│    1 │       6 │     1 │     2 │         0 │         1 │",
        "│  all │   66.7% │ 16.7% │ 16.7% │      0.0% │         2 │",
        "╰──────┴─────────┴───────┴───────┴───────────┴───────────╯",
    ]


def show(width: int, *options: str) -> str:
    """Give what a terminal of a width is sent."""
    leader, follower = os.openpty()
    environment = os.environ | {"COLUMNS": str(width), "TERM": "xterm", "NO_COLOR": "1"}
    command = [sys.executable, "-m", "ppdsl", "simulate", "Et|tL", "--pp", "2", "--microbatches", "2", *options]
    done = subprocess.run(
        command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=follower, stderr=subprocess.PIPE, check=False
    )
    os.close(follower)
    output = b""
    while chunk := _read(leader):
        output += chunk
    os.close(leader)
    assert (done.returncode, done.stderr) == (0, b"")
    return output.decode()


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65_536)
    except OSError:  # what Linux says at the end
        return b""
