from __future__ import annotations

import io
import json
import math
import os
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")  # the runtime is tested where torch is among the tests' requirements

from ppdsl_runtime.training import logs
from ppdsl_runtime.training.logs import StepLog

FULL = Path("/dev/full")


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


def test_a_terminal_that_cannot_move_its_cursor_gets_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setenv("TERM", "dumb")
    run(StepLog(3, 1000))
    assert [line.partition("  ")[0] for line in terminal.getvalue().splitlines()] == ["step 1/3", "step 2/3", "step 3/3"]


def test_quiet_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    run(StepLog(3, 1000, quiet=True))
    assert terminal.getvalue() == ""


def read_strictly(text: str) -> object:
    """Read JSON, in which there is no NaN and no Infinity."""
    return json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize(
    ("loss", "norm", "text"),
    [
        (math.nan, None, "loss is nan"),
        (math.inf, 1.0, "loss is inf"),
        (-math.inf, math.nan, "loss is -inf"),
        (1.0, math.inf, "norm of the gradients is inf"),
    ],
)
def test_what_is_not_finite_is_null_and_said_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], loss: float, norm: float | None, text: str
) -> None:
    file = tmp_path / "log.jsonl"
    with StepLog(4, 1000, path=str(file), quiet=True) as log:
        log.end_step(0, 1.0, 1.0)
        for step in (1, 2, 3):
            log.end_step(step, loss, norm)
    lines = [read_strictly(line) for line in file.read_text().splitlines()]
    first = {"step": 0, "loss": 1.0, "grad_norm": 1.0}
    wrong = {"loss": loss if math.isfinite(loss) else None} | ({} if norm is None else {"grad_norm": norm if math.isfinite(norm) else None})
    assert [{key: line[key] for key in ("step", *wrong)} for line in lines] == [  # type: ignore[index]  # an object
        {key: first[key] for key in ("step", *wrong)},
        *({"step": step, **wrong} for step in (1, 2, 3)),
    ]
    assert capsys.readouterr() == ("", f"warning: the {text} at step 2; the run goes on, and this is said once\n")


def test_a_warning_does_not_break_the_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    for name, value in (("TERM", "xterm"), ("COLUMNS", "60")):
        monkeypatch.setenv(name, value)
    with StepLog(2, 1000) as log:
        log.end_step(0, math.nan)
        log.end_step(1, math.nan)
    text = terminal.getvalue()
    assert text.count("warning: the loss is nan at step 1; the run goes on, and this is said once\n") == 1
    assert "2/2" in text


def test_progress_that_nobody_can_read_ends_no_run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.stderr", None)
    run(StepLog(3, 1000))
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as broken:
        monkeypatch.setattr("sys.stderr", broken)
        run(StepLog(3, 1000))
    assert capsys.readouterr().out == ""


@pytest.mark.skipif(not FULL.exists(), reason="the system has no full device, so this is not known to end well")
def test_a_full_disk_ends_no_run_by_progress_but_by_its_log(monkeypatch: pytest.MonkeyPatch) -> None:
    with FULL.open("w") as full:
        monkeypatch.setattr(sys, "stderr", full)
        run(StepLog(3, 1000))
    with pytest.raises(OSError, match="No space left on device") as error:
        run(StepLog(3, 1000, path=str(FULL), quiet=True))
    assert error.value.filename == str(FULL)
