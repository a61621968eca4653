"""Both ends of a channel where waits do not hold up the host, as with NCCL; what stands for its communicator does nothing by itself."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")  # the runtime is tested where torch is among the tests' requirements

from ppdsl_runtime.progress import Progress  # noqa: E402 -- they need torch
from ppdsl_runtime.transport.channels import Incoming, Outgoing, Wire  # noqa: E402
from ppdsl_runtime.transport.messages import Message  # noqa: E402

F0, F1, F2 = (Message(0, "F", batch) for batch in range(3))


class Work:
    """A transfer that lands when it is told to; a wait for it holds up nobody."""

    def __init__(self) -> None:
        self.landed = False
        self.waits = 0

    def is_completed(self) -> bool:
        return self.landed

    def wait(self) -> None:
        self.waits += 1


class Group:
    """A communicator whose transfers are there to be looked at.

    Attributes:
        tensors: What was sent or is to be received into.
        works: One for each.
    """

    def __init__(self) -> None:
        self.tensors: list[Any] = []
        self.works: list[Work] = []

    def send(self, tensors: list[Any], peer: int, tag: int) -> Work:
        assert (peer, tag) in {(0, 0), (1, 0)}
        self.tensors += tensors
        self.works.append(Work())
        return self.works[-1]

    recv = send


def wire_of(group: Any, device: str = "cuda") -> Wire:  # noqa: ANN401 -- stands for a communicator
    """Give what a channel to rank 1 runs over."""
    return Wire(group, 0, 1, torch.device(device), debug=False, progress=Progress())


def test_the_oldest_message_is_the_first_that_has_not_landed() -> None:
    group = Group()
    channel = Incoming(wire_of(group))
    assert channel.oldest() is None
    for message in (F0, F1):
        channel.post(message, lambda _wait: (torch.zeros(2), torch.zeros(3)))
    assert channel.oldest() == F0
    group.works[0].landed = True
    assert channel.oldest() == F0, "its second tensor is still under way"
    group.works[1].landed = True
    assert channel.oldest() == F1, "though nothing was posted since, by which the first is let go of"
    for work in group.works:
        work.landed = True
    assert channel.oldest() is None


def test_a_message_that_has_failed_is_left_to_the_main_thread() -> None:
    group = Group()
    channel = Incoming(wire_of(group))
    channel.post(F0, lambda _wait: (torch.zeros(2),))

    def fail() -> bool:
        raise RuntimeError("unhandled system error")

    group.works[0].is_completed = fail  # type: ignore[method-assign]
    assert channel.oldest() is None


def test_what_a_step_leaves_under_way_stays_in_sight_until_it_has_landed() -> None:
    group = Group()
    channel = Outgoing(wire_of(group))
    for message in (F0, F1):
        channel.send(message, (torch.ones(2),), 1)
    group.works[0].landed = True
    channel.finish()
    assert [work.waits for work in group.works] == [1, 1]
    assert [flight.message for flight in channel.flights] == [F1]
    assert channel.oldest() == F1
    group.works[1].landed = True
    assert channel.oldest() is None
    channel.send(F2, (torch.ones(2),), 1)
    assert [flight.message for flight in channel.flights] == [F2], "the next send lets go of what has landed"


def test_where_waits_block_a_step_leaves_nothing_under_way() -> None:
    group = Group()
    channel = Outgoing(wire_of(group, "cpu"))
    for message in (F0, F1):
        channel.send(message, (torch.ones(2),), 0)
    channel.finish()
    assert [work.waits for work in group.works] == [1, 1]
    assert not channel.flights


@pytest.mark.parametrize("dtype", [torch.int16, torch.complex64, torch.float8_e4m3fn, torch.uint16])
def test_types_that_nccl_does_not_move_go_as_the_bytes_of_their_own_memory(dtype: Any) -> None:  # noqa: ANN401 -- a dtype of torch's
    group = Group()
    sent, received = torch.ones(2, 3, dtype=dtype), torch.zeros(2, 3, dtype=dtype)
    Outgoing(wire_of(group)).send(F0, (sent,), 0)
    Incoming(wire_of(group)).post(F0, lambda _wait: (received,))
    for bytewise, tensor in zip(group.tensors, (sent, received), strict=True):
        assert (bytewise.dtype, bytewise.numel(), bytewise.data_ptr()) == (torch.uint8, tensor.nbytes, tensor.data_ptr())


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_tensor_that_is_conjugated_or_negated_on_reading_is_written_out_first(device: str) -> None:
    group = Group()
    number = torch.tensor([1 + 2j, 3 - 4j])
    sources = (number.conj(), number.conj().imag, number.conj().reshape(2, 1).expand(2, 2))
    assert [source.is_conj() or source.is_neg() for source in sources] == [True] * 3
    Outgoing(wire_of(group, device)).send(F0, sources, 0)
    for sent, source in zip(group.tensors, sources, strict=True):
        assert (sent.is_conj(), sent.is_neg()) == (False, False)
        assert torch.equal(sent.view(source.dtype).view(source.shape), source)
