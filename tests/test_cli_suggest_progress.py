"""``ppdsl suggest``: its progress on a terminal, and what an interrupt leaves."""

from __future__ import annotations

import io
import json
import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from ppdsl.cli import main
from ppdsl.schemas import schema_for

ROOT = Path(__file__).parents[1]
LONG = ("--pp", "8", "--vpp", "5", "--num-layers", "80", "--microbatches", "64", "--time-limit", "60")
COMMAND = (sys.executable, "-m", "ppdsl", "suggest", *LONG)


class Terminal(io.StringIO):
    """Standard error on a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("kind", "shown"), [("xterm", "\rbest so far: 12012 ms\x1b[K\r\x1b[K"), ("dumb", "")])
def test_progress_is_one_line_that_goes_away(kind: str, shown: str, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setenv("TERM", kind)
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    assert main(["suggest", "--pp", "2", "--num-layers", "8", "--microbatches", "1000"]) == 0
    assert terminal.getvalue() == shown


@pytest.mark.slow
def test_an_interrupt_prints_the_best_so_far() -> None:
    process = subprocess.Popen([*COMMAND, "--output-format", "json"], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    time.sleep(4)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (130, b"")
    document = json.loads(output)
    Draft202012Validator(schema_for("suggest")).validate(document)
    assert document["interrupted"] is True
    assert sum(document["per_stage"]) == 80


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="there are no such terminals: nothing is known of the progress there")
def test_progress_is_shown_on_a_terminal_alone() -> None:
    terminal, end = pty.openpty()
    process = subprocess.Popen([*COMMAND[:-1], "2"], cwd=ROOT, stdout=subprocess.PIPE, stderr=end)
    os.close(end)
    output, _ = process.communicate(timeout=120)
    shown = os.read(terminal, 65536).decode()
    os.close(terminal)
    assert process.returncode == 0
    assert b"step time" in output
    assert shown.startswith("\rbest so far: ")
    assert shown.endswith("\r\x1b[K")
