"""The processes of a run, as torchrun starts them."""

from __future__ import annotations

import os
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

import torch
import torch.distributed.nn  # has the world's group among its defaults, and would keep it for ever if it were loaded within
from torch import distributed as dist
from torch._C._distributed_c10d import HashStore

from ppdsl_runtime.failure.signals import count_unblocked
from ppdsl_runtime.failure.watchdog import Watchdog
from ppdsl_runtime.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


_NEEDED = ("WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
"""What torchrun tells a process besides its rank."""
_NUMBERS = {"RANK": 0, "WORLD_SIZE": 1, "LOCAL_RANK": 0}
"""The least that they may be, and what they are for a process that is alone."""


class JoinError(RuntimeError):
    """The ranks did not meet."""


class MissingDeviceError(ValueError):
    """There is no CUDA device for this process.

    Attributes:
        first: Whether it is the first of its host for which there is none.
    """

    def __init__(self, local: int, there: int) -> None:
        super().__init__(f"local rank {local} needs a CUDA device of its own, this host has {there}")
        self.first = local == there


class World(NamedTuple):
    """This process among those of the run.

    Attributes:
        rank: Its number, from 0.
        size: How many there are.
        device: Where its tensors are.
        launched: Whether torchrun started it, and may tell it to stop.
    """

    rank: int
    size: int
    device: torch.device
    launched: bool = False

    @property
    def main(self) -> bool:
        """Whether it is the one that speaks for all."""
        return self.rank == 0


def read_world(device: str = "auto", environment: Mapping[str, str] = os.environ) -> World:
    """Read what torchrun tells a process.

    Args:
        device: ``cpu``, ``cuda``, or ``auto``: cuda where there is one.
        environment: The variables of the process. Without those of torchrun the process is alone.

    Raises:
        ValueError: The variables are not those of torchrun.
        MissingDeviceError: There is no CUDA device for this process.
    """
    launched = "RANK" in environment
    missing = [name for name in _NEEDED if name not in environment] if launched else []
    if missing:
        raise ValueError(f"RANK is set, but not {', '.join(missing)}; torchrun sets them all")
    rank, size, local = (_read_number(environment, name) if launched else least for name, least in _NUMBERS.items())
    if rank >= size:
        raise ValueError(f"RANK is {rank}, not below WORLD_SIZE, which is {size}")
    there = torch.cuda.device_count() if device != "cpu" and torch.cuda.is_available() else 0
    if device == "cpu" or (device == "auto" and not there):
        return World(rank, size, torch.device("cpu"), launched)
    if local >= there:
        raise MissingDeviceError(local, there)
    return World(rank, size, torch.device("cuda", local), launched)


def _read_number(environment: Mapping[str, str], name: str) -> int:
    text, least = environment.get(name, "0"), _NUMBERS[name]
    if not (text.isascii() and text.isdigit() and int(text) >= least):
        raise ValueError(f"{name} is {text!a}, not an integer from {least}, as torchrun sets it")
    return int(text)


@contextmanager
def open_world(world: World, timeout: float) -> Iterator[None]:
    """Join the other processes, and leave them in the end.

    Args:
        world: This process. Where torchrun started it, and SIGTERM is blocked for a watchdog, that ends it while it waits for the others.
        timeout: Seconds that any wait for another takes at most.

    Raises:
        JoinError: Another did not come.
    """
    progress = Progress()
    progress.phase = "waiting for the other ranks to start"
    with ExitStack() as stack:
        if world.launched and not count_unblocked():
            stack.enter_context(Watchdog(progress, world.rank, timeout, signals=True))
        try:
            _join(world, timedelta(seconds=timeout))
        except (RuntimeError, ValueError) as error:  # torch raises the latter for an address that is none
            reason = str(error).partition("\n")[0]
            raise JoinError(f"rank {world.rank} did not meet all {world.size} ranks within {timeout:g} s: {reason}") from error
    try:
        yield
    finally:
        dist.destroy_process_group()


def _join(world: World, limit: timedelta) -> None:
    if world.device.type == "cuda":
        torch.cuda.set_device(world.device)
        backend = "cpu:gloo,cuda:nccl"
    else:
        backend = "gloo"
    if world.launched:
        dist.init_process_group(backend, timeout=limit)
    else:
        dist.init_process_group(backend, store=HashStore(), rank=0, world_size=1, timeout=limit)
