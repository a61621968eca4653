from __future__ import annotations

import pytest
import yaml

from ppdsl.launch_files import read_launch_text
from ppdsl.rendering import render_text
from tests.structured_texts import KEY, configs, layout, places, sizes

YAML_SCALARS = [
    (f"{KEY}: Et|tL # why", "Et|tL", "Et|tL"),
    (f"a:\n  {KEY}:\n    Et|tL", "Et|tL", "Et|tL"),
    (f"{KEY}: Et|\n  tL", "Et| tL", "Et|\ntL"),
    (f"{KEY}: 'Et|tL'", "Et|tL", "Et|tL"),
    (f"{KEY}: 'it''s'", "it's", "it's"),
    (f'{KEY}: "Et|tL"', "Et|tL", "Et|tL"),
    (f'{KEY}: "Et\\x7ct\\u007C\\U0000007c\\tL"', "Et|t||\tL", "Et\\t\\\\\\L"),
    (f'{KEY}: "Et|\\\n   tL"', "Et|tL", "Et|tL"),
    (f'{KEY}: "Et|\\\r\n\\ntL"', "Et|\ntL", "Et|\\tL"),
    (f'{KEY}: "Et|\n   tL"', "Et| tL", "Et|\ntL"),
    (f"{KEY}: |\n  Et|\n  tL\n", "Et|\ntL\n", "Et|\ntL\n"),
    (f"{KEY}: |-  # why\n  Et|tL\n", "Et|tL", "Et|tL"),
    (f"{KEY}: >-\n  Et|\n  tL\n", "Et| tL", "Et|\ntL"),
    (f"{KEY}: !!str Et|tL", "Et|tL", "Et|tL"),
    (f"{KEY}: &anchor !mine 'Et|tL'", "Et|tL", "Et|tL"),
    (f"a: &a Et|tL\n{KEY}: *a", "Et|tL", "Et|tL"),
    (f"'{KEY}': Et|tL", "Et|tL", "Et|tL"),
    (f"{{{KEY.replace('_', '-')}: Et|tL}}", "Et|tL", "Et|tL"),
    (f"? {KEY}\n: Et|tL", "Et|tL", "Et|tL"),
    (f"é: 日本\n{KEY}: Et|tL", "Et|tL", "Et|tL"),
    (f"- - {KEY}: Et|tL", "Et|tL", "Et|tL"),
    (f"a.b.{KEY}: Et|tL", "Et|tL", "Et|tL"),
    (f"{KEY}: ''", "", ""),
]


@pytest.mark.parametrize(("text", "value", "found"), YAML_SCALARS)
def test_each_character_of_a_yaml_scalar_has_its_place(text: str, value: str, found: str) -> None:
    setting = layout(text)
    assert (setting.value, setting.source.text) == (value, value)
    assert places(setting, text) == found


