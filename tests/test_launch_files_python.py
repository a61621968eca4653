from __future__ import annotations

import time
import warnings

import pytest

from ppdsl.launch_files import LaunchConfig, Setting, read_launch_text
from ppdsl.rendering import render_text

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


UNKNOWN = [
    ("f'Et|{x}L'", "f'Et|{x}L'", "this is told only by running the file"),
    ("'Et|' + x", "x", "x is not bound in this file"),
    ("x + 'Et|'", "x", "x is not bound in this file"),
    ("'Et|L' if x else 'E|L'", "'Et|L' if x else 'E|L'", "this is told only by running the file"),
    ("['embedding', x]", "x", "x is not bound in this file"),
    ("[['embedding'], [f'x']]", "f'x'", "this is told only by running the file"),
    ("'a' - 'b'", "'a' - 'b'", "this is not worked out"),
    ("'a' + ['b']", "'a' + ['b']", "this is not worked out"),
    ("'a' * 'b'", "'a' * 'b'", "this is not worked out"),
    ("'EL' * 1000000", "'EL' * 1000000", "this is not worked out"),
    ("[['a'] * 1000] * 2000", "[['a'] * 1000] * 2000", "this is not worked out"),
    ("-'a'", "-'a'", "this is not worked out"),
    ("b'EL'", "b'EL'", "this is neither text nor a number of reasonable length"),
    ("0x" + "f" * 80, "0x" + "f" * 80, "this is neither text nor a number of reasonable length"),
    ("one", "one", "one is bound 2 times"),
    ("['embedding', two]", "two", "two depends on which branch runs"),
]


@pytest.mark.parametrize(("expression", "carets", "reason"), UNKNOWN)
def test_a_layout_that_is_said_but_cannot_be_told_is_an_error(expression: str, carets: str, reason: str) -> None:
    text = f"if a:\n    one = 'EL'\n    two = 'EL'\nelse:\n    one = ['EL']\n    two = 'EtL'\nf({KEY}={expression})\n"
    (config,) = configs(text)
    assert config.layout is None
    (diagnostic,) = config.diagnostics
    assert (diagnostic.code, diagnostic.severity, diagnostic.label) == ("PP205", "error", reason)
    assert diagnostic.span is not None
    assert text[diagnostic.span.start : diagnostic.span.end] == carets


PASSED_ON = [
    "not x",
    "args.layout",
    "layout",
    "make('recipe')",
    "table[pp, vpp]",
    "parameter",
    "looped",
    "itself",
    "[x for x in y]",
    "changed",
]


@pytest.mark.parametrize("expression", PASSED_ON)
def test_a_layout_that_is_passed_on_is_not_said_here(expression: str) -> None:
    text = f"""\
for looped in ["EL"]:
    itself = itself
changed = "Et|"
changed += "L"
def f(parameter="EL"):
    g({KEY}={expression})
"""
    assert configs(text) == ()
    (diagnostic,) = read_launch_text(text, "recipe.py").diagnostics
    assert (diagnostic.code, diagnostic.label) == ("PP204", "passed on here")


def test_a_size_that_cannot_be_told_is_a_warning() -> None:
    text = f"def f(layers):\n    g({KEY}='EL', num_layers=layers, mtp_num_layers=1)\n"
    (config,) = configs(text)
    assert render_text(config.diagnostics, read_launch_text(text, "recipe.py").file_source) == (
        "warning[PP205]: the value of num_layers cannot be resolved\n"
        "  --> recipe.py:2:55\n"
        "   |\n"
        " 2 |     g(pipeline_model_parallel_layout='EL', num_layers=layers, mtp_num_layers=1)\n"
        "   |                                                       ^^^^^^ layers is known only when the file runs\n"
        "   = note: num-layers is not checked"
    )
    assert [one.value for one in config.settings] == [1]
    (config,) = configs("run(['--pipeline-model-parallel-layout', 'EL', '--num-layers', str(layers), '--pp', pp])\npp = 1")
    assert [one.message for one in config.diagnostics] == ["the value of --num-layers cannot be resolved"]
    assert [one.value for one in config.settings] == ["1"]


def test_what_only_mentions_the_flag_is_no_layout() -> None:
    text = """\
'''Run with --pipeline-model-parallel-layout "EL".'''
def f():
    "--pipeline-model-parallel-layout EL"
print("--pipeline-model-parallel-layout EL")
logger.info("--pipeline-model-parallel-layout EL")
parser.add_argument("--pipeline-model-parallel-layout", type=str, help="as in --pipeline-model-parallel-layout EL")
raise ValueError("--pipeline-model-parallel-layout is not supported with --num-layers")
run(["--pipeline-model-parallel-layout", args.layout, "--num-layers", -1, f(["--num-layers"])])
FLAGS = ["--pipeline-model-parallel-layout", "--num-layers"]
f"--pipeline-model-parallel-layout {args.layout} --num-layers {args.layers}"
"""
    assert configs(text) == ()


@pytest.mark.parametrize(
    "text",
    [
        "".join(f"a{n} = a{n + 1} + a{n + 1}\n" for n in range(3_000)) + f"f({KEY}=a0)\n",
        "a60 = ''\n" + "".join(f"a{n} = a{n + 1} + a{n + 1}\n" for n in range(60)) + f"f({KEY}=a0)\n",
        f"{KEY} = " + "'a' + " * 500 + "'b'\n",
        f"{KEY} = " + "[" * 60 + "]" * 60,
        f"{KEY} = " + "'Et|L' " * 10_000,
        "x" + ".a" * 500 + f".{KEY} = 'EL'\n",
        "if a: pass\n" + "".join(f"elif {n}: x = {n}\n" for n in range(300)) + f"f({KEY}='EL')\n",
        f"f'{'{a} --num-layers ' * 1_000}'\nf({KEY}='EL')\n",
    ],
)
def test_expressions_without_end_take_little_time(text: str) -> None:
    start = time.process_time()
    read_launch_text(text, "recipe.py")
    assert time.process_time() - start < 10  # seconds; most of these would never end, or overflow the stack


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        ('x(pipeline_model_parallel_layout="Et*{}|tL".format(3))\n', ["PP205"]),
        ('table = {(4, 1): "Et|tL"}\ncfg.pipeline_model_parallel_layout = table[(pp, vp)]\n', ["PP205"]),
        ("recipe(pipeline_model_parallel_layout=build_layout(8))\n", ["PP205"]),
        ("cfg.pipeline_model_parallel_layout = Layout.from_str(layout=self.pipeline_model_parallel_layout)\n", ["PP204"]),
        ('cfg.pipeline_model_parallel_layout = args["layout"]\n', ["PP204"]),
    ],
)
def test_a_layout_that_is_made_here_is_unresolved_and_one_that_is_passed_on_is_none(text: str, codes: list[str]) -> None:
    file = read_launch_text(text, "run.py")
    found = [*file.diagnostics, *(fault for config in file.configs for fault in config.diagnostics)]
    assert [fault.code for fault in found] == codes
