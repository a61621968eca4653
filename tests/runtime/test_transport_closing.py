"""How communicators are made and closed where they are NCCL's; what stands for them does nothing by itself."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

torch = pytest.importorskip("torch")  # the runtime is tested where torch is among the tests' requirements

from torch import distributed as dist  # noqa: E402 -- after the skip, like what needs torch
from torch._C._distributed_c10d import HashStore  # noqa: E402

from ppdsl.lowering import Instruction  # noqa: E402
from ppdsl_runtime.progress import Progress  # noqa: E402
from ppdsl_runtime.transport import connecting  # noqa: E402
from ppdsl_runtime.transport.communicators import make_nccl  # noqa: E402
from ppdsl_runtime.transport.distributed import DistributedTransport  # noqa: E402
from ppdsl_runtime.transport.faults import PeerError, naming_peer  # noqa: E402
from ppdsl_runtime.transport.messages import Message  # noqa: E402


class Group:
    """A communicator that notes how it was closed."""

    def __init__(self) -> None:
        self.closed: list[str] = []

    def send(self, _tensors: list[Any], _peer: int, _tag: int) -> Group:
        return self

    recv = send

    def is_completed(self) -> bool:
        return False

    def wait(self) -> None:
        """Be the work of its own transfers: hold up nobody."""

    def shutdown(self) -> None:
        self.closed.append("shutdown")

    def abort(self) -> None:
        self.closed.append("abort")


@pytest.fixture
def groups(monkeypatch: pytest.MonkeyPatch) -> dict[str, Group]:
    """Have rank 0 of 2 connect to nobody."""
    made = {name: Group() for name in ("control", "there", "back", "sum")}
    channels: Any = {(0, 1): made["there"], (1, 0): made["back"]}
    reductions: Any = {(0, 1): made["sum"]}
    control: Any = made["control"]
    connections = connecting.Connections(control, HashStore(), channels, reductions)
    monkeypatch.setattr(dist, "get_rank", lambda _group: 0)
    monkeypatch.setattr(dist, "get_world_size", lambda _group: 2)
    monkeypatch.setattr(connecting, "open_store", lambda _group: HashStore())
    monkeypatch.setattr(connecting, "connect", lambda *_: connections)
    return made


def test_between_steps_communicators_are_shut_down(groups: dict[str, Group]) -> None:
    transport = DistributedTransport([(0, 1), (1, 0)], device="cuda")
    transport.send(1, Message(0, "F", 0), (torch.ones(1),))
    transport.post(1, Message(0, "B", 0), lambda _wait: (torch.ones(1),)).wait()
    transport.finish()
    transport.close()
    assert [group.closed for group in groups.values()] == [["shutdown"]] * 4


@pytest.mark.parametrize("place", [{"instruction": Instruction(0, "F", 0)}, {"message": Message(0, "B", 0)}])
def test_inside_a_step_that_failed_they_are_aborted_since_what_is_under_way_may_never_land(
    groups: dict[str, Group], place: dict[str, Any]
) -> None:
    transport = DistributedTransport([(0, 1), (1, 0)], device="cuda")
    transport.finish()
    for name, value in place.items():  # where the walk, or a wait, has left it
        setattr(transport.progress, name, value)
    transport.close()
    assert [group.closed for group in groups.values()] == [["shutdown"], ["abort"], ["abort"], ["abort"]]


def test_a_send_that_a_step_leaves_under_way_is_told_to_the_watchdog(groups: dict[str, Group]) -> None:
    transport = DistributedTransport([(0, 1), (1, 0)], device="cuda")
    transport.send(1, Message(0, "F", 0), (torch.ones(1),))
    transport.finish()
    assert transport.in_flight() == "the activation of stage 0 for microbatch 0 to rank 1"
    assert not groups["there"].closed


def test_nccl_is_given_twice_the_time_so_that_a_watchdog_speaks_first(monkeypatch: pytest.MonkeyPatch) -> None:
    class Nccl:
        class Options:
            _timeout = timedelta()
            group_name = ""

        def __init__(self, _store: object, rank: int, size: int, options: Options) -> None:
            self.made = (rank, size, options._timeout, options.group_name)  # noqa: SLF001 -- so is the option called

    monkeypatch.setattr(dist, "ProcessGroupNCCL", Nccl, raising=False)
    group: Any = make_nccl(HashStore(), 1, 2, 30.0, "ppdsl from 0 to 1")
    assert group.made == (1, 2, timedelta(seconds=60), "ppdsl from 0 to 1")


@pytest.mark.parametrize(
    ("error", "seen", "text"),
    [
        (RuntimeError("[socket.cpp:1] gone. It was there"), PeerError, "rank 1, connecting to rank 0: gone"),
        (TypeError("cannot pickle it"), TypeError, "cannot pickle it"),
    ],
)
def test_a_rank_is_back_where_it_was_after_an_error(error: Exception, seen: type[Exception], text: str) -> None:
    progress = Progress()

    def connect() -> None:
        with naming_peer(1, progress, "connecting to rank 0", 0):
            assert progress.phase == "connecting to rank 0"
            raise error

    with pytest.raises(seen, match=f"^{text}$"):
        connect()
    assert str(progress) == "starting"
