"""Whole processes: closed and broken streams, encodings, interrupts, faults; nothing ends in a traceback."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ppdsl.cli import main
from ppdsl.cli.output import Look, look_of

ROOT = Path(__file__).parents[1]
PATH = os.pathsep.join(str(ROOT / folder) for folder in ("", "runtime", "grammar"))
FAULT = (
    "error: a fault of ppdsl (ModuleNotFoundError: import of lark halted; None in sys.modules); please report it with the command; "
    "PPDSL_DEBUG=1 shows the traceback"
)
PPDSL = (sys.executable, "-m", "ppdsl")


def environment(**variables: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in {"CLICOLOR_FORCE", "NO_COLOR", "PPDSL_DEBUG"}}
    return {**kept, "PYTHONPATH": PATH, **variables}


def run(*arguments: str | bytes, stdin: bytes = b"", **variables: str) -> tuple[bytes, bytes, int]:
    done = subprocess.run([*PPDSL, *arguments], input=stdin, env=environment(**variables), capture_output=True, check=False)
    return done.stdout, done.stderr, done.returncode


def shell(script: str) -> tuple[bytes, bytes, int]:
    command = ["bash", "-c", f'ppdsl() {{ "{sys.executable}" -m ppdsl "$@"; }}\n{script}']
    done = subprocess.run(command, env=environment(), stdin=subprocess.DEVNULL, capture_output=True, check=False)
    return done.stdout, done.stderr, done.returncode


def test_a_reader_that_goes_away_ends_it_quietly() -> None:
    script = "set -o pipefail; ppdsl compile --pp 2 'E(t|)*19999L' | head -1"
    assert shell(script) == (b"{\n", b"", 0)
    assert shell("set -o pipefail; ppdsl check --pp 2 'E(t|)*9999x' --output-format sarif | head -1") == (b"{\n", b"", 1)


def test_help_for_a_reader_that_goes_away_ends_quietly() -> None:
    assert shell("set -o pipefail; ppdsl check --help | true")[1:] == (b"", 0)


@pytest.mark.parametrize(("redirection", "code"), [(">&-", 0), ("2>&-", 0), (">&- 2>&-", 0)])
def test_closed_output_is_no_fault(redirection: str, code: int) -> None:
    assert shell(f"ppdsl check Et --pp 1 --output-format github {redirection}")[1:] == (b"", 1)
    assert shell(f"ppdsl check EtL {redirection}")[1:] == (b"", code)


def test_closed_input_is_said_to_be_so() -> None:
    assert shell("ppdsl check - <&-") == (b"error[PP206]: standard input is closed\n\ninvalid: 1 error\n", b"", 2)


def test_input_that_cannot_be_read_is_said_to_be_so() -> None:
    assert shell("ppdsl check - 0>/dev/null") == (
        b"error[PP206]: standard input cannot be read: bad file descriptor\n\ninvalid: 1 error\n",
        b"",
        2,
    )


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="without /dev/full it is not known what a full disk does")
@pytest.mark.parametrize("arguments", ["check EtL", "check --help", "fmt EtL", "--version"])
def test_a_full_disk_is_said_to_be_so(arguments: str) -> None:
    assert shell(f"ppdsl {arguments} > /dev/full") == (b"", b"error: cannot write the output: no space left on device\n", 2)


def test_input_without_end_is_refused() -> None:
    assert shell("yes EtL | ppdsl check - --output-format concise") == (
        b"error[PP206]: standard input is longer than 67,108,864 bytes\n",
        b"",
        2,
    )


@pytest.mark.parametrize(
    ("arguments", "output", "code"),
    [
        ([b"check", b"Et\xffL"], b"error[PP206]: the layout is not valid UTF-8\n\ninvalid: 1 error\n", 2),
        ([b"check", b"--partition", b"4,\xff"], b"error[PP206]: --partition is not valid UTF-8\n\ninvalid: 1 error\n", 2),
        ([b"check", b"--from", b"\xff"], b"error[PP206]: cannot read \\u{dcff}: no such file or directory\n\ninvalid: 1 error\n", 2),
    ],
)
def test_arguments_that_are_not_utf8_are_refused(arguments: list[str | bytes], output: bytes, code: int) -> None:
    assert run(*arguments) == (output, b"", code)


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_no_encoding_of_the_terminal_fails(encoding: str) -> None:
    output, errors, code = run("check", "Et\u00d73L", "--color", "never", PYTHONIOENCODING=encoding, LC_ALL="C")
    shown = "\u00d7".encode(encoding, "backslashreplace").decode(encoding)
    assert output.decode(encoding).startswith(f"error[PP101]: unknown symbol `{shown}`\n")
    assert (errors, code) == (b"", 1)


def test_a_table_on_an_ascii_terminal_is_ascii() -> None:
    output, errors, code = run("check", "Et|tL", "--pp", "2", "--color", "always", PYTHONIOENCODING="ascii")
    assert output.isascii()
    assert b"+----" in output
    assert (errors, code) == (b"", 0)


class Gone(io.StringIO):
    """A stream without a file behind it, whose reader has gone away."""

    def flush(self) -> None:
        raise BrokenPipeError


def test_a_pipe_that_breaks_keeps_the_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as broken:
        monkeypatch.setattr(sys, "stdout", broken)
        assert main(["check", "Et"]) == 1
        broken.write("what comes later goes nowhere")
    monkeypatch.setattr(sys, "stdout", Gone())
    monkeypatch.setattr(sys, "stderr", Gone())
    assert main(["check", "EtL"]) == 0
    assert main(["check", "EtL", "--nope"]) == 2


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="without /dev/full it is not known what a full disk does")
def test_a_full_disk_changes_the_exit_code(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    with Path("/dev/full").open("w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        assert main(["check", "EtL"]) == 2
    assert capsys.readouterr().err == "error: cannot write the output: no space left on device\n"


def test_streams_that_are_not_there_are_not_written_to(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("stdin", "stdout", "stderr"):
        monkeypatch.setattr(sys, name, None)
    assert main(["check", "-"]) == 2


class Keyboard(io.BytesIO):
    """A terminal at which somebody presses Ctrl-C."""

    def read(self, *_: object) -> bytes:
        raise KeyboardInterrupt


def test_an_interrupt_while_reading_has_its_exit_code(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(Keyboard()))
    assert main(["check", "-"]) == 130
    assert capsys.readouterr() == ("", "")


def test_an_interrupt_while_writing_has_its_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    class Slow(io.StringIO):
        def write(self, text: str) -> int:
            raise KeyboardInterrupt(text)

    monkeypatch.setattr(sys, "stdout", Slow())
    assert main(["check", "EtL"]) == 130


@pytest.mark.parametrize("debug", ["", "1"])
def test_a_fault_shows_its_traceback_only_when_asked(
    debug: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "lark", None)
    monkeypatch.setenv("PPDSL_DEBUG", debug)
    assert main(["check", "EtL"]) == 70
    output, errors = capsys.readouterr()
    assert (output, errors.startswith("Traceback ")) == ("", bool(debug))
    assert errors.endswith(f"{FAULT}\n")


def test_an_interrupt_ends_it_quietly() -> None:
    with subprocess.Popen(
        [*PPDSL, "check", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()
    ) as process:
        if process.stdin is None or process.stdout is None or process.stderr is None:
            pytest.fail("the pipes are there")
        process.stdin.write(b"EtL\n")
        process.stdin.flush()
        wait_until_reading(process.pid)
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=30)
    assert (output, errors, process.returncode) == (b"", b"", 130)


def wait_until_reading(pid: int) -> None:
    """Wait until a process has loaded all that it needs and waits for its standard input."""
    for _ in range(600):
        if Path(f"/proc/{pid}/wchan").exists() and "pipe" in Path(f"/proc/{pid}/wchan").read_text():
            return
        time.sleep(0.05)


@pytest.mark.parametrize("debug", ["", "1"])
def test_a_fault_of_the_program_asks_for_a_report(debug: str) -> None:
    script = "import sys; sys.modules['lark'] = None; from ppdsl.cli import main; sys.exit(main(['check', 'EtL']))"
    done = subprocess.run([sys.executable, "-c", script], env=environment(PPDSL_DEBUG=debug), capture_output=True, text=True, check=False)
    assert done.stderr.endswith(f"{FAULT}\n")
    assert ("Traceback" in done.stderr) == bool(debug)
    assert debug or done.stderr == f"{FAULT}\n"
    assert (done.stdout, done.returncode) == ("", 70)


def test_a_check_on_a_terminal_is_drawn_to_its_width() -> None:
    pty = pytest.importorskip("pty", reason="without pseudo-terminals it is not known what a terminal shows")
    leader, follower = pty.openpty()
    subprocess.run(
        [*PPDSL, "check", "Et|tL", "--pp", "2"], stdout=follower, env=environment(COLUMNS="60", TERM="xterm"), check=True, stdin=follower
    )
    os.close(follower)
    output = os.read(leader, 65536).decode()
    os.close(leader)
    assert "╭──────┬────────────╮\r\n" in output
    assert "\x1b[1;32mvalid\x1b[0m\r\n" in output


def test_a_dumb_terminal_gets_plain_text() -> None:
    class Terminal:
        encoding = "utf-8"

        def isatty(self) -> bool:
            return True

    terminal: object = Terminal()
    assert look_of(terminal, "auto", {"TERM": "dumb"}) == Look()  # type: ignore[arg-type]  # all of a stream that is asked for
    assert look_of(terminal, "auto", {"TERM": "xterm"})._replace(width=None) == Look(color=True, rich=True)  # type: ignore[arg-type]  # the same
    assert look_of(terminal, "never", {"TERM": "xterm"})._replace(width=None) == Look(rich=True)  # type: ignore[arg-type]  # the same
    assert look_of(None, "auto", {}) == Look()
