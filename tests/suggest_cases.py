"""Costs and problems to search with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ppdsl.costs import Costs, LayerCosts, Link
from ppdsl.suggesting import Problem

if TYPE_CHECKING:
    from random import Random


def weigh(**forwards: float) -> Costs:
    """Make costs from forward times by kind; a backward is twice as long. What is ``c`` is the delay between ranks."""
    delay = forwards.pop("c", 0.0)
    return Costs({kind: LayerCosts.of(forward, forward, forward) for kind, forward in forwards.items()}, p2p_ms=delay)


def draw_layer(random: Random) -> LayerCosts:
    """Some layer, now and then one that costs nothing, or whose halves are out of proportion."""
    forward = random.choice((0.0, 0.05, 0.5, 1.0, 2.4, 3 * random.random()))
    halves = random.choice((forward, 1.2 * forward, random.random())), random.choice((forward, random.random()))
    activation = random.choice((0, 50, 200))
    rest = activation * random.choice((0, 0.5, 1.5))
    workspace = (0, 30, 300)[int(100 * sum(halves)) % 3]
    return LayerCosts(forward, sum(halves), *halves, random.choice((0, 10, 100)), activation, rest, workspace)


def draw_problem(random: Random, **given: Any) -> Problem:  # noqa: ANN401 -- fields of any type
    """A problem that is small enough to look at every layout."""
    layers = random.randint(2, 6)
    link = random.choice((None, None, Link(10, 0.0001 + 0.001 * random.random(), 100), Link(100, None, 50)))
    costs = Costs(
        {kind: draw_layer(random) for kind in "EtmNL"},
        {layer: draw_layer(random) for layer in range(layers) if random.random() < 0.3} if random.random() < 0.4 else {},
        p2p_ms=random.choice((0, 0, 0.05, 0.7)),
        link=link,
        message_bytes=link.message_bytes if link is not None else 0,
        bytes_per_param=random.choice((1, 18)),
        memory_limit_bytes=random.choice((None, None, random.randint(500, 6000))),
    )
    fields: dict[str, Any] = {
        "pp": random.choice((1, 2, 2, 3)),
        "microbatches": random.choice((1, 2, 3, 6)),
        "mtp_num_layers": random.choice((0, 0, 1, 2)),
        "objective": random.choice(("makespan", "makespan", "span")),
        "min_layers": random.choice((None, None, 0, 1)),
        "unit": random.choice((1, 1, 2)),
    }
    return Problem(costs, layers, **(fields | given))
