"""How far a walk lets the host run ahead of a CUDA device, and where it notes times; what stands for events does nothing by itself."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

torch = pytest.importorskip("torch")  # the runtime is tested where torch is among the tests' requirements

from ppdsl.lowering import Instruction  # noqa: E402 -- after the skip, like what needs torch
from ppdsl_runtime.executor.walking import Walker  # noqa: E402
from ppdsl_runtime.progress import Progress  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable

STEP = [Instruction(1, "WAIT_F", 0), Instruction(1, "F", 0), Instruction(1, "B", 0), Instruction(1, "SEND_B", 0)]
DEVICE = torch.device("cuda", 1)


class Log(list[str]):
    """What was done, in order."""

    def call(self, instruction: Instruction) -> Callable[[], None]:
        """Give a call that notes an instruction."""
        return partial(self.append, str(instruction))


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Log:
    """Note what is done with events."""
    noted = Log()

    class Event:
        def __init__(self, enable_timing: bool = False) -> None:  # noqa: FBT001, FBT002 -- as torch has it
            self.timing = enable_timing
            self.place = -1

        def record(self, stream: str) -> None:
            self.place = len(noted)
            noted.append(f"record on {stream}")

        def synchronize(self) -> None:
            noted.append(f"wait for {self.place}")

        def elapsed_time(self, other: Any) -> float:  # noqa: ANN401 -- another of these
            assert self.timing
            return float(other.place - self.place)

    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: f"the stream of {device}")
    return noted


def test_the_bound_holds_over_steps_however_few_actions_one_has(log: Log) -> None:
    walker = Walker(Progress(), DEVICE, run_ahead=3)
    for _ in range(4):
        walker.walk([(instruction, log.call(instruction)) for instruction in STEP])
    records = [place for place, text in enumerate(log) if text.startswith("record")]
    waits = [int(text.removeprefix("wait for ")) for text in log if text.startswith("wait")]
    assert len(records) == 8
    assert waits == records[:5], "each action is waited for before the third behind it is noted"


def test_actions_are_noted_on_the_stream_of_the_walks_device(log: Log) -> None:
    walker = Walker(Progress(), DEVICE, run_ahead=3)
    walker.walk([(instruction, log.call(instruction)) for instruction in STEP])
    record = "record on the stream of cuda:1"
    assert log == ["1WAIT_F0", "1F0", record, "1B0", record, "1SEND_B0"]


def test_times_are_those_of_the_walks_device(log: Log) -> None:
    walker = Walker(Progress(), DEVICE, run_ahead=3)
    times: list[tuple[str, float, float]] = []
    walker.recorder = lambda instruction, begin, end: times.append((str(instruction), begin, end))
    walker.walk([(instruction, log.call(instruction)) for instruction in STEP])
    assert {text for text in log if text.startswith("record")} == {"record on the stream of cuda:1"}
    assert times == [("1WAIT_F0", 0.0, 0.002), ("1F0", 0.002, 0.004), ("1B0", 0.004, 0.006), ("1SEND_B0", 0.006, 0.008)]


def test_an_error_leaves_the_action_that_was_at_work_in_sight() -> None:
    def fail() -> None:
        raise ArithmeticError("out of luck")

    progress = Progress()
    progress.step = 3
    with pytest.raises(ArithmeticError):
        Walker(progress, torch.device("cpu"), run_ahead=1).walk([(STEP[0], lambda: None), (STEP[1], fail)])
    assert (progress.position, str(progress)) == (1, "in step 3 at 1F0")
