from __future__ import annotations

import json
import re
import time
from copy import deepcopy
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ppdsl.costs import FREE, SCHEMA, LayerCosts, Link, ModelShape, read_costs
from tests.test_costs import EXAMPLE

if TYPE_CHECKING:
    from hypothesis.strategies import DrawFn


def kinds(**given: dict[str, object]) -> dict[str, object]:
    return {"kinds": {"t": {"forward": 1}, **given}}


def layer(**fields: object) -> LayerCosts:
    return read_costs({"kinds": {"t": {"forward": 1, **fields}}}).kinds["t"]


def test_reads_the_example_of_the_reference() -> None:
    costs = read_costs(json.dumps(EXAMPLE))
    assert costs == read_costs(EXAMPLE)
    assert costs.kinds["E"] == LayerCosts(0.05, 0.1, 0.0, 0.1, 39000000, 0, 0)
    assert costs.kinds["t"] == LayerCosts(1.0, 2.0, 1.0, 1.0, 7, 90, 30)
    assert costs.kinds["L"] == LayerCosts(2.4, 5.1, 2.5, 2.6)
    assert costs.layers == {0: LayerCosts(1.4, 2.8, 1.4, 1.4, 7, 90, 30)}
    assert costs.link == Link(8, 50, 8388608)
    assert (costs.message_bytes, costs.p2p_ms) == (8388608, 0.0)
    assert (costs.bytes_per_param, costs.memory_limit_bytes) == (16, 150000000000)
    assert not costs.split


def test_all_but_the_forward_of_t_may_be_left_out() -> None:
    costs = read_costs({"kinds": {"t": {"forward": 1}}})
    assert costs.kinds == {"t": LayerCosts(1, 2, 1.0, 1.0), "m": LayerCosts(1, 2, 1.0, 1.0)}
    assert (costs.layers, costs.p2p_ms, costs.link, costs.message_bytes) == ({}, 0.0, None, 0)
    assert (costs.bytes_per_param, costs.memory_limit_bytes) == (18, None)


def test_the_empty_kind_costs_nothing() -> None:
    assert read_costs(kinds(L={})).kinds["L"] == FREE


@pytest.mark.parametrize(
    ("fields", "backward", "input_grad", "weight_grad"),
    [
        ({}, 2, 1.0, 1.0),
        ({"backward": 3}, 3, 1.5, 1.5),
        ({"input_grad": 2, "weight_grad": 0.5}, 2.5, 2, 0.5),
        ({"backward": 3, "input_grad": 2}, 3, 2, 1),
        ({"backward": 3, "weight_grad": 3}, 3, 0, 3),
        ({"backward": 2.50000001, "input_grad": 2, "weight_grad": 0.5}, 2.5, 2, 0.5),
        ({"backward": 0}, 0, 0.0, 0.0),
    ],
)
def test_the_backward_and_its_halves(fields: dict[str, object], backward: float, input_grad: float, weight_grad: float) -> None:
    assert layer(**fields) == LayerCosts(1, backward, input_grad, weight_grad)


def test_the_backward_of_the_embedding_is_all_weight_gradient() -> None:
    assert read_costs(kinds(E={"forward": 0.5})).kinds["E"] == LayerCosts(0.5, 1.0, 0.0, 1.0)
    assert read_costs(kinds(E={"input_grad": 1, "weight_grad": 2})).kinds["E"] == LayerCosts(0.0, 3, 1, 2)


def test_the_shape_says_how_a_decoder_layer_is_split() -> None:
    shape = ModelShape(hidden=1024, seq=3072, vocab=50_000, batch=1, tflops=1.0)
    costs = read_costs({"kinds": {"t": {"forward": 24, "backward": 48}, "L": {"forward": 1}}}, shape)
    # 24h + 8s : 24h is 1 + s/3h : 1.
    assert costs.kinds["t"].input_grad == pytest.approx(48 * 2 / 3)
    assert costs.kinds["m"] == costs.kinds["t"]
    assert costs.kinds["L"].input_grad == 1.0