@pytest.mark.parametrize(("text", "value", "found"), YAML_SCALARS)
def test_the_parser_that_is_there_without_libyaml_gives_the_same(
    text: str, value: str, found: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(yaml, "CSafeLoader")
    setting = layout(text)
    assert (setting.value, places(setting, text)) == (value, found)


@pytest.mark.parametrize("text", [f"{KEY}: {word}" for word in ("null", "~", "", "!!python/object:os.system {}")])
def test_null_and_mappings_are_no_layouts(text: str) -> None:
    assert configs(text) == ()


def test_yaml_values_have_their_types() -> None:
    text = f"""\
{KEY}: Et|L
num_layers: 1_000
mtp_num_layers: '1'
micro_batch_size: 1.5
global_batch_size: yes
data_parallel_size: many
untie_embeddings_and_output_weights: "true"
share_embeddings_and_output_weights: off
moe_grouped_gemm: null
"""
    assert sizes(text) == [
        {
            "num-layers": 1000,
            "mtp-num-layers": "1",
            "micro-batch-size": 1.5,
            "global-batch-size": True,
            "data-parallel-size": "many",
            "untie-embeddings-and-output-weights": True,
        },
    ]


def test_a_list_is_a_list_and_its_text_is_the_whole_list() -> None:
    text = f"{KEY}: [[embedding, 'decoder'], [loss]] # why"
    assert layout(text).value == [["embedding", "decoder"], ["loss"]]
    assert places(layout(text), text) == "[[embedding, 'decoder'], [loss]]"
    text = f"{KEY}:\n- [embedding, {{a: b}}, 1]\n- - loss\n  - null\n"
    assert layout(text).value == [["embedding", {}, 1], ["loss", None]]
    assert places(layout(text), text) == "- [embedding, {a: b}, 1]\n- - loss\n  - null"
    assert sizes(f"{KEY}: EL\nnum_layers: [1, 2]") == [{}]
    assert sizes("pipeline_layer_partition: [4, 4]") == [{"pipeline-layer-partition": [4, 4]}]


@pytest.mark.parametrize(
    "text",
    [
        "a: &a [x,x,x,x,x,x,x,x,x]\n"
        + "".join(f"a{n}: &a{n} [{','.join([f'*a{n - 1}' if n else '*a'] * 9)}]\n" for n in range(20))
        + f"{KEY}: *a19\n",
        f"{KEY}: &a [*a]\n",
        f"{KEY}: " + "[" * 50 + "]" * 50,
    ],
)
def test_a_list_without_end_is_not_written_out(text: str) -> None:
    (config,) = configs(text)
    assert config.layout is None
    assert [one.label for one in config.diagnostics] == ["this list is too large to be written out"]


def test_merge_keys_bring_settings_in() -> None:
    text = f"""\
base: &base
  num_layers: 4
  mtp_num_layers: 1
other: &other {{<<: *base, num_layers: 5}}
one: {{<<: *base, {KEY}: Et|L}}
two:
  {KEY}: Ett|L
  <<: [*other, *base, scalar]
  mtp_num_layers: 2
three: {{<<: *other, {KEY}: E|L}}
"""
    assert sizes(text) == [
        {"num-layers": 4, "mtp-num-layers": 1},
        {"num-layers": 5, "mtp-num-layers": 2},
        {"num-layers": 5, "mtp-num-layers": 1},
    ]


def test_merge_keys_without_end_are_refused() -> None:
    many = "a: &a {" + ", ".join(f"x{n}.num_layers: 1" for n in range(400)) + "}\n"
    text = f"{KEY}: EL\nq: &q {{<<: *q}}\n{many}" + "".join(f"m{n}: {{<<: *a}}\n" for n in range(400))
    (diagnostic,) = read_launch_text(text, "run.yaml").diagnostics
    assert diagnostic.message == "cannot read run.yaml: merge keys bring in too many entries"


def test_each_layout_takes_the_nearest_sizes() -> None:
    text = f"""\
num_layers: 9
mtp_num_layers: 3
runs:
  - {KEY}: A|L
    num_layers: 1
    num_layers: 2
  - {KEY}: B|L
    model: {{num_layers: 5}}
    name: {{deeper: {{pipeline_model_parallel_size: 2}}}}
  - num_layers: 6
    micro_batch_size: 4
model:
  inner: {{{KEY}: C|L}}
  pipeline_model_parallel_size: 8
"""
    assert sizes(text) == [
        {"num-layers": 2, "mtp-num-layers": 3, "micro-batch-size": 4},
        {"num-layers": 5, "mtp-num-layers": 3, "pipeline-model-parallel-size": 2, "micro-batch-size": 4},
        {"num-layers": 9, "mtp-num-layers": 3, "pipeline-model-parallel-size": 8},
    ]


def test_documents_are_apart() -> None:
    text = f"num_layers: 4\nmtp_num_layers: 1\n---\n{KEY}: Et|L\nnum_layers: 2\n---\n...\n"
    assert sizes(text) == [{"num-layers": 2, "mtp-num-layers": 1}]


INTERPOLATIONS = ["${layout}", "'${oc.env:LAYOUT,Et|L}'", '"Et|$(LAYOUT)"', "'{{ layout }}'"]


@pytest.mark.parametrize("value", INTERPOLATIONS)
def test_an_interpolation_cannot_be_told(value: str) -> None:
    (config,) = configs(f"{KEY}: {value}")
    assert config.layout is None
    assert [(one.severity, one.label) for one in config.diagnostics] == [("error", "this is filled in when the file is used")]


def test_an_interpolation_is_pointed_at() -> None:
    text = f"{KEY}: Et|L\nmodel:\n  num_layers: ${{layers}}\n"
    (config,) = configs(text)
    assert render_text(config.diagnostics, read_launch_text(text, "run.yaml").file_source) == (
        "warning[PP205]: the value of num_layers cannot be resolved\n"
        "  --> run.yaml:3:15\n"
        "   |\n"
        " 3 |   num_layers: ${layers}\n"
        "   |               ^^^^^^^^^ this is filled in when the file is used\n"
        "   = note: num-layers is not checked"
    )


COMMANDS = [
    "args: [train.py, --num-layers, 2, '--pipeline-model-parallel-layout', 'Et|L', {x: y}]",
    "args: [train.py, --num-layers=2, '--pipeline-model-parallel-layout=Et|L']",
    "args: ['num_layers', 'a.num_layers=2', 'a.pipeline_model_parallel_layout=Et|L']",
    "args: --num-layers 2 --pipeline-model-parallel-layout Et|L",
    "args: ['--num-layers 2', '--pipeline-model-parallel-layout Et|L']",
    "command: torchrun train.py --num-layers 2 --pipeline-model-parallel-layout 'Et|L'",
    "command: [bash, -c, \"cd x && L='Et|L'; train --num-layers 2 --pipeline-model-parallel-layout $L\"]",
    'run: |\n  torchrun train.py --num-layers 2 \\\n      --pipeline-model-parallel-layout "Et|L"\n',
    'run: >\n  torchrun train.py --num-layers 2\n  --pipeline-model-parallel-layout "Et|L"\n',
]


@pytest.mark.parametrize("text", COMMANDS)
def test_command_lines_in_strings_and_lists(text: str) -> None:
    setting = layout(text)
    assert (setting.value, places(setting, text)) == ("Et|L", "Et|L")
    assert [str(one["num-layers"]) for one in sizes(text)] == ["2"]


def test_prose_that_only_mentions_the_flag_is_no_layout() -> None:
    assert configs("help: use --pipeline-model-parallel-layout to balance stages\nb: --pipeline-layer-partition gives") == ()
    assert layout("help: use --pipeline-model-parallel-layout 'Et|L' here").value == "Et|L"
