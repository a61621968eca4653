from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from ppdsl.launch_files import LaunchConfig, LaunchFile, Setting, read_launch_file, read_launch_text
from ppdsl.rendering import render_text

FOLDER = Path(__file__).parent / "corpus" / "launch_files"
EXPECTED: dict[str, list[dict[str, Any]]] = json.loads((FOLDER / "expected.json").read_text(encoding="utf-8"))


# Their layouts are woven from text in one line and a variable of a line above, which no rising list of places can follow.
WOVEN = {"overrides.sh", "recipe.py.txt"}


def place(setting: Setting) -> str:
    line, column = setting.source.line_column(0)
    return f"{line}:{column}"


def as_expected(config: LaunchConfig, file: LaunchFile) -> dict[str, Any]:
    reports = []
    for one in config.diagnostics:
        assert one.span is not None
        line, column = file.file_source.line_column(one.span.start)
        reports.append(f"{one.severity} {one.code} {line}:{column}: {one.message}")
    return {
        "layout": config.layout.value if config.layout else None,
        "at": place(config.layout) if config.layout else None,
        "settings": {setting.name: [setting.value, place(setting)] for setting in config.settings},
        "reports": reports,
    }


def test_the_corpus_is_whole() -> None:
    assert set(EXPECTED) == {path.name for path in FOLDER.iterdir()} - {"expected.json"}
    assert len(EXPECTED) > 15


@pytest.mark.parametrize("name", EXPECTED)
def test_a_launch_file_gives_its_layouts_and_sizes(name: str) -> None:
    file = read_launch_file(str(FOLDER / name))
    assert file.diagnostics == ()
    assert [as_expected(config, file) for config in file.configs] == EXPECTED[name]


@pytest.mark.parametrize("name", EXPECTED)
def test_a_value_stands_where_it_says(name: str) -> None:
    file = read_launch_file(str(FOLDER / name))
    text = file.file_source.text
    for config in file.configs:
        for setting in (config.layout, *config.settings):
            if setting is None:
                continue
            source = setting.source
            assert source.file_text == text
            assert source.name == str(FOLDER / name)
            assert source.positions is not None
            assert len(source.positions) == len(source.text) + 1
            if name in WOVEN and setting is config.layout:
                continue
            wrong = [char for at, char in enumerate(source.text) if text[source.position(at)] != char and char not in "| "]
            assert wrong == []  # a bar may be an escape in the file, and a space the fold of a line


def render(path: str) -> str:
    file = read_launch_file(path)
    assert file.configs == ()
    return render_text(file.diagnostics, file.file_source)


def test_a_file_without_a_layout_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("plain.sh").write_text("torchrun pretrain.py --num-layers 4\n", encoding="utf-8")
    assert render("plain.sh") == "error[PP204]: no layout in plain.sh"


def test_a_file_that_names_no_layout_is_not_parsed() -> None:
    file = read_launch_text("a: [\n", "chart.yaml")
    assert [one.code for one in file.diagnostics] == ["PP204"]


