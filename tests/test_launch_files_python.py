from __future__ import annotations

import warnings

import pytest

from ppdsl.launch_files import LaunchConfig, Setting, read_launch_text

KEY = "pipeline_model_parallel_layout"


def configs(text: str) -> tuple[LaunchConfig, ...]:
    file = read_launch_text(text, "recipe.py")
    assert all(one.code == "PP204" for one in file.diagnostics)
    return file.configs


def layout(text: str) -> Setting:
    (config,) = configs(text)
    assert config.layout is not None
    return config.layout


def layouts(text: str) -> list[object]:
    return [config.layout.value if config.layout else None for config in configs(text)]


def sizes(text: str) -> list[dict[str, object]]:
    return [{one.name: one.value for one in config.settings} for config in configs(text)]


def places(setting: Setting, text: str) -> str:
    return "".join(text[setting.source.position(at)] for at in range(len(setting.source.text)))


@pytest.mark.parametrize(
    "text",
    [
        f"{KEY} = 'Et|L'",
        f"{KEY}: str = 'Et|L'",
        f"cfg.model.{KEY} = 'Et|L'",
        f"a = cfg.model.{KEY} = 'Et|L'",
        f"cfg().{KEY} = 'Et|L'",
        f"cfg[0].{KEY} = 'Et|L'",
        f"cfg['{KEY}'] = 'Et|L'",
        f"Config({KEY}='Et|L')",
        f"x = f(g({KEY}='Et|L'))",
        f"x = {{'model': {{'{KEY.replace('_', '-')}': 'Et|L'}}}}",
        f"x = {{**y, '{KEY}': 'Et|L'}}",
        f"class A:\n    {KEY} = 'Et|L'",
        f"def f(a, {KEY}='Et|L'): pass",
        f"async def f(*, b, {KEY}: str = 'Et|L'): pass",
        f"x = lambda {KEY}='Et|L': 0",
        f"@f({KEY}='Et|L')\ndef g(): pass",
        f"with f({KEY}='Et|L') as x:\n    pass",
        f"for x in [1]:\n    y = [f({KEY}='Et|L') for z in x]",
        f"try:\n    pass\nexcept E:\n    f({KEY}='Et|L')",
        f"def f():\n    '''docs'''\n    return Config(x, {KEY}='Et|L')",
        "run(['train', '--pipeline-model-parallel-layout', 'Et|L'])",
        "run(('train', '--pipeline-model-parallel-layout=Et|L', *rest))",
        "run('train --pipeline-model-parallel-layout \"Et|L\"')",
        "run(f'train {x} --pipeline-model-parallel-layout \"Et|L\" {y}')",
        "run(['a.pipeline_model_parallel_layout=Et|L'])",
        "run(['bash', '-c', 'train --pipeline-model-parallel-layout \"Et|L\"'])",
        "run([['train'], f(['--pipeline-model-parallel-layout', 'Et|L'])])",
    ],
)
def test_keywords_attributes_names_keys_and_command_lines(text: str) -> None:
    setting = layout(text)
    assert (setting.value, places(setting, text)) == ("Et|L", "Et|L")


STRINGS = [
    ("'Et|tL'", "Et|tL", "Et|tL"),
    ("'''Et|\n  tL'''", "Et|\n  tL", "Et|\n  tL"),
    ("r'Et\\|tL'", "Et\\|tL", "Et\\|tL"),
    ("'Et\\x7ct\\u007c\\U0000007c\\N{VERTICAL LINE}\\174\\nL'", "Et|t|||" + "|\nL", "Et\\t\\\\\\\\\\L"),
    ("'Et\\|tL'", "Et\\|tL", "Et\\|tL"),
    ("'Et|' \"tL\"", "Et|tL", "Et|tL"),
    ("('Et|'\n   u'\\x74'  # why\n 'L')", "Et|tL", "Et|\\L"),
    ("'''Et|\\\ntL''' 'x'", "Et|tLx", "Et|tLx"),
    ("'Et|' + 'tL'", "Et|tL", "Et|tL"),
    ("'E' + 't|' * 3 + 'L'", "Et|t|t|L", "Et|||||L"),
    ("3 * 't|'", "t|t|t|", "t|||||"),
    ("'t' * 0 + 'EL' * -1 + 'EtL'", "EtL", "EtL"),
    ("('Et|L')", "Et|L", "Et|L"),
]


