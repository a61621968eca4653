"""Layouts from launch files: their sizes, what overrides them, and what the output says of both."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from ppdsl.cli import main

if TYPE_CHECKING:
    from pathlib import Path

RUN_SH = """\
PP=2
torchrun pretrain_gpt.py \\
    --num-layers 12 --pipeline-model-parallel-size ${PP} \\
    --global-batch-size 32 --micro-batch-size 1 --data-parallel-size 4 \\
    --untie-embeddings-and-output-weights \\
    --pipeline-model-parallel-layout 'Et*3||t*3|t*6,L'
"""
RUN_YAML = """\
model:
  num_layers: 13
  pipeline_model_parallel_size: 2
  pipeline_model_parallel_layout: "Et*3||t*3|t*6L"
"""
TABLE = """\
rank  vpp 0          vpp 1
   0  0: Et*3 [0-2]  2: t*3 [3-5]
   1  1: (empty)     3: t*6NL [6-11]
4 stages, pp 2 x vpp 2 (vpp implied), 12 decoder layers, placement loop
valid
"""
TABLE_UNTIED = TABLE.replace("placement loop", "placement loop, word embedding on rank 0")


def run(*arguments: str, stdin: str | bytes = "") -> tuple[str, str, int]:
    with CliRunner().isolation(input=stdin, env={"CLICOLOR_FORCE": None}) as (output, errors, _):
        code = main(["check", *arguments])
        sys.stdout.flush()
        return output.getvalue().decode(), errors.getvalue().decode(), code


def results(*arguments: str, stdin: str | bytes = "") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(run(*arguments, "--output-format", "json", stdin=stdin)[0])["results"]
    return found


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.sh").write_text(RUN_SH)
    (tmp_path / "run.yaml").write_text(RUN_YAML)
    (tmp_path / "plain.txt").write_text("hello\n")
    return tmp_path


@pytest.mark.usefixtures("folder")
def test_a_launch_file_gives_the_layout_and_its_sizes() -> None:
    assert run("--from", "run.sh") == (
        "run.sh:6: Et*3||t*3|t*6,L\n"
        "pp 2 from run.sh:1, num-layers 12 from run.sh:3, microbatches 8 from run.sh:4, untied-embeddings from run.sh:5\n"
        "\n" + TABLE_UNTIED,
        "",
        0,
    )


@pytest.mark.usefixtures("folder")
def test_what_is_typed_overrides_the_file() -> None:
    output, _, code = run("--from", "run.sh", "--pp", "4", "--num-layers", "13", "--tied-embeddings", "--with", "moe-fb-overlap")
    assert output.splitlines()[1] == (
        "pp 4 from --pp, num-layers 13 from --num-layers, microbatches 8 from run.sh:4, tied-embeddings from --tied-embeddings, "
        "moe-fb-overlap from --with"
    )
    assert "error[PP302]: layout has 12 decoder layers, --num-layers says 13\n  --> run.sh:6:" in output
    assert code == 1


@pytest.mark.usefixtures("folder")
def test_carets_stand_in_the_lines_of_the_file() -> None:
    assert run("--files", "run.yaml")[0] == (
        "run.yaml:4: Et*3||t*3|t*6L\n"
        "pp 2 from run.yaml:3, num-layers 13 from run.yaml:2\n"
        "\n"
        "error[PP302]: layout has 12 decoder layers, --num-layers says 13\n"
        "  --> run.yaml:4:46\n"
        "   |\n"
        ' 4 |   pipeline_model_parallel_layout: "Et*3||t*3|t*6L"\n'
        "   |                                     ---  --- ^^^ 6 layers\n"
        "   |                                     |    |\n"
        "   |                                     |    3 layers\n"
        "   |                                     3 layers\n"
        "   = help: `t*4` in stage 2 gives 13: Et*3||t*4|t*6L\n"
        "\n"
        "invalid: 1 error\n"
    )


@pytest.mark.usefixtures("folder")
def test_many_files_are_summed_up() -> None:
    output, errors, code = run("--files", "run.sh", "plain.txt", "missing.sh", ".")
    assert output.endswith(
        "\n"
        "error[PP204]: no layout in plain.txt\n"
        "\n"
        "invalid: 1 error\n"
        "\n"
        "error[PP206]: cannot read missing.sh: no such file or directory\n"
        "\n"
        "invalid: 1 error\n"
        "\n"
        "error[PP206]: cannot read .: it is a directory\n"
        "\n"
        "invalid: 1 error\n"
        "\n"
        "in all: 1 valid, 3 invalid\n"
    )
    assert (errors, code) == ("", 2)


@pytest.mark.usefixtures("folder")
def test_files_without_a_layout_can_be_forgiven() -> None:
    assert run("--files", "--allow-none", "plain.txt") == ("", "", 0)
    assert run("--files", "--allow-none", "missing.txt")[2] == 2
    assert results("--files", "--allow-none", "plain.txt", "run.sh")[0]["layout"]["source"] == "Et*3||t*3|t*6,L"


@pytest.mark.usefixtures("folder")
def test_json_says_where_each_value_comes_from() -> None:
    (result,) = results("--from", "run.sh", "--pp", "4", "--vpp", "1", "--placement", "v")
    assert result["place"] == {"name": "run.sh", "line": 6, "column": 39}
    assert result["provenance"] == [
        {"name": "pp", "value": 4, "from": "--pp"},
        {"name": "vpp", "value": 1, "from": "--vpp"},
        {"name": "num-layers", "value": 12, "from": "run.sh:3"},
        {"name": "microbatches", "value": 8, "from": "run.sh:4"},
        {"name": "placement", "value": "v", "from": "--placement"},
        {"name": "untied-embeddings", "value": None, "from": "run.sh:5"},
    ]
    assert results("--files", "plain.txt")[0]["place"] == {"name": "plain.txt", "line": None, "column": None}


def test_a_launch_file_can_come_by_standard_input() -> None:
    assert run("--from", "-", stdin=RUN_SH)[0].endswith(TABLE_UNTIED)
    assert run("--from", "-", stdin=b"\xff")[0].startswith("error[PP206]: standard input is not valid UTF-8 at byte 0\n")


LAUNCHES = [
    ("pipeline-model-parallel-layout: EtL\nnum_layers: many\n", ["PP205"], 0),
    ("pipeline-model-parallel-layout: EtL\nnum_layers: 1.0\n", [], 0),
    ("pipeline-model-parallel-layout: EtL\nnum_layers: 1.5\n", ["PP205"], 0),
    ("pipeline-model-parallel-layout: EtL\nnum_layers: true\n", ["PP205"], 0),
    ("pipeline-model-parallel-layout: EtL\nnum_layers: null\n", [], 0),
    ("pipeline-model-parallel-layout: EtL\nnum_layers: -1\n", ["PP203"], 2),
    ("pipeline-model-parallel-layout: [[embedding, decoder, loss]]\n", [], 0),
    ("pipeline-model-parallel-layout: [[embedding, 3], [loss]]\n", ["PP209"], 1),
    ("pipeline-layer-partition: '2'\n", [], 0),
    ("pipeline-layer-partition: [2]\n", [], 0),
    ("pipeline-layer-partition: [2, x]\n", ["PP208"], 1),
    ("pipeline-chunk-layout: 0:2,0:2\n", [], 0),
    ("pipeline-layer-costs: '1,1,1'\n", [], 0),
    ("pipeline-layer-costs: [1, 1.5, 'L:2']\n", [], 0),
    ("pipeline-layer-costs: [1, 0]\n", ["PP208"], 1),
]


@pytest.mark.parametrize(("text", "codes", "exit_code"), LAUNCHES)
def test_values_of_a_launch_file(text: str, codes: list[str], exit_code: int, tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(text)
    (result,) = results("--from", str(path), "--pp", "1")
    assert [each["code"] for each in result["diagnostics"] if each["severity"] != "info"] == codes
    assert run("--from", str(path), "--pp", "1")[2] == exit_code


def test_a_form_in_a_file_and_a_typed_placement_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text("pipeline-chunk-layout: 0:2,1:2\n")
    (result,) = results("--from", str(path), "--placement", "v")
    assert [each["code"] for each in result["diagnostics"]] == ["PP201"]


@pytest.mark.parametrize(
    ("lines", "arguments", "codes"),
    [
        ("num-virtual-stages-per-pipeline-rank: 2", ["--pp", "2", "--target", "megatron"], ["PP520"]),
        ("num-virtual-stages-per-pipeline-rank: 2", ["--pp", "2"], []),
        ("num-virtual-stages-per-pipeline-rank: 4", ["--pp", "2"], ["PP311"]),
        ("virtual-pipeline-model-parallel-size: 2", ["--pp", "2", "--target", "megatron"], []),
        ("account-for-loss-in-pipeline-split: true", ["--pp", "2", "--target", "megatron"], ["PP520"]),
        ("account-for-loss-in-pipeline-split: false", ["--pp", "2", "--target", "megatron"], []),
        ("overlap-p2p-communication: false", ["--pp", "2", "--target", "megatron"], ["PP523"]),
        ("overlap-p2p-communication: false", ["--pp", "2", "--target", "megatron", "--with", "overlap-p2p-communication"], []),
        ("noop-layers: '1,2'", ["--pp", "2", "--target", "mindspeed"], ["PP520"]),
        ("global-batch-size: 12\nmicro-batch-size: 2\ndata-parallel-size: 2", ["--pp", "2"], ["PP315"]),
        ("global-batch-size: 12\nmicro-batch-size: 2\ndata-parallel-size: 2", ["--pp", "2", "--microbatches", "4"], []),
        ("global-batch-size: 12\nmicro-batch-size: 2", ["--pp", "2"], []),
        ("global-batch-size: 13\nmicro-batch-size: 2\ndata-parallel-size: 2", ["--pp", "2"], []),
        ("share-embeddings-and-output-weights: true", ["--pp", "2"], []),
    ],
)
def test_features_and_batch_sizes_of_a_launch_file_count(lines: str, arguments: list[str], codes: list[str], tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(f"pipeline-model-parallel-layout: Et|t|t|tL\n{lines}\n")
    (result,) = results("--from", str(path), *arguments)
    assert [each["code"] for each in result["diagnostics"] if each["severity"] != "info"] == codes


def test_the_embeddings_of_a_launch_file_can_be_tied(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text("pipeline-model-parallel-layout: EtL\nshare-embeddings-and-output-weights: true\n")
    assert run("--from", str(path))[0].splitlines()[1].startswith("tied-embeddings from ")
