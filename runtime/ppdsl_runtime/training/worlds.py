"""The processes of a run, as torchrun starts them."""

from __future__ import annotations

import os
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import distributed as dist
from torch._C._distributed_c10d import HashStore

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


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
        ValueError: There is no CUDA device for this process.
    """
    rank, size, local = (int(environment.get(name, default)) for name, default in (("RANK", 0), ("WORLD_SIZE", 1), ("LOCAL_RANK", 0)))
    launched = "RANK" in environment
    there = torch.cuda.device_count() if device != "cpu" and torch.cuda.is_available() else 0
    if device == "cpu" or (device == "auto" and not there):
        return World(rank, size, torch.device("cpu"), launched)
    if local >= there:
        raise ValueError(f"local rank {local} needs a CUDA device of its own, this host has {there}")
    return World(rank, size, torch.device("cuda", local), launched)


@contextmanager
def open_world(world: World, timeout: float) -> Iterator[None]:
    """Join the other processes, and leave them in the end.

    Args:
        world: This process.
        timeout: Seconds that any wait for another takes at most.
    """
    limit = timedelta(seconds=timeout)
    if world.device.type == "cuda":
        torch.cuda.set_device(world.device)
        backend = "cpu:gloo,cuda:nccl"
    else:
        backend = "gloo"
    if world.launched:
        dist.init_process_group(backend, timeout=limit)
    else:
        dist.init_process_group(backend, store=HashStore(), rank=0, world_size=1, timeout=limit)
    try:
        yield
    finally:
        dist.destroy_process_group()