@pytest.mark.parametrize(
    ("like", "own", "expected"),
    [
        ({}, {}, LayerCosts(1, 2, 1.0, 1.0)),
        ({}, {"forward": 3}, LayerCosts(3, 6, 3.0, 3.0)),
        ({"backward": 5}, {"forward": 3}, LayerCosts(3, 5, 2.5, 2.5)),
        ({"input_grad": 3, "weight_grad": 1}, {"forward": 3}, LayerCosts(3, 4, 3, 1)),
        ({"input_grad": 3, "weight_grad": 1}, {"backward": 8}, LayerCosts(1, 8, 6.0, 2.0)),
        ({"input_grad": 3, "weight_grad": 1}, {"backward": 8, "input_grad": 2}, LayerCosts(1, 8, 2, 6)),
        ({"params": 5, "activation_bytes": 9}, {"params": 6}, LayerCosts(1, 2, 1.0, 1.0, 6, 9, 0)),
        ({"workspace_bytes": 5}, {"params": 6}, LayerCosts(1, 2, 1.0, 1.0, 6, workspace_bytes=5)),
        ({"workspace_bytes": 5}, {"workspace_bytes": 3}, LayerCosts(1, 2, 1.0, 1.0, workspace_bytes=3)),
    ],
)
def test_a_single_layer_is_like_the_others_but_for_what_is_given(
    like: dict[str, object], own: dict[str, object], expected: LayerCosts
) -> None:
    costs = read_costs({"kinds": {"t": {"forward": 1, **like}}, "layers": {"3": own}})
    assert costs.layers == {3: expected}


@pytest.mark.parametrize(("fields", "split"), [({}, False), ({"backward": 3}, False), ({"backward": 3, "input_grad": 2}, True)])
def test_whether_the_halves_of_the_backward_are_known(fields: dict[str, object], *, split: bool) -> None:
    assert read_costs({"kinds": {"t": {"forward": 1, **fields}, "L": {"input_grad": 1, "weight_grad": 1}}}).split is split


def set_at(path: str, value: object) -> dict[str, object]:
    data: dict[str, object] = deepcopy(EXAMPLE)
    place: Any = data
    *steps, last = path.split(".")
    for step in steps:
        place = place.setdefault(step, {})
    place[last] = value
    return data


