from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ppdsl.costs import ModelShape, costs_from_shape

SIZES = {"hidden": 4096, "seq": 2048, "vocab": 256_000, "batch": 2, "tflops": 500.0}


def shape(**sizes: object) -> ModelShape:
    return ModelShape(**{**SIZES, **sizes})  # type: ignore[arg-type]  # the names are those of the class


@given(st.integers(1, 20_000), st.integers(1, 20_000), st.integers(1, 300_000), st.integers(1, 16), st.floats(0.1, 2000))
def test_the_counts_are_those_of_the_published_table(h: int, s: int, v: int, b: int, tflops: float) -> None:
    costs = costs_from_shape(ModelShape(h, s, v, b, tflops))
    flops = {kind: (layer.forward + layer.backward) * tflops * 1e9 for kind, layer in costs.kinds.items()}
    assert flops["t"] == pytest.approx(b * s * h * (72 * h + 12 * s))
    assert flops["E"] == pytest.approx(3 * b * s * h)
    assert flops["L"] == pytest.approx(6 * b * s * h * v)
    assert {kind: layer.params for kind, layer in costs.kinds.items()} == {"E": h * v, "t": 12 * h * h, "m": 12 * h * h, "L": h * v}
    assert costs.message_bytes == 2 * b * s * h


def test_the_backward_is_split_as_24h_8s_to_24h() -> None:
    layer = costs_from_shape(shape()).kinds["t"]
    h, s = 4096, 2048
    assert layer.input_grad / layer.weight_grad == pytest.approx((24 * h + 8 * s) / (24 * h))
    assert layer.forward / layer.weight_grad == pytest.approx((24 * h + 4 * s) / (24 * h))
    assert layer.backward == layer.input_grad + layer.weight_grad
    assert costs_from_shape(shape()).kinds["E"].input_grad == 0.0
    loss = costs_from_shape(shape()).kinds["L"]
    assert loss.forward == loss.input_grad == loss.weight_grad
    assert costs_from_shape(shape()).split


def test_times_are_in_ms() -> None:
    assert costs_from_shape(ModelShape(1000, 1, 1, 1, 0.001)).kinds["E"].forward == 0.001


@pytest.mark.parametrize(
    ("sizes", "params"),
    [
        ({}, 12 * 4096**2),
        ({"heads": 32}, 12 * 4096**2),
        ({"heads": 32, "kv_heads": 32}, 12 * 4096**2),
        ({"heads": 32, "kv_heads": 8}, (2 + 2 / 4 + 8) * 4096**2),
        ({"ffn": 14336}, 4 * 4096**2 + 2 * 4096 * 14336),
        ({"ffn": 14336, "gated": True}, 4 * 4096**2 + 3 * 4096 * 14336),
        # LLaMA 3 8B, whose layers have 218,112,000 parameters, 8,192 of them in norms.
        ({"heads": 32, "kv_heads": 8, "ffn": 14336, "gated": True}, 218_112_000 - 8_192),
    ],
)
def test_parameters_of_other_shapes(sizes: dict[str, object], params: float) -> None:
    assert shape(**sizes).layer_params == params


def test_products_go_with_the_parameters_and_scores_do_not() -> None:
    usual, grouped = shape(heads=32).layer_flops, shape(heads=32, kv_heads=8).layer_flops
    saved = 2 * 2 * 2048 * (shape().layer_params - shape(heads=32, kv_heads=8).layer_params)
    assert [one - other for one, other in zip(usual, grouped, strict=True)] == [saved] * 3


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"hidden": 0}, "hidden is 0, not an integer from 1"),
        ({"seq": 1.5}, "seq is 1.5, not an integer from 1"),
        ({"vocab": True}, "vocab is True, not an integer from 1"),
        ({"ffn": -1}, "ffn is -1, not an integer from 1"),
        ({"tflops": 0}, "tflops is 0, not a finite number above 0"),
        ({"tflops": float("nan")}, "tflops is nan, not a finite number above 0"),
        ({"tflops": float("inf")}, "tflops is inf, not a finite number above 0"),
        ({"tflops": True}, "tflops is True, not a finite number above 0"),
        ({"kv_heads": 8}, "kv_heads is given without heads"),
        ({"heads": 12, "kv_heads": 8}, "heads is 12, which is not a multiple of kv_heads = 8"),
    ],
)
def test_sizes_that_cannot_be_are_refused(sizes: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        shape(**sizes)
