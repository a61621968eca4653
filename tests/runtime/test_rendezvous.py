from __future__ import annotations

import re
import threading
import time
from typing import TYPE_CHECKING

import pytest

torch = pytest.importorskip("torch")  # the runtime is tested where torch is among the tests' requirements

from ppdsl_runtime.transport.faults import MismatchError, PeerError  # noqa: E402 -- they need torch
from ppdsl_runtime.transport.messages import Message, TensorMeta, backward_metadata, describe  # noqa: E402
from ppdsl_runtime.transport.rendezvous import RendezvousTransport, make_rendezvous, run_ranks  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from ppdsl_runtime.transport.interface import Target

F0, F1, B0 = Message(0, "F", 0), Message(0, "F", 1), Message(0, "B", 0)
SECONDS = 20.0
"""Until a wait is given up, where it should not be."""
SHORT = 0.3
"""Where it should."""


def into(*tensors: Tensor) -> Target:
    """A target that knows its metadata."""
    return lambda _wait: tensors


def run_two(
    first: Callable[[RendezvousTransport], object], second: Callable[[RendezvousTransport], object], timeout: float
) -> list[object]:
    return run_ranks(make_rendezvous(2, timeout), lambda end: (first, second)[end.rank](end))


def test_a_message_is_copied_into_the_targets_tensors() -> None:
    sources = (torch.arange(6.0, requires_grad=True).reshape(2, 3), torch.tensor(7), torch.empty(0, 4))
    targets = (torch.zeros(3, 2).T, torch.tensor(0), torch.empty(0, 4))

    def receive(end: RendezvousTransport) -> None:
        received = end.post(0, F0, into(*targets)).wait()
        assert all(tensor is target for tensor, target in zip(received, targets, strict=True))

    def send(end: RendezvousTransport) -> None:
        end.send(1, F0, sources)
        end.finish()

    run_two(send, receive, SECONDS)
    assert torch.equal(targets[0], torch.arange(6.0).reshape(2, 3))
    assert targets[1].item() == 7
    assert not targets[0].requires_grad


def test_the_empty_message_is_one_too() -> None:
    def receive(end: RendezvousTransport) -> None:
        assert end.post(0, B0, into()).wait() == ()

    run_two(lambda end: end.send(1, B0, ()), receive, SECONDS)


def test_a_send_blocks_until_its_message_is_posted() -> None:
    posted: list[float] = []
    sent: list[float] = []

    def send(end: RendezvousTransport) -> None:
        end.send(1, F0, ())
        sent.append(time.monotonic())

    def receive(end: RendezvousTransport) -> None:
        time.sleep(SHORT)
        posted.append(time.monotonic())
        end.post(0, F0, into()).wait()

    run_two(send, receive, SECONDS)
    assert sent[0] >= posted[0]


def test_two_sends_that_await_each_other_are_a_deadlock() -> None:
    def work(end: RendezvousTransport) -> None:
        end.send(1 - end.rank, F0, ())
        end.post(1 - end.rank, F0, into())

    with pytest.raises(
        PeerError, match=r"^rank \d, starting, waiting for rank \d to take the activation of stage 0 for microbatch 0: nothing"
    ):
        run_ranks(make_rendezvous(2, SHORT), work)


def test_sources_are_held_until_they_are_copied() -> None:
    taken = threading.Event()
    finished: list[bool] = []

    def send(end: RendezvousTransport) -> None:
        end.send(1, F0, (torch.ones(3),))
        end.finish()
        finished.append(taken.is_set())

    def receive(end: RendezvousTransport) -> Tensor:
        receipt = end.post(0, F0, into(torch.zeros(3)))
        time.sleep(SHORT)
        taken.set()
        return receipt.wait()[0]

    assert torch.equal(run_two(send, receive, SECONDS)[1], torch.ones(3))
    assert finished == [True]


def test_messages_out_of_order_are_refused_with_both_names() -> None:
    def receive(end: RendezvousTransport) -> None:
        end.post(0, F1, into()).wait()

    text = "rank 0 sends the activation of stage 0 for microbatch 0, but rank 1 expects the activation of stage 0 for microbatch 1 from it"
    with pytest.raises(MismatchError, match=f"^{text}$"):
        run_two(lambda end: end.send(1, F0, ()), receive, SECONDS)


@pytest.mark.parametrize("target", [(torch.zeros(3),), (torch.zeros(2, dtype=torch.int64),), (), (torch.zeros(2), torch.zeros(2))])
def test_other_tensors_than_expected_are_refused(target: tuple[Tensor, ...]) -> None:
    def receive(end: RendezvousTransport) -> None:
        end.post(0, F0, into(*target)).wait()

    with pytest.raises(MismatchError, match=r"^the activation of stage 0 for microbatch 0: rank 0 sent \[.*\], rank 1 expects \["):
        run_two(lambda end: end.send(1, F0, (torch.ones(2),)), receive, SECONDS)


def test_a_target_without_metadata_is_refused() -> None:
    def receive(end: RendezvousTransport) -> None:
        end.post(0, F0, lambda _wait: None).wait()

    with pytest.raises(MismatchError, match=r"^the activation of stage 0 for microbatch 0 from rank 0 has no metadata on rank 1$"):
        run_two(lambda end: end.send(1, F0, (torch.ones(2),)), receive, SECONDS)