FIELDS = "forward, backward, input_grad, weight_grad, params, activation_bytes, activation_bytes_after_input_grad, workspace_bytes"
TOP_FIELDS = "schema_version, kinds, layers, p2p_ms, link, bytes_per_param, memory_limit_bytes"
NAMED = [
    (set_at("kinds.t.forward", -1), "kinds.t.forward is -1, not a number from 0"),
    (set_at("kinds.t.forward", -0.5), "kinds.t.forward is -0.5, not a number from 0"),
    (set_at("kinds.t.forward", float("nan")), "kinds.t.forward is NaN, not a number from 0"),
    (set_at("kinds.L.forward", float("inf")), "kinds.L.forward is Infinity, more than 1e18"),
    (set_at("kinds.L.forward", float("-inf")), "kinds.L.forward is -Infinity, not a number from 0"),
    (set_at("kinds.E.params", 10**30), "kinds.E.params is a huge integer, more than 1e18"),
    (set_at("kinds.E.params", value=True), "kinds.E.params is true, not a number from 0"),
    (set_at("kinds.E.params", None), "kinds.E.params is null, not a number from 0"),
    (set_at("kinds.E.params", "12"), "kinds.E.params is '12', not a number from 0"),
    (set_at("kinds.E.params", "\n" * 99), "kinds.E.params is '" + r"\n" * 40 + r"\u2026', not a number from 0"),
    (set_at("kinds.E.params", [1]), "kinds.E.params is a list, not a number from 0"),
    (set_at("kinds.E.params", {1}), "kinds.E.params is of type set, not a number from 0"),
    (set_at("kinds.t.forwad", 1), f"kinds.t.forwad is an unknown field; there are {FIELDS}"),
    (set_at("kinds.x", {}), "kinds.x is an unknown kind; there are E, t, m, N, L"),
    (set_at("kinds.a b", {}), "kinds.'a b' is an unknown kind; there are E, t, m, N, L"),
    (set_at("kinds.t", 3), "kinds.t is 3, not an object"),
    (set_at("kinds", []), "kinds is a list, not an object"),
    ({}, "kinds is missing"),
    ({"kinds": {}}, "kinds.t is missing"),
    ({"kinds": {"t": {"params": 1}}}, "kinds.t.forward is missing"),
    (set_at("kinds.L.weight_grad", 3), None),
    (set_at("kinds.L.backward", 3), "kinds.L.backward is 3, where input_grad + weight_grad is 5.1"),
    (set_at("kinds.t.input_grad", 3), "kinds.t.input_grad is 3, more than backward, 2.0"),
    (set_at("kinds.t.weight_grad", 3), "kinds.t.weight_grad is 3, more than backward, 2.0"),
    ({"kinds": {"t": {"forward": 1, "input_grad": 1}}}, "kinds.t.weight_grad is missing beside input_grad"),
    ({"kinds": {"t": {"forward": 1, "weight_grad": 1}}}, "kinds.t.input_grad is missing beside weight_grad"),
    (set_at("kinds.t.activation_bytes", 20), "kinds.t.activation_bytes_after_input_grad is 30, more than activation_bytes, 20"),
    (set_at("layers.0.backward", -1), "layers.0.backward is -1, not a number from 0"),
    (set_at("layers.0.x", -1), f"layers.0.x is an unknown field; there are {FIELDS}"),
    (set_at("layers.x", {}), "layers has 'x', not the number of a decoder layer"),
    (set_at("layers.01", {}), "layers has '01', not the number of a decoder layer"),
    (set_at("layers.-1", {}), "layers has '-1', not the number of a decoder layer"),
    (set_at("layers.٣", {}), r"layers has '\u0663', not the number of a decoder layer"),
    (set_at("layers.1000000000000", {}), "layers has '1000000000000', not the number of a decoder layer"),
    (set_at("layers", []), "layers is a list, not an object"),
    (set_at("p2p_ms", 1), "p2p_ms and link stand side by side, where only one of them may"),
    ({**kinds(), "p2p_ms": -1}, "p2p_ms is -1, not a number from 0"),
    (set_at("link", 8), "link is 8, not an object"),
    (set_at("link.speed", 8), "link.speed is an unknown field; there are latency_us, gigabytes_per_s, message_bytes"),
    (set_at("link.gigabytes_per_s", 0), "link.gigabytes_per_s is 0, not a number from 1e-09"),
    (set_at("link.latency_us", -8), "link.latency_us is -8, not a number from 0"),
    (set_at("bytes_per_param", -1), "bytes_per_param is -1, not a number from 0"),
    (set_at("memory_limit_bytes", value=False), "memory_limit_bytes is false, not a number from 0"),
    (set_at("cinds", {}), f"cinds is an unknown field; there are {TOP_FIELDS}"),
    (set_at("schema_version", "2.0"), "schema_version is '2.0', this version of ppdsl reads 1.x"),
    (set_at("schema_version", "1"), "schema_version is '1', this version of ppdsl reads 1.x"),
    (set_at("schema_version", 1.0), "schema_version is 1.0, this version of ppdsl reads 1.x"),
    (set_at("schema_version", "1.7"), None),
]


