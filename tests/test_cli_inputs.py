"""Where layouts come from: what is typed, other forms, standard input and launch files."""

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


@pytest.mark.parametrize(
    ("arguments", "canonical"),
    [
        (["--uniform", "--num-layers", "6", "--pp", "2", "--vpp", "2"], "Ett|tt|t|tNL"),
        (["--partition", "4,2"], "Et*4|ttNL"),
        (["--pipeline_layer_partition", "4,2"], "Et*4|ttNL"),
        (["--chunks", "0:3,1:3,1:0,0:1"], "Et*3@0|t*3@1|@1|tNL@0"),
        (["--pipeline_chunk_layout=0:1,1:1"], "Et@0|tNL@1"),
        (["--list", "[['embedding', 'decoder'], ['decoder', 'loss']]"], "Et|tL"),
        (["--rank-major", "1,2,3,4", "--pp", "2"], "Et|t*3|tt|t*4NL"),
        (["--first-stage-layers", "1", "--num-layers", "5", "--pp", "3"], "Et|tt|ttNL"),
        (["--decoder-last-pipeline-num-layers", "1", "--num-layers", "5", "--pp", "3"], "Ett|tt|tNL"),
        (["--account-for-embedding", "--account-for-loss", "--num-layers", "6", "--pp", "2"], "Et*3|t*3NL"),
        (["--account_for_embedding_in_pipeline_split", "--num-layers", "5", "--pp", "2"], "Ett|t*3NL"),
        (["--pipeline-model-parallel-layout", "Et|tL"], "Et|tL"),
        (["--pipeline_model_parallel_layout=Et|tL"], "Et|tL"),
        (["Et|tL"], "Et|tL"),
        (["--", "Et|tL"], "Et|tL"),
    ],
)
def test_each_form_is_read(arguments: list[str], canonical: str) -> None:
    document = json.loads(run("--output-format", "json", *arguments)[0])
    assert document["layout"]["canonical"] == canonical
    assert document["valid"] is True


def test_a_layout_that_begins_with_a_dash_stands_behind_two() -> None:
    assert run("-EtL")[2] == 2
    assert run("--", "-EtL")[0].startswith("error[PP101]: unknown symbol `-`\n")


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (["EtL", "--uniform"], "LAYOUT and --uniform"),
        (["EtL", "--pipeline-model-parallel-layout", "EtL"], "LAYOUT and --pipeline-model-parallel-layout"),
        (["EtL", "--from", "x"], "LAYOUT and --from"),
        (["x", "--files", "--from", "x"], "--files and --from"),
        (["--partition", "1", "--chunks", "0:1", "--list", "[]"], "--partition, --chunks and --list"),
        (["--rank-major", "1", "--last-stage-layers", "1"], "--rank-major and --last-stage-layers"),
    ],
)
def test_two_forms_are_refused_by_name(arguments: list[str], names: str) -> None:
    output, errors, code = run(*arguments)
    assert output.splitlines()[0].endswith(f"forms of the layout at once: {names}")
    assert output.startswith("error[PP201]")
    assert (errors, code) == ("", 2)


def test_a_form_that_places_its_stages_takes_no_placement() -> None:
    output, _, code = run("--chunks", "0:1,1:1", "--placement", "v")
    assert output.startswith("error[PP201]: --chunks and --placement both say which rank a stage is on\n")
    assert code == 2


@pytest.mark.parametrize("option", ["--partition", "--chunks", "--list", "--rank-major"])
def test_a_form_that_is_not_utf8_is_refused(option: str) -> None:
    assert run(option, "4,\udcff") == (f"error[PP206]: {option} is not valid UTF-8\n\ninvalid: 1 error\n", "", 2)


def test_standard_input_holds_one_layout_a_line() -> None:
    assert run("-", "--pp", "2", stdin="\ufeff# a comment\n\n \t\nEt|tL\r\n  Ex|L") == (
        (
            "<stdin>:4: Et|tL\n"
            "\n"
            "rank  vpp 0\n"
            "   0  0: Et [0]\n"
            "   1  1: tNL [1]\n"
            "2 stages, pp 2 x vpp 1 (vpp implied), 2 decoder layers, placement loop\n"
            "valid\n"
            "\n"
            "<stdin>:5:   Ex|L\n"
            "\n"
            "error[PP101]: unknown symbol `x`\n"
            "  --> <stdin>:5:4\n"
            "   |\n"
            " 5 |   Ex|L\n"
            "   |    ^\n"
            "\n"
            "invalid: 1 error\n"
            "\n"
            "in all: 1 valid, 1 invalid\n"
        ),
        "",
        1,
    )


def test_only_blank_lines_and_comments_are_skipped() -> None:
    assert [each["layout"]["source"] for each in results("-", stdin=" # no comment\n,,\n#EtL\nEtL")] == [" # no comment", ",,", "EtL"]


def test_a_long_line_is_cut_in_its_title() -> None:
    assert run("-", stdin="E" + "t" * 100 + "L\n")[0].splitlines()[0] == f"<stdin>:1: E{'t' * 71}..."


@pytest.mark.parametrize(
    ("stdin", "message"),
    [
        ("", "error[PP204]: standard input holds no layout"),
        ("# nothing\n\n", "error[PP204]: standard input holds no layout"),
        (b"Et|tL\nE\xfft\n", "error[PP206]: standard input is not valid UTF-8 at byte 7"),
    ],
)
def test_standard_input_without_a_layout_is_refused(stdin: str | bytes, message: str) -> None:
    assert run("-", stdin=stdin) == (f"{message}\n\ninvalid: 1 error\n", "", 2)
    assert [each["layout"] for each in results("-", stdin=stdin)] == [None]


def test_standard_input_without_a_layout_can_be_forgiven() -> None:
    assert run("-", "--allow-none", stdin="# nothing\n") == ("", "", 0)


def test_control_characters_are_no_layout() -> None:
    assert run("-", "--output-format", "concise", stdin="Et\0L\n")[0] == "<stdin>:1:3: error[PP101]: unknown symbol `\\u{0}`\n"


@pytest.mark.usefixtures("folder")
def test_a_launch_file_gives_the_layout_and_its_sizes() -> None:
    assert run("--from", "run.sh") == (
        "run.sh:6: Et*3||t*3|t*6,L\n"
        "pp 2 from run.sh:1, num-layers 12 from run.sh:3, microbatches 8 from run.sh:4, untied-embeddings from run.sh:5\n"
        "\n" + TABLE,
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
    assert run("--from", "-", stdin=RUN_SH)[0].endswith(TABLE)
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
    ("pipeline-layer-costs: '1,1,1'\n", ["PP205"], 2),
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
