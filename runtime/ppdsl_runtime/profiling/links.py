"""What a message between two ranks costs."""

from __future__ import annotations

from statistics import median
from time import perf_counter

import torch
from torch import distributed as dist

_ENDS = 2


def measure_link(size: int, device: torch.device, *, samples: int = 50, warmup: int = 5) -> float:
    """Measure the time of one message between the ranks 0 and 1: half of a round trip's median.

    Every rank calls it.

    Args:
        size: Of the message, in bytes.
        device: Where this rank's tensors are.
        samples: How many round trips are made.
        warmup: How many of the first are dropped.

    Returns:
        The time in ms, the same on every rank; 0 where there is only one.
    """
    if dist.get_world_size() < _ENDS:
        return 0.0
    time = _measure(size, device, samples)[warmup:] if dist.get_rank() < _ENDS else []
    found = [median(time) / 2 * 1e3 if time else 0.0]
    dist.broadcast_object_list(found, src=0)
    return found[0]


def _measure(size: int, device: torch.device, samples: int) -> list[float]:
    there, back = (torch.zeros(size, dtype=torch.uint8, device=device) for _ in range(2))
    first = dist.get_rank() == 0
    times = []
    for _ in range(samples):
        begin = perf_counter()
        if first:
            dist.send(there, 1)
            dist.recv(back, 1)
        else:
            dist.recv(back, 0)
            dist.send(there, 0)
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        times.append(perf_counter() - begin)
    return times
