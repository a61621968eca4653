"""Weight gradients put off: the same gradients, by the same hooks, later."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn
from transformers.pytorch_utils import Conv1D

from ppdsl_runtime.chunks.deferring import Deferral
from ppdsl_runtime.executor.buffers import Slot
from ppdsl_runtime.transport.messages import TensorMeta


class Twice(nn.Module):
    """Linear layers of all kinds, one of them used twice, one a subclass, and a bias that stands alone."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.linear = nn.Linear(4, 4)
        self.bare = nn.Linear(4, 6, bias=False)
        self.conv: nn.Module = Conv1D(5, 6)  # type: ignore[no-untyped-call]  # theirs
        self.odd = nn.modules.linear.NonDynamicallyQuantizableLinear(5, 2)
        self.shift = nn.Parameter(torch.zeros(4))
        with torch.no_grad():
            for weight in self.parameters():
                weight.copy_(torch.randn(weight.shape, generator=generator))

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.odd(self.conv(torch.tanh(self.bare(self.linear(torch.tanh(self.linear(hidden))) + self.shift))))
        return found


def inputs(*, needs_grad: bool = True) -> torch.Tensor:
    return torch.randn(3, 2, 4, generator=torch.Generator().manual_seed(1)).requires_grad_(needs_grad)


@pytest.mark.parametrize("needs_grad", [True, False])
@pytest.mark.parametrize("dtype", [None, torch.bfloat16])
def test_both_halves_give_the_whole(needs_grad: bool, dtype: torch.dtype | None) -> None:  # noqa: FBT001 -- a parameter
    module = Twice()
    whole = copy.deepcopy(module)
    hidden, twin = inputs(needs_grad=needs_grad), inputs(needs_grad=needs_grad)
    calls: list[str] = []
    for model in (module, whole):
        weight: Any = model.bare.weight  # torch leaves its hooks untyped
        weight.register_hook(lambda grad: grad * 2)
        weight.register_post_accumulate_grad_hook(lambda _: calls.append("post"))
    deferral = Deferral([module])
    deferral.active = True
    with torch.autocast("cpu", dtype, enabled=dtype is not None):
        one, other = module(hidden), whole(twin)
    assert torch.equal(one, other)
    other.sum().backward()
    calls.clear()
    with deferral.putting_off() as store:
        one.sum().backward()
    put_off = {name for name, weight in module.named_parameters() if weight.grad is None}
    assert put_off == {"linear.weight", "bare.weight", "conv.weight"}
    assert calls == []
    assert len(store.products) == 4
    store.run()
    assert calls == ["post"]
    assert store.products == []
    bound: dict[str, Any] = {"rtol": 1e-5, "atol": 1e-6} if dtype is None else {"rtol": 2e-2, "atol": 2e-2}
    for (name, weight), right in zip(module.named_parameters(), whole.parameters(), strict=True):
        torch.testing.assert_close(weight.grad, right.grad, msg=name, **bound)
    torch.testing.assert_close(hidden.grad, twin.grad, **bound)


def test_nothing_is_put_off_where_it_is_not_asked_for_or_once_removed() -> None:
    module = Twice()
    plain = module.linear.forward
    deferral = Deferral([module, module])
    module(inputs()).sum().backward()
    assert all(weight.grad is not None for weight in module.parameters())
    deferral.active = True
    module.bare.weight.requires_grad = False
    module.zero_grad()
    with deferral.putting_off() as store:
        module(inputs()).sum().backward()
    assert len(store.products) == 3
    deferral.remove()
    assert module.linear.forward == plain
    assert "forward" not in vars(module.conv)


def test_a_gradient_in_a_receive_buffer_is_copied_before_the_buffer_is_used_again() -> None:
    linear = nn.Linear(4, 4)
    slot = Slot(torch.device("cpu"))
    deferral = Deferral([linear])
    deferral.active = True
    output = linear(torch.ones(2, 4))
    (gradient,) = slot.take((TensorMeta((2, 4), torch.float32, needs_grad=True),))
    gradient.fill_(3)
    with deferral.putting_off() as store:
        output.backward(gradient)
    store.separate(slot)
    gradient.fill_(100)
    store.run()
    assert linear.weight.grad is not None
    assert torch.equal(linear.weight.grad, torch.full((4, 4), 6.0))


def test_a_slot_grows_and_gives_tensors_with_versions_of_their_own() -> None:
    slot = Slot(torch.device("cpu"))
    small = (TensorMeta((3,), torch.int64, needs_grad=False), TensorMeta((2, 2), torch.bfloat16, needs_grad=True))
    first, second = slot.take(small)
    assert (first.shape, first.dtype, second.shape, second.dtype) == ((3,), torch.int64, (2, 2), torch.bfloat16)
    again, _ = slot.take(small)
    again.add_(1)
    assert (first._version, again._version) == (0, 1)  # noqa: SLF001 -- what is tested
    assert first.data_ptr() == again.data_ptr()
    size = slot.nbytes
    slot.take((TensorMeta((1000,), torch.float32, needs_grad=True),))
    assert slot.nbytes == 4000 > size
    slot.take(small)
    assert slot.nbytes == 4000
    assert slot.holds(slot.take(small)[0])
    assert not slot.holds(torch.zeros(1))
    assert slot.take((TensorMeta((0, 4), torch.float32, needs_grad=True),))[0].shape == (0, 4)