def test_a_wait_for_nothing_names_message_and_peer() -> None:
    def receive(end: RendezvousTransport) -> None:
        end.post(0, B0, into()).wait()

    with pytest.raises(PeerError) as caught:
        run_two(lambda _end: None, receive, SHORT)
    error = caught.value
    assert (error.rank, error.message, error.peer, error.cause) == (1, B0, 0, "nothing came within 0.3 s")
    assert error.doing == "starting, waiting for the gradient from stage 1 for microbatch 0 from rank 0"


WAITS: dict[str, Callable[[RendezvousTransport], object]] = {
    "send": lambda end: end.send(0, F0, ()),
    "receive": lambda end: end.post(0, F0, into()).wait(),
    "sum": lambda end: end.all_reduce(torch.ones(1), (0, 1)),
    "broadcast": lambda end: end.broadcast(1, 0),
    "gather": lambda end: end.gather(1),
    "look up": lambda end: end.look_up("key", 0, wait=True),
}


@pytest.mark.parametrize("name", WAITS)
def test_a_failure_releases_the_others_from_any_wait(name: str) -> None:
    ends = make_rendezvous(2, SECONDS)
    errors: list[BaseException] = []

    def work(end: RendezvousTransport) -> None:
        if end.rank == 0:
            time.sleep(0.05)
            raise ArithmeticError("no more")
        try:
            WAITS[name](end)
        except PeerError as error:
            errors.append(error)
            raise

    begin = time.monotonic()
    with pytest.raises(ArithmeticError, match=r"^no more$"):
        run_ranks(ends, work)
    assert time.monotonic() - begin < SECONDS / 2
    assert [str(error).rsplit(": stopped because ")[1] for error in errors] == ["rank 0 failed: ArithmeticError: no more"]


def test_sums_are_the_same_bits_on_all_ranks_of_a_set() -> None:
    results: dict[int, Tensor] = {}

    def work(end: RendezvousTransport) -> None:
        tensor = torch.full((2,), 0.1 * (end.rank + 1), dtype=torch.bfloat16)
        if end.rank != 1:
            end.all_reduce(tensor, (0, 2))
        end.all_reduce(tensor, (0, 1, 2))
        end.all_reduce(tensor, (end.rank,))
        results[end.rank] = tensor

    parts = [torch.full((2,), 0.1 * (rank + 1), dtype=torch.bfloat16) for rank in range(3)]
    outer = parts[0] + parts[2]
    run_ranks(make_rendezvous(3, SECONDS), work)
    assert all(torch.equal(results[rank], outer + parts[1] + outer) for rank in range(3))


def test_collectives_copy_and_may_follow_each_other() -> None:
    def work(end: RendezvousTransport) -> list[object]:
        value = [end.rank]
        results = [end.broadcast(value, 2), end.gather(value), *(end.gather((end.rank, i)) for i in range(20))]
        value.append(99)
        return results

    expected = [[2], [[0], [1], [2]], *([(rank, i) for rank in range(3)] for i in range(20))]
    assert run_ranks(make_rendezvous(3, SECONDS), work) == [expected] * 3


@pytest.mark.parametrize(
    ("others", "text"),
    [
        (lambda end: end.gather(1), "gather"),
        (lambda end: end.broadcast(1, 1), "broadcast from rank 1"),
        (lambda end: end.all_reduce(torch.ones(3), (0, 1)), "all_reduce of torch.float32 (3,)"),
    ],
)
def test_different_collectives_are_refused(others: Callable[[RendezvousTransport], object], text: str) -> None:
    def second(end: RendezvousTransport) -> None:
        time.sleep(0.05)
        others(end)

    with pytest.raises(MismatchError, match=f"^rank 1 calls {re.escape(text)}, but rank 0 calls broadcast from rank 0$"):
        run_two(lambda end: end.broadcast(1, 0), second, SECONDS)


def test_what_is_announced_is_looked_up() -> None:
    metadata = describe([torch.zeros(2, 3, requires_grad=True), torch.zeros(4, dtype=torch.int32)])

    def announce(end: RendezvousTransport) -> object:
        missing = end.look_up("key", 3, wait=False)
        end.broadcast(None, 0)
        end.announce("key", 3, metadata)
        return missing

    def look_up(end: RendezvousTransport) -> object:
        end.broadcast(None, 0)
        return end.look_up("key", 3, wait=True)

    assert run_two(announce, look_up, SECONDS) == [None, metadata]
    assert metadata == (TensorMeta((2, 3), torch.float32, needs_grad=True), TensorMeta((4,), torch.int32, needs_grad=False))
    assert backward_metadata(metadata) == metadata[:1]


def test_nobody_is_waited_for_afterwards() -> None:
    def exchange(end: RendezvousTransport) -> str:
        if end.rank == 0:
            end.send(1, F0, ())
            end.finish()
        else:
            end.post(0, F0, into()).wait()
        end.close()
        return str(end.progress)

    assert run_two(exchange, exchange, SECONDS) == ["starting", "starting"]


class Slow:
    """A value that takes some time to copy on other ranks than 0."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __deepcopy__(self, _: object) -> Slow:
        if threading.current_thread().name != "rank 0":
            time.sleep(SHORT)
        return Slow(self.text)


@pytest.mark.parametrize("collective", [lambda end, value: end.broadcast(value, 0), lambda end, value: end.gather(value)[0]])
def test_what_a_rank_does_with_its_value_afterwards_is_its_own_affair(collective: Callable[[RendezvousTransport, Slow], Slow]) -> None:
    def change(end: RendezvousTransport) -> None:
        value = Slow("as it was")
        collective(end, value)
        value.text = "changed"

    assert run_two(change, lambda end: collective(end, Slow("")).text, SECONDS)[1] == "as it was"
