"""Files of one cost a layer, and how a file's form is told."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ppdsl import compile_layout
from ppdsl.costs import Costs, LayerCosts, ModelShape, cost_stages, list_costs, read_costs, read_csv, read_json_list, recognize_costs

FOLDER = Path(__file__).parent / "corpus" / "costs"
NO_FORM = "it is neither a JSON object or list, nor a record log, nor CSV with semicolons, tabs or commas"
SHAPE = ModelShape(hidden=2, seq=4, vocab=8, batch=1, tflops=1.0)


def forwards(costs: Costs) -> list[float]:
    assert costs.num_layers is not None
    return [costs.layers.get(layer, costs.kinds["t"]).forward for layer in range(costs.num_layers)]


@pytest.mark.parametrize(
    ("name", "loss"), [("layers.csv", 4.5), ("column.csv", None), ("line.csv", 4.5), ("list.json", None), ("object.json", 4.5)]
)
def test_the_form_of_a_file_is_told_by_its_content(name: str, loss: float | None) -> None:
    costs = recognize_costs((FOLDER / name).read_text(encoding="utf-8"), name)
    assert forwards(costs) == [1.5, 1, 1, 2]
    assert costs.kinds.get("L") == (None if loss is None else LayerCosts.of(loss, loss, loss))
    assert costs.kinds["m"].forward == 2  # as the last decoder layer


def test_a_costs_file_is_told_as_well() -> None:
    text = '{"kinds": {"t": {"forward": 1}}}'
    assert recognize_costs(text, "x") == read_costs(text)
    assert recognize_costs(text, "x").num_layers is None


def test_a_cost_is_a_forward_and_its_backward_twice_as_much() -> None:
    costs = list_costs([1.0, 3.0], {"E": 0.5})
    assert costs.layers[0] == LayerCosts(1.0, 2.0, 1.0, 1.0)
    assert costs.kinds["E"] == LayerCosts(0.5, 1.0, 0.0, 1.0)
    assert list_costs([1.0, 3.0], shape=SHAPE).layers[0].input_share == pytest.approx(80 / 128)


def test_equal_costs_are_told_once() -> None:
    assert list_costs([0.1] * 3).layers == {}
    assert list_costs([0.1] * 3).kinds["t"].forward == 0.1


def test_a_list_fits_no_model_of_another_size() -> None:
    costs = list_costs([1.0, 2.0, 3.0])
    assert [stage.forward for stage in cost_stages(compile_layout("Ett|tL", pp=2), costs)] == [3.0, 3.0]
    with pytest.raises(ValueError, match=r"^the costs are those of 3 decoder layers, the layout has 4$"):
        cost_stages(compile_layout("Ett|ttL", pp=2), costs)


@pytest.mark.parametrize(
    ("text", "costs"),
    [
        ("1\n2\n", [1, 2]),
        ("\n# measured\n cost \n 1e-3 \r\n\r\n+.5\n", [0.001, 0.5]),
        ("layer,forward\n1,2\n0,1\n", [1, 2]),
        ("0,5\n", [5]),
        ("5\n", [5]),
        ("1,2,3", [1, 2, 3]),
        ("1,L:2", [1]),
        ("E,1\n1\nL,2\n3\n", [1, 3]),
        ('"layer","cost"\n"0","1"\n"1","2"\n', [1, 2]),
        ("layer;cost\r\n1;2\r\n0;1.5\r\n;\r\n", [1.5, 2]),
        ("layer\tcost\n0\t1\n1\t2\n\t\n", [1, 2]),
        ("1; 2;L:3;.5", [1, 2, 0.5]),
        ("1\t2\t3\n", [1, 2, 3]),
        ('layer;"cost\n(ms; ""median"")"\n0; "1"\n1;2\n', [1, 2]),
        ("1\r2\r", [1, 2]),
        ("0,1\n1,2\n,\n,\n", [1, 2]),
        ("costs\n1,2,3\n", [1, 2, 3]),
    ],
)
def test_csv_is_read(text: str, costs: list[float]) -> None:
    assert forwards(recognize_costs(text, "x")) == costs


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "there is no line with a cost"),
        ("layer,cost\n", "there is no line with a cost"),
        ("L,1\n", "layer 0 is missing"),
        ("0,1\n2,1\n", "layer 1 is missing"),
        ("0,1\n0,2\n", "line 2: layer 0 stands twice"),
        ("1\nL,1\n\nL,2\n", "line 4: layer L stands twice"),
        ("1\nx,1\n", "line 2: 'x' is neither the number of a decoder layer nor E, m, N or L"),
        ("1\n-1,1\n", "line 2: '-1' is neither the number of a decoder layer nor E, m, N or L"),
        ("1\n0,1,2\n", "line 2 has 3 columns, not layer,cost or a cost alone"),
        ("1\nx\n", "line 2: 'x' is not a number"),
        ("1\n0x1\n", "line 2: '0x1' is not a number"),
        ("1\n-1\n", "line 2 is -1.0, not a number above 0"),
        ("1\n0\n", "line 2 is 0.0, not a number above 0"),
        ("1\nnan\n", "line 2 is NaN, not a number above 0"),
        ("1\ninf\n", "line 2 is Infinity, more than 1e18"),
        ("1\nL,-1\n", "line 2 is -1.0, not a number from 0"),
        ("1,2,L:3,L:4", "line 1: layer L stands twice"),
        ("1,2,\n", "line 1: '' is not a number"),
        ("0;1,5\n1;2\n", "line 1: '1,5' has a decimal comma, not a point"),
        ("layer\tcost\n0\t1\n1\t-2,5e3\n", "line 3: '-2,5e3' has a decimal comma, not a point"),
        ('"1,5"\n"2,5"\n', "line 1: '1,5' has a decimal comma, not a point"),
        ("1;2,5;3\n", "line 1: '2,5' has a decimal comma, not a point"),
        ("cost\n0,5\n1,5\n", "line 2 has 2 columns, the heading has 1"),
        ("layer,cost\n1\n", "line 2 has 1 column, the heading has 2"),
        ('0,1\n"1"x,2\n', "line 2 is not CSV: ',' expected after '\"'"),
        ('0;1\n1;"2\n2;3\n', "line 2 is not CSV: unexpected end of data"),
        (f"0;1\n1;{'9' * 131073}\n", "line 2 is not CSV: field larger than field limit (131072)"),
    ],
)
def test_csv_that_cannot_be_read_names_the_line(text: str, message: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 -- the whole text is compared
        read_csv(text)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([], "layer_costs is an empty list, not a list of numbers"),
        ({"E": 1}, "layer_costs is null, not a list of numbers"),
        ({"layer_costs": 3}, "layer_costs is 3, not a list of numbers"),
        ([1, "2"], "layer_costs[1] is '2', not a number from 0"),
        ([1, True], "layer_costs[1] is true, not a number from 0"),
        ([1, [2]], "layer_costs[1] is a list, not a number from 0"),
        ([1, 0], "layer_costs[1] is 0, not a number above 0"),
        ([1, float("nan")], "layer_costs[1] is NaN, not a number above 0"),
        ([1, 10**19], "layer_costs[1] is 10000000000000000000, more than 1e18"),
        ({"layer_costs": [1], "L": -1}, "L is -1, not a number from 0"),
        ({"layer_costs": [1], "t": 1}, "t is an unknown field; there are layer_costs, E, m, N, L"),
    ],
)
def test_json_that_cannot_be_read_names_the_path(data: object, message: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 -- the whole text is compared
        read_json_list(data)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "it is empty"),
        (" \n", "it is empty"),
        ("# a comment\n", "there is no line with a cost"),
        ("hello", f"{NO_FORM}: line 1 is 'hello'"),
        ("\n# measured\nlayer|cost\n0|1\n1|2\n", f"{NO_FORM}: line 3 is 'layer|cost'"),
        ("0 1\n1 2\n", f"{NO_FORM}: line 1 is '0 1'"),
        ('layer,cost\n"0,1\n1,2\n', "line 2 is not CSV: unexpected end of data"),
        ("0,1,\n1,2,\n", "line 1 has 3 columns, not layer,cost or a cost alone"),
        ("[1,", "the costs file is not JSON: expecting value: line 1, column 4"),
        ("{}", "kinds is missing"),
        ("[]", "layer_costs is an empty list, not a list of numbers"),
        ('[{"layer": 0, "cost": 1}]', "layer_costs[0] is an object, not a number from 0"),
        (
            '[{"ph": "X"}]',
            "a trace is divided over the stages of a layout, and there is none whose ranks are known: suggest takes it as --compare",
        ),
        (
            '{"traceEvents": 1}',
            "a trace is divided over the stages of a layout, and there is none whose ranks are known: suggest takes it as --compare",
        ),
    ],
)
def test_what_is_of_no_form_is_said_to_be_so(text: str, message: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 -- the whole text is compared
        recognize_costs(text, "x")
    assert str(caught.value) == message


costs_of_layers = st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=20)


@given(costs_of_layers)
def test_every_form_of_one_list_says_the_same(layers: list[float]) -> None:
    texts = [
        "\n".join(map(repr, layers)),
        "\n".join(f"{layer},{cost!r}" for layer, cost in reversed([*enumerate(layers)])),
        repr(layers),
        f'{{"layer_costs": {layers!r}}}',
    ]
    assert {tuple(forwards(recognize_costs(text, "x"))) for text in texts} == {tuple(layers)}


@given(st.text() | st.text(alphabet="0123456789.,-eEL:\n[]{} "))
def test_recognizing_is_total(text: str) -> None:
    try:
        assert isinstance(recognize_costs(text, "x"), Costs)
    except ValueError as error:
        assert len(str(error)) < 600  # noqa: PT017 -- either way is right
