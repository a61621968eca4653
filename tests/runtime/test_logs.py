from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("torch")  # the runtime is tested where torch is among the tests' requirements

from ppdsl_runtime.training import logs
from ppdsl_runtime.training.logs import StepLog

if TYPE_CHECKING:
    from pathlib import Path


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every look at the clock be half a second after the last."""
    ticks = iter(range(10_000))
    monkeypatch.setattr(logs, "perf_counter", lambda: next(ticks) / 2)


def run(log: StepLog) -> None:
    with log:
        for step in range(log.steps):
            log.start_step()
            log.end_step(step, 2.0 - step / 100, None if step else 1.5)


@pytest.mark.usefixtures("clock")
def test_a_step_is_a_line_of_json(tmp_path: Path) -> None:
    file = tmp_path / "a" / "log.jsonl"
    run(StepLog(2, 1000, path=str(file), quiet=True))
    assert [json.loads(line) for line in file.read_text().splitlines()] == [
        {"step": 0, "loss": 2.0, "seconds": 0.5, "tokens_per_s": 2000.0, "grad_norm": 1.5},
        {"step": 1, "loss": 1.99, "seconds": 0.5, "tokens_per_s": 2000.0},
    ]


def test_a_line_is_there_as_soon_as_its_step_is_done(tmp_path: Path) -> None:
    file = tmp_path / "log.jsonl"
    with StepLog(2, 1000, path=str(file), quiet=True) as log:
        log.end_step(0, 1.0)
        assert json.loads(file.read_text())["loss"] == 1.0


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize(
    ("steps", "told"),
    [(1, [1]), (3, [1, 2, 3]), (25, [1, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 25]), (1000, [1, *range(100, 1001, 100)])],
)
def test_away_from_a_terminal_progress_is_short(capsys: pytest.CaptureFixture[str], steps: int, told: list[int]) -> None:
    run(StepLog(steps, 1000))
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == [f"step {step}/{steps}  loss {2.0 - (step - 1) / 100:.4f}  2,000 tokens/s" for step in told]


def test_on_a_terminal_there_is_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    for name, value in (("TERM", "xterm"), ("COLUMNS", "100")):
        monkeypatch.setenv(name, value)
    run(StepLog(3, 1000))
    text = terminal.getvalue()
    assert "3/3" in text
    assert "loss 1.9800" in text
    assert "tokens/s" in text
    assert text.endswith("\x1b[?25h")  # the cursor is shown again


def test_quiet_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    run(StepLog(3, 1000, quiet=True))
    assert terminal.getvalue() == ""
