"""README.md and grammar/README.md say what is so, and the examples do what they say: each block of the pages is run."""

from __future__ import annotations

import contextlib
import doctest
import io
import json
import os
import pkgutil
import re
import shlex
import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec
from itertools import zip_longest
from pathlib import Path
from shutil import which
from subprocess import PIPE, STDOUT
from typing import NamedTuple

import jsonschema
import pytest
import yaml

import ppdsl
from ppdsl.catalog import all_rules
from ppdsl.cli.options import FORMATS
from ppdsl.cli.program import COMMANDS, run
from ppdsl.costs import read_costs
from ppdsl.options import SCHEDULES
from ppdsl.schemas import schema_for

ROOT = Path(__file__).parents[1]
PAGES = ("README.md", "grammar/README.md")
BASH = which("bash") or "bash"
DEMO = ROOT / "examples/demo.sh"
PICTURE = "picture.py"
SCRIPTS = sorted(path.name for path in (ROOT / "examples").glob("*.py") if path.name != PICTURE)
PRINTS = "\n# Prints:\n#\n"
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NOT_RUN = {"ebnf", "sh"}
"""Kinds of block that are read only by people: commands that install something, and the grammar in EBNF."""
PRELUDE = 'ppdsl() { "$PYTHON" -m ppdsl "$@"; }\ncode=0'


class Block(NamedTuple):
    page: str
    line: int
    kind: str
    text: str
    after: str  # the text block behind a python block: what it prints


def read_blocks(page: str) -> list[Block]:
    text = (ROOT / page).read_text(encoding="utf-8")
    found = [*FENCE.finditer(text)]
    assert found, f"{page} has no block"
    assert text.count("\n```") == 2 * len(found), f"{page} has a fence without a kind, or one that is never closed"
    return [
        Block(page, text.count("\n", 0, block.start()) + 1, block[1], block[2], behind[2] if behind and behind[1] == "text" else "")
        for block, behind in zip_longest(found, found[1:])
    ]


def blocks_of(*kinds: str) -> list[object]:
    """Give the blocks of some kinds, each as a test's parameter named by its place."""
    found = [block for page in PAGES for block in read_blocks(page) if block.kind in kinds]
    assert found, f"no page has a block of {kinds}"
    return [pytest.param(block, id=f"{block.page}:{block.line}") for block in found]


def environment() -> dict[str, str]:
    """Give the environment of a user whose output goes to a file."""
    kept = {name: value for name, value in os.environ.items() if name not in {"CLICOLOR_FORCE", "COLUMNS", "FORCE_COLOR", "PPDSL_DEBUG"}}
    path = os.pathsep.join(str(ROOT / folder) for folder in ("", "runtime", "grammar"))
    return kept | {"PYTHON": sys.executable, "PYTHONPATH": path, "PYTHONUTF8": "1", "NO_COLOR": "1"}


def run_bash(script: str, folder: Path, path: str = "") -> subprocess.CompletedProcess[str]:
    """Run a script, with its standard error behind its standard output."""
    variables = environment() | ({"PATH": f"{path}{os.pathsep}{os.environ['PATH']}"} if path else {})
    command = [BASH, "-c", script]
    return subprocess.run(command, cwd=folder, env=variables, stdin=subprocess.DEVNULL, stdout=PIPE, stderr=STDOUT, text=True, check=False)


def transcribe(session: str, folder: Path) -> str:
    """Run the commands of a session, and give the session as it really goes."""
    lines = re.findall(r"^\$ (.*(?:\n> .*)*)", session, re.MULTILINE)
    script = [PRELUDE]
    for line in lines:
        script += [f"printf '%s\\n' {shlex.quote(f'$ {line}')}", "(exit $code)", line.replace("\n> ", "\n"), "code=$?"]
    return run_bash("\n".join(script), folder).stdout