def test_a_layout_that_is_null_or_empty_or_passed_on_is_pointed_at() -> None:
    text = (
        "model.pipeline_model_parallel_layout = None\n"
        "other.pipeline_model_parallel_layout = args.layout\n"
        "third.pipeline_model_parallel_layout = make(args)\n"
        "last.pipeline_model_parallel_layout = layouts[pp]\n"
    )
    file = read_launch_text(text, "recipe.py")
    assert file.configs == ()
    assert render_text(file.diagnostics, file.file_source) == (
        "error[PP204]: no layout in recipe.py\n"
        "  --> recipe.py:1:7\n"
        "   |\n"
        " 1 | model.pipeline_model_parallel_layout = None\n"
        "   |       ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ None here\n"
        " 2 | other.pipeline_model_parallel_layout = args.layout\n"
        "   |       ------------------------------ passed on here\n"
        " 3 | third.pipeline_model_parallel_layout = make(args)\n"
        "   |       ------------------------------ passed on here"
    )


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\x7fELF\x00\x01\xff\xfe", "it is a binary file: byte 6 cannot be decoded"),
        (b"caf\xe9 pipeline-layer-costs", "it is not valid UTF-8: byte 3 cannot be decoded"),
        (b"\xff\xfea\x00b", "it is not valid UTF-16: byte 4 cannot be decoded"),
        (b"a\x00b", "it holds a NUL character, as binary files do"),
    ],
)
def test_what_is_no_text_is_refused_in_one_line(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "run.sh"
    path.write_bytes(content)
    assert render(str(path)).splitlines()[0] == f"error[PP206]: cannot read {path}: {message}"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_encodings_and_line_ends(encoding: str, newline: str, tmp_path: Path) -> None:
    path = tmp_path / "run.sh"
    lines = ("# é 日本", "LAYOUT='Et|tL'", "x --num-layers \\", "  2 --pipeline-model-parallel-layout $LAYOUT", "")
    path.write_bytes(newline.join(lines).encode(encoding))
    file = read_launch_file(str(path))
    (config,) = file.configs
    assert config.layout is not None
    assert (config.layout.value, place(config.layout)) == ("Et|tL", "2:9")
    assert [(one.name, one.value, place(one)) for one in config.settings] == [("num-layers", "2", "4:3")]


def test_a_missing_file_a_directory_and_a_name_that_none_can_have(tmp_path: Path) -> None:
    missing = str(tmp_path / "missing.sh")
    assert render(missing) == f"error[PP206]: cannot read {missing}: no such file or directory"
    assert render(str(tmp_path)) == f"error[PP206]: cannot read {tmp_path}: it is a directory"
    assert render("a\0b") == "error[PP206]: cannot read a\\u{0}b: no file can have this name"


def test_a_pipe_and_a_device_are_not_opened(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.sh"
    os.mkfifo(pipe)
    assert render(str(pipe)) == f"error[PP206]: cannot read {pipe}: it is not a regular file"
    assert render("/dev/zero") == "error[PP206]: cannot read /dev/zero: it is not a regular file"


def test_a_file_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "run.sh"
    path.write_text("x", encoding="utf-8")

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("builtins.open", refuse)
    assert render(str(path)) == f"error[PP206]: cannot read {path}: permission denied"


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "huge.sh"
    with path.open("wb") as file:
        file.truncate(100 << 20)
    assert render(str(path)) == f"error[PP206]: cannot read {path}: it is larger than 8 MiB"
    grown = tmp_path / "grown.sh"
    grown.write_bytes(b"x" * 11)
    monkeypatch.setattr("ppdsl.launch_files.reading._LARGEST", 10)
    monkeypatch.setattr("ppdsl.launch_files.reading.os.stat", lambda _: os.stat_result((0o100644, 0, 0, 0, 0, 0, 0, 0, 0, 0)))
    assert render(str(grown)) == f"error[PP206]: cannot read {grown}: it is larger than 0 MiB"


def test_a_lone_surrogate_is_pointed_at() -> None:
    file = read_launch_text("x \ud800 --pipeline-model-parallel-layout EL", "run.sh")
    assert render_text(file.diagnostics, file.file_source) == (
        "error[PP206]: cannot read run.sh: it holds a lone surrogate, which is no character\n"
        "  --> run.sh:1:3\n"
        "   |\n"
        " 1 | x \\u{d800} --pipeline-model-parallel-layout EL\n"
        "   |   ^^^^^^^^"
    )


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("run.yaml", "pipeline_model_parallel_layout: EL"),
        ("run.YML", "pipeline_model_parallel_layout: EL"),
        ("run.yaml.j2", "pipeline_model_parallel_layout: EL"),
        ("run.json", '{"pipeline_model_parallel_layout": "EL"}'),
        ("run.toml", "pipeline_model_parallel_layout = 'EL'"),
        ("run.py", "f(pipeline_model_parallel_layout='EL')"),
        ("run", "#!/usr/bin/env python3\nf(pipeline_model_parallel_layout='EL')"),
        ("run", "#!/bin/bash\nx --pipeline-model-parallel-layout EL"),
        ("<stdin>", "x --pipeline-model-parallel-layout=EL"),
        ("Makefile", "train:\n\tpython x.py --pipeline-model-parallel-layout EL"),
        ("run.sh.template", "x --pipeline_model_parallel_layout EL"),
    ],
)
def test_the_name_or_the_first_line_tells_the_format(path: str, text: str) -> None:
    (config,) = read_launch_text(text, path).configs
    assert config.layout is not None
    assert (config.layout.value, config.layout.source.name) == ("EL", path)


