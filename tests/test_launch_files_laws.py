"""Laws of reading launch files: the shell itself agrees, every place is right, and nothing that a file holds makes reading fail."""

from __future__ import annotations

import json
import re
import subprocess
from typing import TYPE_CHECKING

from hypothesis import example, given
from hypothesis import strategies as st

from ppdsl.launch_files import read_launch_text
from ppdsl.rendering import render_text

if TYPE_CHECKING:
    from ppdsl.launch_files import LaunchFile

FLAG = "--pipeline-model-parallel-layout"
KEY = "pipeline_model_parallel_layout"
LAYOUT_CHARS = st.text("EtmNL|*()0123456789,@", min_size=1, max_size=12)
ANY_CHARS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)

# What a word of a shell command may be made of, with the variables A, B (text) and R (an array) set and C not.
WORD_PARTS = [
    *("a", "b", "=", "'q r'", '"d $A e"', '"$A"', "${A}", '"${B}"', "${C:-def}", "${C:-'x y'}", "\"${C:-x 'y'}\""),
    *("${A:-zz}", "${A:+alt}", "${C+alt}'z'", "${C-unset}", "${C:=set}", "\\ ", "\\|", "$'t\\tn\\'\\x41'"),
    *('"\\$A\\x\\""', "'$A'", '"${R[@]}"', "${R[@]}", '"${R[*]}"', "${R[1]}", '"$R"', "\\\n", '"a\\\nb"', '"x\\|y"'),
    *("''", "#n"),
]
VALUES = ["1", "'two words'", '"$A x"', "$B", "${A}z", "a\\ b", "'E|t'", '"${C:-none}"', "$'\\x41'"]
ASSIGNMENTS = st.one_of(
    st.builds("{}{}={}".format, st.sampled_from("AB"), st.sampled_from(["", "+"]), st.sampled_from(VALUES)),
    st.builds("export {}={}".format, st.sampled_from("AB"), st.sampled_from(VALUES)),
    st.builds("if true; then {}={}; else exit; fi".format, st.sampled_from("AB"), st.sampled_from(VALUES)),
    st.builds("R{}=({}\n{})".format, st.sampled_from(["", "+"]), st.sampled_from(VALUES), st.sampled_from(VALUES)),
)
WORDS = st.lists(st.sampled_from(WORD_PARTS), min_size=1, max_size=4).map("".join).filter(lambda word: not word.startswith(("#", "\\\n")))


def words_of_bash(script: str) -> list[str]:
    shell = "x() { printf '%s\\0' \"$@\"; }\nset -f\nunset C\n"
    ran = subprocess.run(["bash", "--norc", "-c", shell + script], check=True, capture_output=True, env={})  # noqa: S607 -- whichever bash is there
    return ran.stdout.decode().split("\0")[:-1]


@given(st.lists(ASSIGNMENTS, max_size=5), WORDS)
@example([], "$'\\'|'\"\\|\"")
def test_the_layout_is_the_word_that_bash_passes_on(lines: list[str], word: str) -> None:
    script = "\n".join(["A=va", "B=v2", "R=(r1 r2)", *lines, f"x {FLAG} {word} --end", ""])
    (config,) = read_launch_text(script, "run.sh").configs
    assert config.layout is not None
    assert config.layout.value == words_of_bash(script)[1]


def yaml_string(value: str) -> str:
    """Write a string with an escape for every character: YAML allows fewer of them than JSON does."""
    return '"' + "".join(f"\\U{ord(char):08x}" for char in value) + '"'


def assert_exact(text: str, path: str, value: str) -> None:
    """Assert that a file gives one layout, each character at its own place."""
    (config,) = read_launch_text(text, path).configs
    assert config.layout is not None
    source = config.layout.source
    assert (config.layout.value, source.text) == (value, value)
    assert "".join(text[source.position(at)] for at in range(len(value))) == value
    assert [source.position(at) for at in range(len(value) + 1)] == list(range(source.position(0), source.position(0) + len(value) + 1))


@given(LAYOUT_CHARS, ANY_CHARS)
def test_a_layout_without_escapes_stands_in_one_piece(layout: str, before: str) -> None:
    comment = "".join(char for char in before if char.isprintable())
    assert_exact(f"# {comment}\nx {FLAG} '{layout}' --num-layers 2\n", "run.sh", layout)
    assert_exact(f'# {comment}\nL="{layout}"\nA=({FLAG} "${{L}}")\nx "${{A[@]}}"\n', "run.sh", layout)
    assert_exact(f"{yaml_string(before)}: 1\n{KEY}: '{layout}'\n", "run.yaml", layout)
    assert_exact(json.dumps({"a": [before], KEY: layout}, ensure_ascii=False), "run.json", layout)
    assert_exact(f"# {comment}\na = {json.dumps(comment, ensure_ascii=False)}\n{KEY} = '{layout}'\n", "run.toml", layout)
    assert_exact(f"x = {before!r}; f({KEY}='{layout}')\n", "run.py", layout)


@given(ANY_CHARS.filter(lambda value: not re.search(r"[$%]|\{\{|<[A-Z]", value)))  # those may begin what is filled in later
def test_any_text_comes_through_the_escapes_of_each_format(value: str) -> None:
    texts = {
        "run.json": json.dumps({KEY: value}),
        "run.yaml": f"{KEY}: {yaml_string(value)}",
        "run.toml": f"{KEY} = {json.dumps(value, ensure_ascii=False)}".replace("\x7f", "\\u007f"),
        "run.py": f"f({KEY}={value!a} {value!r})",
    }
    for path, text in texts.items():
        file = read_launch_text(text, path)
        (config,) = file.configs
        assert config.layout is not None
        assert config.layout.value == value * (2 if path == "run.py" else 1)
        check(file)


