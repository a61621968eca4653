"""Python files whose layouts or sizes cannot be told, are only passed on, or never end."""

from __future__ import annotations

import time

import pytest

from ppdsl.launch_files import LaunchConfig, read_launch_text
from ppdsl.rendering import render_text

KEY = "pipeline_model_parallel_layout"


def configs(text: str) -> tuple[LaunchConfig, ...]:
    file = read_launch_text(text, "recipe.py")
    assert all(one.code == "PP204" for one in file.diagnostics)
    return file.configs


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
