from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

torch = pytest.importorskip("torch")  # the runtime is tested where torch is among the tests' requirements

from ppdsl_runtime.transport.messages import Message, describe  # noqa: E402 -- they need torch
from ppdsl_runtime.transport.noop import NoopTransport  # noqa: E402

if TYPE_CHECKING:
    from torch import Tensor

METADATA = [describe([torch.zeros(2, 3)]), describe([torch.zeros(4, dtype=torch.int64)])]


def test_a_receive_gives_the_targets_tensors_zeroed_once() -> None:
    transport = NoopTransport(1, 4, METADATA)
    tensors = (torch.full((3,), 5.0), torch.full((2,), 6))
    assert transport.post(0, Message(0, "F", 0), lambda _wait: tensors).wait() is tensors
    assert [tensor.tolist() for tensor in tensors] == [[0.0] * 3, [0] * 2]
    tensors[0].fill_(1)
    transport.post(0, Message(0, "F", 1), lambda _wait: tensors).wait()
    assert tensors[0].tolist() == [1.0] * 3


def test_memory_that_grew_where_it_was_is_zeroed_again() -> None:
    transport = NoopTransport(1, 4, METADATA)
    storage = torch.full((8,), 3.0)
    transport.post(0, Message(0, "F", 0), lambda _wait: (storage[:2],)).wait()
    transport.post(0, Message(0, "F", 1), lambda _wait: (storage,)).wait()
    assert storage.tolist() == [0.0] * 8


def test_the_target_is_told_to_wait() -> None:
    asked: list[bool] = []

    def target(wait: bool) -> tuple[Tensor, ...]:  # noqa: FBT001 -- as the protocol has it
        asked.append(wait)
        return ()

    assert NoopTransport(1, 4, METADATA).post(0, Message(0, "B", 0), target).wait() == ()
    assert asked == [True]


def test_metadata_are_those_given_for_any_key() -> None:
    transport = NoopTransport(0, 2, METADATA)
    transport.announce("key", 1, METADATA[0])
    assert [transport.look_up(key, 1, wait=wait) for key in ("key", "another") for wait in (False, True)] == [METADATA[1]] * 4
    with pytest.raises(IndexError):
        transport.look_up("key", 2, wait=False)


def test_collectives_answer_for_the_others() -> None:
    transport = NoopTransport(1, 3, METADATA, values={0: ["key"]})
    assert [transport.broadcast(None, 0), transport.broadcast(5, 1), transport.broadcast(6, 2)] == [["key"], 5, 6]
    assert transport.gather("x") == ["x"] * 3
    tensor = torch.ones(2)
    transport.all_reduce(tensor, (0, 1))
    assert tensor.tolist() == [1.0, 1.0]


def test_sends_do_nothing() -> None:
    transport = NoopTransport(0, 2, METADATA, device="meta")
    transport.send(1, Message(0, "F", 0), (torch.ones(2, requires_grad=True),))
    transport.finish()
    transport.close()
    assert (transport.rank, transport.size, transport.device.type, str(transport.progress)) == (0, 2, "meta", "starting")