@pytest.mark.parametrize(
    ("path", "text", "report"),
    [
        (
            "run.yaml",
            "a: 1\nb: [x\npipeline_model_parallel_layout: EL\n",
            (
                "error[PP206]: cannot read run.yaml: the file is not valid YAML: did not find expected ',' or ']'\n"
                "  --> run.yaml:3:31\n"
                "   |\n"
                " 3 | pipeline_model_parallel_layout: EL\n"
                "   |                               ^"
            ),
        ),
        (
            "run.json",
            '{\n  // the layout\n  "pipeline_model_parallel_layout": "EL"\n}',
            (
                "error[PP206]: cannot read run.json: the file is not valid JSON: expecting property name enclosed in double quotes\n"
                "  --> run.json:2:3\n"
                "   |\n"
                " 2 |   // the layout\n"
                "   |   ^"
            ),
        ),
        (
            "run.toml",
            "a = 1\npipeline_model_parallel_layout = EL\n",
            (
                "error[PP206]: cannot read run.toml: the file is not valid TOML: invalid value\n"
                "  --> run.toml:2:34\n"
                "   |\n"
                " 2 | pipeline_model_parallel_layout = EL\n"
                "   |                                  ^"
            ),
        ),
        (
            "run.py",
            "x = 1\nf(pipeline_model_parallel_layout='EL'\n",
            (
                "error[PP206]: cannot read run.py: the file is not valid Python: '(' was never closed\n"
                "  --> run.py:2:2\n"
                "   |\n"
                " 2 | f(pipeline_model_parallel_layout='EL'\n"
                "   |  ^"
            ),
        ),
    ],
)
def test_a_file_that_cannot_be_parsed_is_pointed_into(path: str, text: str, report: str) -> None:
    file = read_launch_text(text, path)
    assert file.configs == ()
    assert render_text(file.diagnostics, file.file_source) == report


@pytest.mark.parametrize(
    ("path", "text", "message"),
    [
        ("run.yaml", "pipeline_model_parallel_layout: " + "[" * 100_000, "the file is not valid YAML: exceeded maximum nesting depth"),
        ("run.yaml", "pipeline_model_parallel_layout: " + "[" * 600 + "]" * 600, "the file is nested over 500 deep"),
        ("run.yaml", "pipeline_model_parallel_layout: *no", "the file is not valid YAML: found undefined alias 'no'"),
        ("run.yaml", "pipeline_model_parallel_layout: \x01", "the file is not valid YAML: it holds a character that YAML does not allow"),
        ("run.json", '{"pipeline_model_parallel_layout": ' + "[" * 100_000, "the file is nested too deep"),
        ("run.json", "pipeline_model_parallel_layout", "the file is not valid JSON: expecting value"),
        ("run.toml", "pipeline_model_parallel_layout = " + "[" * 100_000, "the file is nested too deep"),
        ("run.toml", "pipeline_model_parallel_layout = 'x'\n" + "a." * 50_000 + "b = 1", "a key has over 200 parts"),
        ("run.toml", "pipeline_model_parallel_layout = '''", "the file is not valid TOML: expected \"'''\""),
        ("run.toml", "pipeline_model_parallel_layout = " + "9" * 5_000, "the file holds a number that is too long"),
        ("run.py", "pipeline_model_parallel_layout = " + "-" * 100_000 + "1", "the file is nested too deep"),
        ("run.py", "pipeline_model_parallel_layout = " + "(" * 1_000, "the file is not valid Python: too many nested parentheses"),
    ],
)
def test_a_file_made_to_break_a_reader_gets_one_clear_line(path: str, text: str, message: str) -> None:
    file = read_launch_text(text, path)
    assert (file.configs, [one.message for one in file.diagnostics]) == ((), [f"cannot read {path}: {message}"])


def test_reading_executes_and_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    command = "touch made"
    texts = {
        "run.sh": f"$({command}) `{command}`\neval {command}\nx --pipeline-model-parallel-layout EL <({command})\n",
        "run.py": "open('made', 'w')\n__import__('os').system('touch made')\nf(pipeline_model_parallel_layout='EL')\n",
        "run.yaml": "a: !!python/object/apply:os.system ['touch made']\npipeline_model_parallel_layout: EL\n",
    }
    for name, text in texts.items():
        Path(name).write_text(text, encoding="utf-8")
    for name in texts:
        file = read_launch_file(name)
        assert [config.layout.value for config in file.configs if config.layout] == ["EL"]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(texts)
