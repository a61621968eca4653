"""Runs commands in this process, which is alone: no torchrun."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pytest
from torch import distributed as dist

from ppdsl_runtime.commands.program import run

if TYPE_CHECKING:
    from collections.abc import Callable

    Command = Callable[..., "Answer"]

SEE = "(see python -m ppdsl_runtime {} --help)\n"


class Answer(NamedTuple):
    """What a command did."""

    code: int
    out: str
    err: str


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    """Give what runs a command, as typed; no process group is left behind."""
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)

    def answer(*arguments: str) -> Answer:
        capsys.readouterr()
        code = run(arguments)
        assert not dist.is_initialized()
        return Answer(code, *capsys.readouterr())

    return answer


def refused(text: str, code: int = 2) -> Answer:
    """Give the answer to what cannot be done: one line, and nothing on standard output."""
    return Answer(code, "", f"error: {text}\n")


def misused(name: str, text: str) -> Answer:
    """Give the answer to wrong usage of a command."""
    return Answer(2, "", f"error: {text} {SEE.format(name)}")
