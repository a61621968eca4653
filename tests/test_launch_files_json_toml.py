from __future__ import annotations

import pytest

from tests.structured_texts import KEY, layout, places, sizes

JSON = [
    (f'{{"{KEY}": "Et|tL"}}', "Et|tL", "Et|tL"),
    (f'{{"{KEY}": "Et\\u007ct\\/\\n\\ud83d\\ude00L"}}', "Et|t/\n😀L", "Et\\t\\\\\\L"),
    (f'[{{"a": {{"{KEY}": "Et|tL"}}}}]', "Et|tL", "Et|tL"),
    (f'{{"a.{KEY}": "Et|tL", "a": -1.5e3, "b": [true, false, null, NaN, -Infinity]}}', "Et|tL", "Et|tL"),
]


@pytest.mark.parametrize(("text", "value", "found"), JSON)
def test_each_character_of_a_json_string_has_its_place(text: str, value: str, found: str) -> None:
    setting = layout(text, "run.json")
    assert (setting.value, places(setting, text)) == (value, found)


def test_json_values_have_their_types() -> None:
    text = f"""{{
  "{KEY}": [["embedding"], ["loss"]],
  "num_layers": 12, "mtp-num-layers": "1", "micro_batch_size": 1.0, "global_batch_size": {"9" * 30},
  "recompute_in_bubble": false, "data_parallel_size": null
}}"""
    assert layout(text, "run.json").value == [["embedding"], ["loss"]]
    assert places(layout(text, "run.json"), text) == '[["embedding"], ["loss"]]'
    assert sizes(text, "run.json") == [
        {
            "num-layers": 12,
            "mtp-num-layers": "1",
            "micro-batch-size": 1.0,
            "global-batch-size": float("9" * 30),
            "recompute-in-bubble": False,
        },
    ]


TOML = [
    (f"{KEY} = 'Et|tL' # why", "Et|tL", "Et|tL"),
    (f'{KEY} = "Et|tL"', "Et|tL", "Et|tL"),
    (f'"{KEY}" = "Et\\u007ct\\"\\\\L"', 'Et|t"\\L', "Et\\t\\\\L"),
    (f'\'{KEY}\' = """\nEt|\\\n   tL"""', "Et|tL", "Et|tL"),
    (f"{KEY} = '''\nEt|\ntL'''", "Et|\ntL", "Et|\ntL"),
    (f'{KEY} = """Et|"q" tL"""', 'Et|"q" tL', 'Et|"q" tL'),
    (f"a . {KEY} = 'Et|tL'", "Et|tL", "Et|tL"),
    (f"[a]\n[a.'b.c']\n{KEY.replace('_', '-')} = 'Et|tL'\r\n", "Et|tL", "Et|tL"),
    (f"x = {{ y = [1, {{ {KEY} = 'Et|tL' }}], z = 1979-05-27T07:32:00Z }}", "Et|tL", "Et|tL"),
    (f"[[a]] # why\nx = [\n  'a', # b\n  \"c\",\n]\n{KEY} = 'Et|tL'", "Et|tL", "Et|tL"),
]


@pytest.mark.parametrize(("text", "value", "found"), TOML)
def test_each_character_of_a_toml_string_has_its_place(text: str, value: str, found: str) -> None:
    setting = layout(text, "run.toml")
    assert (setting.value, places(setting, text)) == (value, found)


def test_toml_values_have_their_types() -> None:
    text = (
        f"{KEY} = [['embedding'], ['loss']]\nnum_layers = 1_2\nmtp_num_layers = '1'\nrecompute_in_bubble = true\nmicro_batch_size = 1.5\n"
    )
    assert layout(text, "run.toml").value == [["embedding"], ["loss"]]
    assert places(layout(text, "run.toml"), text) == "[['embedding'], ['loss']]"
    assert sizes(text, "run.toml") == [
        {"num-layers": 12, "mtp-num-layers": "1", "recompute-in-bubble": True, "micro-batch-size": "1.5"},
    ]


def test_each_table_of_an_array_is_a_scope_of_its_own() -> None:
    text = f"""\
num_layers = 9
[[runs]]
{KEY} = 'A|L'
num_layers = 1
[[runs]]
{KEY} = 'B|L'
[runs.model]
num_layers = 2
[[runs.model.parts]]
mtp_num_layers = 1
[[runs]]
{KEY} = 'C|L'
"""
    assert sizes(text, "run.toml") == [{"num-layers": 1}, {"num-layers": 2, "mtp-num-layers": 1}, {"num-layers": 9}]
