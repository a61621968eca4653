from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")  # the runtime is tested where torch is among the tests' requirements

from torch import distributed as dist  # noqa: E402 -- it comes with torch

from ppdsl_runtime.training.worlds import JoinError, MissingDeviceError, World, open_world, read_world  # noqa: E402 -- it loads torch

LAUNCHED = {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "MASTER_ADDR": "host0", "MASTER_PORT": "29500"}


LEAVING = """
from pathlib import Path
from ppdsl_runtime.training.worlds import open_world, read_world

with open_world(read_world("cpu", {}), 30.0):
    import torch._dynamo  # as a model does at its first forward
    import torch.distributed.nn.functional
print(*sorted(task.joinpath("comm").read_text().strip() for task in Path("/proc/self/task").iterdir()))
"""


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="the system does not tell the threads of a process")
def test_no_thread_of_a_world_outlives_it() -> None:
    """Gloo's would take Python's lock while the process ends, which aborts it."""
    done = subprocess.run(
        [sys.executable, "-c", LEAVING],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert "gloo" not in done.stdout


def test_a_process_without_torchrun_is_alone() -> None:
    world = read_world("cpu", {"WORLD_SIZE": "7"})
    assert world == World(0, 1, torch.device("cpu"), launched=False)
    assert world.main


def test_a_process_of_torchrun_is_one_of_several() -> None:
    world = read_world("cpu", LAUNCHED)
    assert world == World(3, 4, torch.device("cpu"), launched=True)
    assert not world.main


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"RANK": "4"}, "RANK is 4, not below WORLD_SIZE, which is 4"),
        ({"RANK": "x"}, "RANK is 'x', not an integer from 0, as torchrun sets it"),
        ({"RANK": "-1"}, "RANK is '-1', not an integer from 0, as torchrun sets it"),
        ({"WORLD_SIZE": "0"}, "WORLD_SIZE is '0', not an integer from 1, as torchrun sets it"),
        ({"LOCAL_RANK": ""}, "LOCAL_RANK is '', not an integer from 0, as torchrun sets it"),
        ({"MASTER_PORT": None, "WORLD_SIZE": None}, "RANK is set, but not WORLD_SIZE, MASTER_PORT; torchrun sets them all"),
    ],
)
def test_variables_that_are_not_torchruns_are_refused(changes: dict[str, str | None], text: str) -> None:
    environment = {name: value for name, value in {**LAUNCHED, **changes}.items() if value is not None}
    with pytest.raises(ValueError, match=f"^{text}$"):
        read_world("cpu", environment)


def test_cuda_devices_go_by_the_local_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert read_world("auto", LAUNCHED).device == read_world("cuda", LAUNCHED).device == torch.device("cuda", 1)
    assert read_world("cpu", LAUNCHED).device == torch.device("cpu")
    for local, first in (("2", True), ("3", False)):
        text = rf"^local rank {local} needs a CUDA device of its own, this host has 2$"
        with pytest.raises(MissingDeviceError, match=text) as error:
            read_world("auto", {**LAUNCHED, "LOCAL_RANK": local})
        assert error.value.first is first


def test_a_world_is_left_in_the_end() -> None:
    for _ in range(2):
        with open_world(read_world("cpu", {}), 5.0):
            assert dist.get_world_size() == 1
        assert not dist.is_initialized()
    with pytest.raises(KeyError), open_world(read_world("cpu", {}), 5.0):
        raise KeyError
    assert not dist.is_initialized()


def test_ranks_that_do_not_come_are_missed_within_the_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    environment = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    begin = time.monotonic()
    with (
        pytest.raises(JoinError, match=r"^rank 0 did not meet all 2 ranks within 1 s: [^\n]+$"),
        open_world(read_world("cpu", environment), 1.0),
    ):
        pytest.fail("the world is open")
    assert time.monotonic() - begin < 15
    assert not dist.is_initialized()
