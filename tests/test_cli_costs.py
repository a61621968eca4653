"""The files that ``--costs`` takes, of whatever form."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from ppdsl.cli import main

FOLDER = Path(__file__).parent / "corpus" / "costs"
FOUR = ("Ett|ttL", "--pp", "2", "--microbatches", "4")


def run(*arguments: str) -> tuple[str, str, int]:
    with CliRunner().isolation() as (output, errors, _):
        code = main(arguments)
        sys.stdout.flush()
        return output.getvalue().decode(), errors.getvalue().decode(), code


def simulated(*arguments: str) -> dict[str, Any]:
    output, errors, code = run("simulate", *arguments, "--output-format", "json")
    assert (errors, code) == ("", 0)
    document: dict[str, Any] = json.loads(output)
    return document


def busy(*arguments: str) -> list[float]:
    return [round(rank["busy_ms"], 6) for rank in simulated(*arguments)["ranks"]]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(FOLDER, tmp_path, dirs_exist_ok=True)
    return tmp_path


@pytest.mark.parametrize(
    ("name", "last"), [("layers.csv", 7.5), ("column.csv", 3.0), ("line.csv", 7.5), ("list.json", 3.0), ("object.json", 7.5)]
)
def test_a_list_of_costs_is_taken(name: str, last: float) -> None:
    document = simulated(*FOUR, "--costs", str(FOLDER / name))
    assert document["costs_from"] == "file"
    assert [rank["busy_ms"] for rank in document["ranks"]] == [pytest.approx(4 * 3 * each) for each in (2.5, last)]


def test_what_a_spreadsheet_saves_is_taken(folder: Path) -> None:
    (folder / "saved.csv").write_bytes(b'\xef\xbb\xbf"layer";"cost (ms)"\r\n0;1.5\r\n1;1\r\n2;1\r\n3;2\r\nL;4.5\r\n;\r\n')
    (folder / "pasted.txt").write_bytes(b"layer\tcost\n0\t1.5\n1\t1\n2\t1\n3\t2\nL\t4.5\n")
    for path in ("layers.csv", "saved.csv", "pasted.txt"):
        assert busy(*FOUR, "--costs", path) == [30.0, 90.0]
    (folder / "saved.csv").write_bytes(b"\xef\xbb\xbflayer;cost\r\n0;1,5\r\n")
    assert refusal("saved.csv") == "saved.csv: line 2: '1,5' has a decimal comma, not a point"
    (folder / "saved.csv").write_bytes("layer;cost\r\n0;1.5\r\n".encode("utf-16"))
    assert refusal("saved.csv") == "saved.csv: it is not valid UTF-8 at byte 0"


@pytest.mark.parametrize("path", ["gpt2.records.log", "gpt2.records.log.rank*", "gpt2.records.log.rank[01]"])
def test_the_records_of_all_ranks_are_taken(path: str, folder: Path) -> None:
    assert busy(*FOUR, "--costs", path) == [10.848, 18.048]
    assert busy(*FOUR, "--costs", str(folder / path)) == [10.848, 18.048]


@pytest.mark.usefixtures("folder")
def test_the_first_samples_are_dropped_as_asked() -> None:
    arguments = ("Et|tL", "--pp", "2", "--microbatches", "4", "--costs", "host.records.log.rank0")
    assert busy(*arguments) == [1.224, 3.0]
    assert busy(*arguments, "--warmup-samples", "0") == [1.248, 3.0]
    message = "host.records.log.rank0: TransformerLayer.0 has no sample left once 3 of each rank are dropped"
    assert run("simulate", *arguments, "--warmup-samples", "3") == (
        "",
        f"error[PP206]: cannot read the costs file {message}\n\ninvalid: 1 error\n",
        2,
    )
    assert run("simulate", *arguments, "--warmup-samples", "-1") == (
        "",
        "error[PP203]: --warmup-samples is -1, the range is 0 to 1,000,000,000\n\ninvalid: 1 error\n",
        2,
    )


def refusal(path: str) -> str:
    output, errors, code = run("simulate", *FOUR, "--costs", path)
    assert (output, code) == ("", 2)
    head, tail = "error[PP206]: cannot read the costs file ", "\n\ninvalid: 1 error\n"
    assert errors.startswith(head)
    assert errors.endswith(tail)
    return errors.removeprefix(head).removesuffix(tail)


def test_what_cannot_be_read_names_the_file_and_the_line(folder: Path) -> None:
    assert refusal("nothing*") == "nothing*: no such file or directory"
    assert refusal("gpt2.records.log.rank1") == ("gpt2.records.log.rank1: TransformerLayer.0 has no record, TransformerLayer.3 has")
    broken = folder / "gpt2.records.log.rank1"
    broken.write_text(broken.read_text().replace("6000        2048", "2048", 1))
    assert refusal("gpt2.records.log") == (
        "gpt2.records.log.rank1, line 6: the record of a layer does not have the columns "
        "Idx, Timestamp, Name, Device, Host(us), Device(us) and Peak Mem(MB)"
    )
    broken.write_bytes(b"\xff")
    assert refusal("gpt2.records.log") == "gpt2.records.log.rank1: it is not valid UTF-8 at byte 0"
    assert refusal("*.log.rank[01]") == "gpt2.records.log.rank1: it is not valid UTF-8 at byte 0"
    assert refusal("layers.*") == "layers.csv: it is no record log: it has no line for its rank"
    assert refusal("a\0b") == "a\\u{0}b: embedded null byte"
    (folder / "bad.csv").write_text("1\n-1\n")
    assert refusal("bad.csv") == "bad.csv: line 2 is -1.0, not a number above 0"


def test_only_numbers_stand_for_ranks(folder: Path) -> None:
    (folder / "gpt2.records.log.rank1.gz").write_bytes(b"\xff")
    assert busy(*FOUR, "--costs", "gpt2.records.log") == [10.848, 18.048]


@pytest.mark.parametrize("path", ["gpt2.records.log", "gpt2.*.rank?", "gpt2.records.log.rank1"])
def test_none_of_the_files_that_are_read_is_written_over(path: str, folder: Path) -> None:
    before = (folder / "gpt2.records.log.rank1").read_text()
    found = run("simulate", *FOUR, "--costs", path, "--svg", "gpt2.records.log.rank1")
    assert found == ("", "error: --costs and --svg name the same file (see ppdsl simulate --help)\n", 2)
    assert (folder / "gpt2.records.log.rank1").read_text() == before


def test_costs_of_another_number_of_layers_are_refused() -> None:
    output, errors, code = run("simulate", "Ett|tL", "--pp", "2", "--microbatches", "4", "--costs", str(FOLDER / "list.json"))
    assert (output, code) == ("", 2)
    assert errors == (
        "error: the costs file does not fit the layout: the costs are those of 4 decoder layers, the layout has 3 "
        "(see ppdsl simulate --help)\n"
    )


def test_a_simulated_trace_gives_its_own_step_time_again(tmp_path: Path) -> None:
    costs, trace = tmp_path / "costs.json", tmp_path / "trace.json"
    costs.write_text(
        json.dumps({"kinds": {"E": {"forward": 0.5}, "t": {"forward": 1}, "L": {"forward": 2.5}}, "layers": {"2": {"forward": 3}}})
    )
    layout = ("Et*3|t*4|t*3NL", "--pp", "3", "--microbatches", "6")
    before = simulated(*layout, "--costs", str(costs), "--trace", str(trace))
    after = simulated(*layout, "--costs", str(trace))
    assert after["makespan_ms"] == pytest.approx(before["makespan_ms"])
    assert after["costs_from"] == "file"


def test_a_trace_needs_the_layout_that_it_belongs_to(tmp_path: Path) -> None:
    trace = tmp_path / "trace.json"
    trace.write_text('[{"ph": "X", "name": "0F0", "dur": 1}]')
    reason = "a trace is divided over the stages of a layout, and there is none whose ranks are known: suggest takes it as --compare"
    assert run("compile", "EtL", "--costs", str(trace))[1].startswith(f"error[PP206]: cannot read the costs file {trace}: {reason}\n")
    assert run("compile", "EtL", "--pp", "1", "--costs", str(trace))[2] == 0
    assert run("diff", "EtL", "EttL", "--pp", "1", "--costs", str(trace))[2] == 1
