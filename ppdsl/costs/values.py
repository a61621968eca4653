"""Costs as plain data: times in ms, sizes in bytes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

KINDS = ("E", "t", "m", "N", "L")
"""The kinds of layer, as a layout writes them."""
BYTES_PER_PARAM = 18
"""Mixed precision with Adam: 2 for the weight, 4 for its gradient, 12 for the optimizer's copy of it and its two moments."""


@dataclass(frozen=True, slots=True)
class LayerCosts:
    """What a layer costs, or several of them together.

    Attributes:
        forward: Forward time of one microbatch.
        backward: Time of its whole backward, ``input_grad + weight_grad``.
        input_grad: Time of the first half of the backward.
        weight_grad: Time of the second half.
        params: Number of parameters.
        activation_bytes: What a microbatch holds from its forward to its backward.
        activation_bytes_after_input_grad: What is left of that until the second half of the backward, where the two are apart.
        workspace_bytes: The most that its forward, its backward or a half of it takes beside what is held, while it runs. Layers run one
            after the other, so of several together it is the largest.
    """

    forward: float = 0.0
    backward: float = 0.0
    input_grad: float = 0.0
    weight_grad: float = 0.0
    params: float = 0
    activation_bytes: float = 0
    activation_bytes_after_input_grad: float = 0
    workspace_bytes: float = 0

    @classmethod
    def of(cls, forward: float, input_grad: float, weight_grad: float, params: float = 0) -> LayerCosts:
        """Make the costs of a layer that holds no activations; its backward is the sum of the halves."""
        return cls(forward, input_grad + weight_grad, input_grad, weight_grad, params)

    @property
    def input_share(self) -> float:
        """The part of the backward that is its first half, from 0 to 1; a half where there is no backward."""
        return self.input_grad / self.backward if self.backward else 0.5


FREE = LayerCosts()
"""A layer that costs nothing."""


@dataclass(frozen=True, slots=True)
class Link:
    """The way from one rank to another, which takes one message at a time in each direction.

    Attributes:
        latency_us: Time from the end of a message's sending to its arrival, in µs.
        gigabytes_per_s: How fast it is sent, in 10^9 bytes a second; None is at once.
        message_bytes: Size of what one microbatch sends from stage to stage.
    """

    latency_us: float = 0.0
    gigabytes_per_s: float | None = None
    message_bytes: float = 0

    @property
    def sending_ms(self) -> float:
        """Time for which one message occupies the link."""
        return self.message_bytes / (self.gigabytes_per_s * 1e6) if self.gigabytes_per_s else 0.0


@dataclass(frozen=True, slots=True)
class Costs:
    """What the layers of a model cost, and what carries their messages.

    Attributes:
        kinds: The costs of one layer, by kind. A kind that is not there costs nothing.
        layers: The costs of single decoder layers, by number, where they differ from ``kinds["t"]``.
        p2p_ms: Time from the end of an action to the arrival of its output on another rank; not used where there is a link.
        link: The link of each directed pair of ranks; None for the pure delay.
        message_bytes: Size of what one microbatch sends from stage to stage; 0 where unknown.
        bytes_per_param: What a parameter holds: weight, gradient, optimizer state.
        memory_limit_bytes: Memory of a rank; None where it is not known.
        split: Whether the two halves of a decoder layer's backward are known, and not just assumed.
        num_layers: Decoder layers of the only model that these are the costs of, where each was listed or measured; None fits any.
    """

    kinds: Mapping[str, LayerCosts]
    layers: Mapping[int, LayerCosts] = field(default_factory=dict)
    p2p_ms: float = 0.0
    link: Link | None = None
    message_bytes: float = 0
    bytes_per_param: float = BYTES_PER_PARAM
    memory_limit_bytes: float | None = None
    split: bool = False
    num_layers: int | None = None


_UNIT_LAYER = LayerCosts.of(1.0, 1.0, 1.0)
UNIT_COSTS = Costs({"t": _UNIT_LAYER, "m": _UNIT_LAYER})
"""What is assumed where nothing is known: the forward of a layer takes 1, its backward 2, and all else nothing."""