def answer(layout: str, options: list[str]) -> tuple[str, str, str | None]:
    """Check a layout, and give the code of what is worst in it, or ``valid``; its message; and the canonical form."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        run(["check", "--output-format", "json", *options, "--", layout])
    document = json.loads(printed.getvalue())
    worst = [each for severity in ("error", "warning") for each in document["diagnostics"] if each["severity"] == severity]
    worst = [each for each in worst if each["severity"] == worst[0]["severity"]]
    assert len({each["code"] for each in worst}) < 2, f"{layout} has several faults: {worst}"
    canonical = document["layout"]["canonical"]
    return (worst[0]["code"], worst[0]["message"], canonical) if worst else ("valid", "", canonical)


@pytest.mark.parametrize("page", PAGES)
def test_every_block_is_of_a_kind_that_is_run_or_known_not_to_be(page: str) -> None:
    kinds = {block.kind for block in read_blocks(page)}
    assert kinds - NOT_RUN
    assert kinds <= {"console", "json", "layouts", "peer", "pycon", "python", "text", "yaml", *NOT_RUN}


@pytest.mark.parametrize("block", blocks_of("console"))
def test_a_session_goes_as_it_is_written(block: Block, tmp_path: Path) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    assert "$ " in block.text
    assert transcribe(block.text, tmp_path) == block.text


@pytest.mark.parametrize("block", blocks_of("layouts"))
def test_a_layout_is_answered_as_it_is_written(block: Block) -> None:
    for line in block.text.splitlines():
        verdict, said, *rest = re.split(r" {2,}", line)
        layout, *options = re.split(r" (?=--)", said)
        code, message, canonical = answer(layout, [word for option in options for word in shlex.split(option)])
        expected = "".join(rest)
        if expected.endswith("…"):  # the message is shortened
            message = message[: len(expected) - 1] + "…"
        assert (verdict, expected) == (code, f"= {canonical}" if expected.startswith("=") else message), line


@pytest.mark.peer
@pytest.mark.parametrize("block", blocks_of("peer"))
def test_megatron_reads_what_is_written(block: Block) -> None:
    if sys.version_info < (3, 11):
        pytest.skip("megatron-core needs Python 3.11")
    from megatron.core.transformer.pipeline_parallel_layer_layout import PipelineParallelLayerLayout  # noqa: PLC0415 -- it takes seconds to load

    letters = {"embedding": "E", "decoder": "t", "mtp": "m", "loss": "L"}
    for line in block.text.splitlines():
        text, stages, code = re.split(r" {2,}", line)
        read = PipelineParallelLayerLayout(text, 1)
        read.validate_layer_layout(num_layers=stages.count("t"), mtp_num_layers=None)
        found = "|".join("".join(letters[layer.name] for layer in stage) for stage in read.layout[0])
        assert (found, answer(text, [])[0]) == (stages, code), line


@pytest.mark.parametrize("block", blocks_of("python"))
def test_a_program_prints_what_is_written_behind_it(block: Block) -> None:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(block.text, block.page, "exec"), {"__name__": "__main__"})  # noqa: S102 -- our own page
    assert block.after
    assert printed.getvalue() == block.after


@pytest.mark.parametrize("page", PAGES)
def test_a_python_session_goes_as_it_is_written(page: str) -> None:
    session = "".join(block.text for block in read_blocks(page) if block.kind == "pycon")
    examples = doctest.DocTestParser().get_doctest(session, {}, page, page, 0)
    assert examples.examples
    assert doctest.DocTestRunner().run(examples).failed == 0


def test_examples_in_docstrings_hold() -> None:
    names = [found.name for found in pkgutil.walk_packages(ppdsl.__path__, "ppdsl.") if not found.name.endswith("__main__")]
    results = [doctest.testmod(import_module(name)) for name in names]
    assert sum(result.failed for result in results) == 0
    assert sum(result.attempted for result in results) > 0


@pytest.mark.parametrize("block", blocks_of("yaml"))
def test_the_hooks_of_the_page_are_those_of_the_repository(block: Block) -> None:
    hooks = {hook["id"] for hook in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))}
    assert {hook["id"] for repository in yaml.safe_load(block.text)["repos"] for hook in repository["hooks"]} == hooks


@pytest.mark.parametrize("block", blocks_of("json"))
def test_a_costs_file_of_the_page_is_one(block: Block) -> None:
    jsonschema.validate(json.loads(block.text), schema_for("costs"))
    assert read_costs(block.text).kinds.keys() == {"E", "t", "m", "L"}


def test_the_page_has_all_codes_and_no_other() -> None:
    page = (ROOT / "grammar/README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (PP\d+) \| (\w+) \| (.*) \|$", page, re.MULTILINE)
    assert rows == [(rule.code, rule.severity, rule.title) for rule in all_rules().values()]


def test_the_page_has_all_commands_and_formats() -> None:
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    assert tuple(dict.fromkeys(re.findall(r"^\| `ppdsl (\w+)", page, re.MULTILINE))) == COMMANDS
    assert tuple(re.findall(r"^\| `--output-format (\w+)`", page, re.MULTILINE)) == FORMATS
    schedules = re.search(r"^\| `--schedule` \|.*\n\|---\|---\|\n((?:\|.*\n)+)", page, re.MULTILINE)
    assert schedules is not None
    rows = [row.split(" | ")[0] for row in schedules[1].splitlines()]
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == {*SCHEDULES}


@pytest.mark.parametrize("page", [*PAGES, "runtime/README.md", "CONTRIBUTING.md"])
def test_links_lead_somewhere(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    for target in re.findall(r"\]\((?!https:)([^)]+)\)", text):
        path, _, anchor = target.partition("#")
        assert (ROOT / page).parent.joinpath(path).exists() if path else anchor, target
        if anchor:
            there = (ROOT / page).parent.joinpath(path) if path else ROOT / page
            titles = re.findall(r"^#+ (.+)$", there.read_text(encoding="utf-8"), re.MULTILINE)
            assert anchor in {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}, target


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_prints_what_stands_at_its_end(name: str, tmp_path: Path) -> None:
    _, behind, comment = (ROOT / "examples" / name).read_text(encoding="utf-8").partition(PRINTS)
    assert behind, f"{name} does not say what it prints"
    expected = "".join(f"{line[2:]}\n" for line in comment.splitlines())
    command = [sys.executable, str(ROOT / "examples" / name)]
    done = subprocess.run(command, cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, expected, "")


def stand_in(folder: Path, script: str, name: str = "ppdsl") -> str:
    """Put a command into a folder, and give the folder."""
    (folder / name).write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    (folder / name).chmod(0o755)
    return str(folder)


@pytest.mark.torchrun
@pytest.mark.xdist_group("torchrun")
@pytest.mark.skipif(find_spec("transformers") is None, reason="the runtime is not installed")
def test_the_demo_shows_all_it_says_and_trains(tmp_path: Path) -> None:
    stand_in(tmp_path, f'exec "{sys.executable}" -m torch.distributed.run "$@"', "torchrun")
    done = run_bash(f"bash {DEMO}", tmp_path, stand_in(tmp_path, f'exec "{sys.executable}" -m ppdsl "$@"'))
    commands = re.findall(r"^(?:ppdsl|torchrun) .*$", DEMO.read_text(encoding="utf-8"), re.MULTILINE)
    assert commands
    assert re.findall(r"^\$ (.*)$", done.stdout, re.MULTILINE) == commands
    assert done.returncode == 0
    assert {"valid", "invalid: 1 error", "(exit code 1)"} <= set(done.stdout.splitlines())
    loss = re.search(r"^loss (\d+\.\d+) at step 1, (\d+\.\d+) at step 40$", done.stdout, re.MULTILINE)
    assert loss is not None
    assert float(loss[2]) < float(loss[1]) - 1
    assert done.stdout.index("predicted from the stages' times") < done.stdout.index("measured: ")


def test_the_demo_fails_where_ppdsl_does(tmp_path: Path) -> None:
    assert run_bash(f"bash {DEMO}", tmp_path, stand_in(tmp_path, "exit 70")).returncode == 70


def test_the_picture_is_what_is_drawn_today() -> None:
    command = [sys.executable, str(ROOT / "examples" / PICTURE)]
    drawn = subprocess.run(command, env=environment(), capture_output=True, encoding="utf-8", check=True).stdout
    assert drawn == (ROOT / "docs/ppdsl.svg").read_text(encoding="utf-8")