@pytest.mark.parametrize(("data", "message"), NAMED)
def test_a_fault_is_named_with_its_path(data: dict[str, object], message: str | None) -> None:
    if message is None:
        read_costs(data)
        return
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$") as caught:
        read_costs(data)
    assert type(caught.value) is ValueError


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "the costs file is a list, not an object"),
        ("{", "the costs file is not JSON: expecting property name enclosed in double quotes: line 1, column 2"),
        ('{\n "kinds": "t', "the costs file is not JSON: unterminated string starting at: line 2, column 11"),
        ("{} {}", "the costs file is not JSON: extra data: line 1, column 4"),
        ('{"kinds": {"t": {"forward": 1, "forward": 2}}}', "'forward' stands twice in one object"),
        ('{"kinds": {"t": {"forward": NaN}}}', "kinds.t.forward is NaN, not a number from 0"),
        ('{"kinds": {"t": {"forward": 1e999}}}', "kinds.t.forward is Infinity, more than 1e18"),
        ("[" * 100_000, "the costs file is nested too deep"),
    ],
)
def test_a_fault_of_the_text_is_named(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$") as caught:
        read_costs(text)
    assert type(caught.value) is ValueError


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 10**20),
    st.floats(-2, 10),
    st.sampled_from([float("nan"), float("inf"), "1", "1.0", "1.5", "2.0", [], {}]),
)


def test_an_integer_of_thousands_of_digits_is_too_large_a_number() -> None:
    for digits, shown in (("9" * 5000, "Infinity"), ("1" + "0" * 50, "1e+50")):
        with pytest.raises(ValueError, match=rf"^kinds\.t\.forward is {re.escape(shown)}, more than 1e18$"):
            read_costs(f'{{"kinds": {{"t": {{"forward": {digits}}}}}}}')


def test_a_repeated_key_among_many_is_found_in_time() -> None:
    layers = ", ".join(f'"{number}": {{}}' for number in [*range(100_000), 99_999])
    begin = time.perf_counter()
    with pytest.raises(ValueError, match=r"^'99999' stands twice in one object$"):
        read_costs(f'{{"kinds": {{"t": {{"forward": 1}}}}, "layers": {{{layers}}}}}')
    assert time.perf_counter() - begin < 10  # comparing each with all before it takes minutes


def test_what_is_next_to_nothing_is_nothing() -> None:
    costs = read_costs({"kinds": {"t": {"forward": 1e-320, "params": 1e-29}}})
    assert (costs.kinds["t"].forward, costs.kinds["t"].backward, costs.kinds["t"].params) == (0, 0, 1e-29)


def paths(data: object, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    found = [path] if path else []
    if isinstance(data, dict):
        for name, value in data.items():
            found += paths(value, (*path, name))
    return found


@st.composite
def damaged(draw: DrawFn) -> dict[str, object]:
    """Draw the example with one value changed, one field taken out, or one renamed."""
    data: dict[str, object] = deepcopy(EXAMPLE)
    *steps, last = draw(st.sampled_from(paths(data)))
    place: Any = data
    for step in steps:
        place = place[step]
    how = draw(st.sampled_from(["change", "remove", "rename"]))
    value = place.pop(last)
    if how == "change":
        place[last] = draw(VALUES)
    elif how == "rename":
        place[draw(st.sampled_from(["E", "forward", "x", "7", "link", "p2p_ms"]))] = value
    return data


@given(damaged())
def test_what_is_read_is_valid_and_what_is_not_gives_one_line(data: dict[str, object]) -> None:
    valid = not [*jsonschema.Draft202012Validator(SCHEMA).iter_errors(data)]
    message = ""
    try:
        read_costs(data)
    except ValueError as error:
        message = str(error)
    assert "\n" not in message
    # What the schema cannot say: sums, comparisons, one half of a backward without the other.
    beyond = any(words in message for words in ("missing beside", "where input_grad", "more than", "NaN"))
    assert beyond or valid == (not message)


def test_the_schema_is_one_and_takes_the_example() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    jsonschema.validate(EXAMPLE, SCHEMA)