@pytest.mark.parametrize(("expression", "value", "found"), STRINGS)
@pytest.mark.parametrize("before", ["", "é = '日本'; "])
def test_each_character_of_a_string_has_its_place(expression: str, value: str, found: str, before: str) -> None:
    text = f"{before}{KEY} = {expression}\n"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        setting = layout(text)
    assert (setting.value, setting.source.text) == (value, value)
    assert places(setting, text) == found


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_line_ends(newline: str) -> None:
    text = newline.join(["é = 1", "x = '''a", "'''", f"f(é, {KEY}='Et|L')", ""])
    assert places(layout(text), text) == "Et|L"


def test_lists_are_worked_out() -> None:
    text = f"""\
last = ["decoder", "loss"]
f({KEY}=[["embedding"] + ["decoder"] * 2] + 2 * [["decoder"]] + [last])
"""
    setting = layout(text)
    assert setting.value == [["embedding", "decoder", "decoder"], ["decoder"], ["decoder"], ["decoder", "loss"]]
    assert setting.source.text == '[["embedding"] + ["decoder"] * 2] + 2 * [["decoder"]] + [last]'
    assert layouts(f"{KEY} = ((LayerType.embedding, LayerType.decoder), (LayerType.loss,))") == [[["embedding", "decoder"], ["loss"]]]
    assert layouts(f"{KEY} = []") == [[]]
    assert sizes(f"f({KEY}='EL', num_layers=[1], micro_batch_size={{}})") == [{}]


def test_names_are_followed() -> None:
    assert layouts(f"A = B = 1\nL = M\nM = 'Et|L'\ndef f():\n    g({KEY}=L)\n") == ["Et|L"]
    assert layouts(f"L = 'Et|L'\ng({KEY}=L)\nh({KEY}=L, num_layers=-1)\n") == ["Et|L", "Et|L"]
    assert layouts(f"L = 'E|tL'\ndef f():\n    L: str = 'Et|L'\n    g({KEY}=L)\n") == ["Et|L"]
    text = f"PP = 4\ncfg.{KEY} = 'EL'\ncfg.pipeline_model_parallel_size = PP\n"
    assert sizes(text) == [{"pipeline-model-parallel-size": 4}]


def test_a_name_that_each_branch_binds_gives_each_layout_with_its_sizes() -> None:
    text = f"""\
def f(cfg, large):
    layout = None
    if large:
        layout = "Ett|L"
        layers = 2
    elif medium:
        layout, layers = "Et|tL", 3
    else:
        layout = "Et|L"
        layers = 1
    cfg.model.{KEY} = layout
    cfg.model.num_layers = layers
"""
    assert layouts(text) == []
    text = text.replace('layout, layers = "Et|tL", 3', 'layout = "Et|tL"\n        layers = 3')
    assert layouts(text) == ["Ett|L", "Et|tL", "Et|L"]
    assert sizes(text) == [{"num-layers": "2"}, {"num-layers": "3"}, {"num-layers": "1"}]


def test_branches_that_set_a_layout_are_apart_and_the_last_of_a_block_wins() -> None:
    text = f"""\
cfg.{KEY} = "E|ttL"
cfg.{KEY} = "Et|tL"
if flag:
    cfg.{KEY} = "Ett|L"
    cfg.num_layers = 2
else:
    cfg.num_layers = 3
    run(["train", "--num-layers", "4"])
cfg.mtp_num_layers = 1
"""
    assert layouts(text) == ["Et|tL", "Ett|L"]
    assert sizes(text)[1] == {"num-layers": 2, "mtp-num-layers": 1}
    assert layouts(f"cfg.{KEY} = 'EL'\ncfg.{KEY} = None\n") == []


def test_sizes_go_with_the_nearest_layout() -> None:
    text = f"""\
num_layers = 9
a = Config({KEY}="A|L", model=Model(num_layers=1), train=dict(micro_batch_size=2))
b = Config({KEY}="B|L")
def f(cfg):
    cfg.model.{KEY} = "C|L"
    cfg.train.global_batch_size = 8
    cfg.model.num_layers: int = 3
    cfg.model.num_layers: int
    other.model.num_layers = 4
    cfg.model.expert_model_parallel_size = None
"""
    assert sizes(text) == [
        {"num-layers": 1, "micro-batch-size": 2},
        {"num-layers": 9},
        {"num-layers": 3, "global-batch-size": 8},
    ]