def check(file: LaunchFile) -> None:
    """Assert what holds of every reading, whatever the file."""
    text = file.file_source.text
    assert file.configs or file.diagnostics
    for config in file.configs:
        assert config.layout or config.settings or config.diagnostics
        render_text(config.diagnostics, file.file_source)
        for setting in (config.layout, *config.settings):
            if setting is not None:
                positions = [setting.source.position(at) for at in range(len(setting.source.text) + 1)]
                assert positions == sorted(positions)
                assert 0 <= positions[0] <= positions[-1] <= len(text)
    render_text(file.diagnostics, file.file_source)


SHELL_PIECES = [
    *(
        "if ",
        "; then ",
        "\nfi\n",
        "else ",
        "elif ",
        "for i in ",
        "; do ",
        "done\n",
        "case $x in ",
        "esac\n",
        ")",
        ";;",
        "(",
        "{ ",
        "}\n",
        "f()",
    ),
    *("$A", "${A}", "${A:-", "}", '"', "'", "$(", "`", "\\", "\n", " ", ";", "&&", "||", "|", "&", ">", "<<EOF\n", "EOF\n", "<<-'E'\n"),
    *("A=", "A+=", "export ", "declare -a ", "[0]", "${A[@]}", '"${A[@]}"', FLAG, FLAG + "=", "--num-layers", "--pp 2", "Et|tL", "'Et|tL'"),
    *(
        f"a.b.{KEY}=EL",
        "eval ",
        "bash -c ",
        "echo ",
        "read A",
        "unset A",
        "exit",
        "# c",
        "$'",
        "\\x41",
        "$((1+1))",
        "((",
        "))",
        "é",
        "\ufdd0",
    ),
    *("\r\n", "\t", "$1", "$@", f"{KEY}: Et|L\n", "python - ", "function ", "select ", "[["),
]
YAML_PIECES = [
    *("a: ", "- ", "\n", "  ", "&a ", "*a ", "<<: ", "{", "}", "[", "]", ",", ": ", "'", '"', "\\n", "\\x41", "|\n", "> \n", "#c", "---\n"),
    *(
        "!!python/object:os.system ",
        "!t ",
        f"{KEY}: ",
        "num_layers: ",
        "Et|tL",
        "12",
        "${x}",
        "--pp 2",
        "é",
        "null",
        "? ",
        "[[embedding],[loss]]",
    ),
]
JSON_PIECES = [
    *(
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        '"a"',
        f'"{KEY}"',
        '"num_layers"',
        "1",
        "true",
        "null",
        '"Et|tL"',
        '"\\u0041"',
        '"\\ud83d\\ude00"',
        "1e5",
    ),
    *(" ", "\n", "-", f'{{"{KEY}": "EL"}}', f'{{"{KEY}": ', '"num_layers": 1}'),
]
TOML_PIECES = [
    *(
        "[a]\n",
        "[[a]]\n",
        f"{KEY} = ",
        "num_layers = ",
        "a.b = ",
        "1\n",
        "'x'\n",
        '"Et|tL"\n',
        '"""a\nb"""\n',
        "'''c'''\n",
        "[1,2]\n",
        "{a=1}\n",
    ),
    *("# c\n", "\n", "true\n", "1.5\n", '"q" = ', "[", "]", "{", "}", "\\", "é"),
]
PYTHON_PIECES = [
    *(
        "if x:\n ",
        "else:\n ",
        "def f(a, b=1):\n ",
        "class C:\n ",
        "x = ",
        "y",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        ",",
        "\n",
        " ",
        f"{KEY}=",
        "num_layers=",
    ),
    *(
        "'Et|tL'",
        '"E|L"',
        "f'{x}'",
        "r'\\t'",
        "'\\t'",
        "+",
        "*",
        "2",
        "None",
        "LayerType.decoder",
        "c.",
        "x",
        "return ",
        "lambda: ",
        "dict(",
        "é",
    ),
    *(
        "'--num-layers', '3'",
        "'''a\nb'''",
        "\\\n",
        ":",
        f"'{KEY}': ",
        "for i in y:\n ",
        "import os\n",
        "#c\n",
        "if a: x = 'E'\nelse: x = 'EL'\n",
    ),
]
FILES = st.sampled_from(
    [
        ("run.sh", SHELL_PIECES, f"\nx {FLAG} 'EL'"),
        ("run.yaml", YAML_PIECES, f"\n{KEY}: EL\n"),
        ("run.json", JSON_PIECES, ""),
        ("run.toml", TOML_PIECES, f'\n{KEY} = "EL"\n'),
        ("run.py", PYTHON_PIECES, f"\n{KEY} = 'EL'\n"),
    ]
)


@given(FILES, st.data())
def test_no_file_made_of_pieces_of_its_format_makes_reading_fail(file: tuple[str, list[str], str], data: st.DataObject) -> None:
    path, pieces, end = file
    text = "".join(data.draw(st.lists(st.sampled_from(pieces), max_size=40)))
    check(read_launch_text(text + data.draw(st.sampled_from(["", end])), path))


@given(st.sampled_from(["run.sh", "run.yaml", "run.json", "run.toml", "run.py", "Makefile"]), st.text(), st.text())
def test_no_text_makes_reading_fail(path: str, before: str, after: str) -> None:
    check(read_launch_text(f"{before}{KEY}{after}", path))
