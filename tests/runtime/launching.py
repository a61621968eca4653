"""Runs a script under torchrun, on this machine alone, and leaves no process behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from subprocess import CompletedProcess, TimeoutExpired
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROOT = Path(__file__).parents[2]
GRACE = 5.0
"""Seconds that torchrun gets to end its ranks by itself, and the system to clear away what was killed."""
TAG = "PPDSL_TEST_LAUNCH"
"""Environment variable by which the processes of a launch are known: torchrun gives each rank a session of its own, so no group has all."""


class LaunchError(Exception):
    """A rank failed, or the ranks took too long; the text has the output of each rank."""


def run_torchrun(script: Path, args: Sequence[str], ranks: int, timeout: float, *, check: bool = True) -> CompletedProcess[str]:
    """Run a script on a number of ranks, over the loopback interface, on a port that torchrun finds free; each rank has one thread.

    Args:
        script: The script; it can import what the tests can.
        args: Its arguments.
        ranks: Number of ranks.
        timeout: Seconds until all that was started is killed.
        check: Whether an exit status other than 0 is an error.

    Returns:
        What torchrun was and how it ended. Its output is that of the ranks, rank by rank, each line begun by its rank as in ``[0] ``;
        behind the errors of the ranks stand torchrun's own.

    Raises:
        LaunchError: A rank failed and ``check`` is set, or the time was up.
    """
    if sys.version_info < (3, 11) and find_spec("torch") is None:
        pytest.skip("torch is among the tests' requirements from Python 3.11 on")
    with TemporaryDirectory(prefix="torchrun-") as folder:
        logs = Path(folder)
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--local-addr", "127.0.0.1"]
        command += ["--nproc-per-node", str(ranks), "--redirects", "3", "--log-dir", str(logs / "ranks"), str(script), *args]
        status = _run_to_its_end(command, logs / "torchrun", timeout)
        output, errors = (_collect(logs / "ranks", f"{name}.log") for name in ("stdout", "stderr"))
        errors += (logs / "torchrun").read_text(encoding="utf-8", errors="replace")
    if status is None:
        raise LaunchError(f"{script.name} on {ranks} ranks was not done after {timeout:g} s\n{output}{errors}")
    if status and check:
        raise LaunchError(f"{script.name} on {ranks} ranks ended with status {status}\n{output}{errors}")
    return CompletedProcess(command, status, output, errors)


def _run_to_its_end(command: list[str], log: Path, timeout: float) -> int | None:
    """Run it, its output into a file, since a pipe stays open as long as any process has it; give the exit status, None when time is up."""
    tag = uuid.uuid4().hex
    environment = _environment(tag)
    with (
        log.open("wb") as file,
        subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, env=environment, start_new_session=True) as process,
    ):
        try:
            return process.wait(timeout)
        except TimeoutExpired:
            return None
        finally:
            _stop(process, tag)


def _environment(tag: str) -> dict[str, str]:
    path = [str(ROOT / folder) for folder in ("", "runtime", "grammar")]
    return os.environ | {
        TAG: tag,
        "GLOO_SOCKET_IFNAME": "lo0" if sys.platform == "darwin" else "lo",  # else Gloo asks what the machine's name stands for
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join(path),
        "PYTHONUNBUFFERED": "1",
    }


def _stop(process: subprocess.Popen[bytes], tag: str) -> None:
    """Kill what is left of a launch: torchrun, which ends its ranks when told to, and then, by the tag, whatever did not go."""
    if process.poll() is None:
        process.terminate()
        with suppress(TimeoutExpired):
            process.wait(GRACE)
        process.kill()
        process.wait()
    deadline = time.monotonic() + GRACE
    while left := [*find_tagged(tag)]:  # the system takes its time to clear away what was killed
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if time.monotonic() > deadline:
            raise LaunchError(f"processes {left} cannot be killed")
        time.sleep(0.01)


def find_tagged(tag: str) -> Iterator[int]:
    """Find the processes of a launch, where the system tells their environments, as Linux does; elsewhere none are found."""
    wanted = f"{TAG}={tag}".encode()
    for file in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):  # it is gone, or somebody else's
            if wanted in file.read_bytes().split(b"\0"):
                yield int(file.parent.name)


def _collect(logs: Path, name: str) -> str:
    """Give what each rank wrote to one of its streams, in the order of ranks."""
    files = sorted(logs.rglob(name), key=lambda file: int(file.parent.name))
    return "".join(f"[{file.parent.name}] {line}\n" for file in files for line in file.read_text("utf-8", "replace").splitlines())
