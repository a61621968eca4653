"""``reference``, and with it the options that ``train`` has too: the model, the data, the run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

torch = pytest.importorskip("torch")  # the runtime is tested where torch is among the tests' requirements

from ppdsl_runtime.comparing import compare_runs, read_losses  # noqa: E402 -- it loads torch
from ppdsl_runtime.dumps import list_dump  # noqa: E402 -- the same
from ppdsl_runtime.models import PRESETS  # noqa: E402 -- the same
from tests.runtime.command_runs import command, misused, refused  # noqa: E402 -- the same

if TYPE_CHECKING:
    from tests.runtime.command_runs import Command

__all__ = ["command"]

FULL = Path("/dev/full")
SMALL = ("--model", "gpt2-tiny,layers=1", "--seq", "8", "--global-batch-size", "2", "--steps", "2")
FIELDS = "family, layers, hidden, heads, vocab, max_positions, kv_heads, ffn, mtp_layers, tied, dropout, norm_eps, rope_theta, rope_scaling"


def test_a_run_tells_its_loss_and_its_progress(command: Command, tmp_path: Path) -> None:
    code, out, err = command("reference", *SMALL, "--log", str(tmp_path / "log.jsonl"))
    first, last = read_losses(tmp_path / "log.jsonl").values()
    assert (code, out) == (0, f"loss {first:.6f} at step 1, {last:.6f} at step 2\n")
    assert last < first
    figures = [line.split("  ") for line in err.splitlines()]
    assert [each[:2] for each in figures] == [["step 1/2", f"loss {first:.4f}"], ["step 2/2", f"loss {last:.4f}"]]
    assert all(each[2].endswith(" tokens/s") for each in figures)
    assert command("reference", *SMALL, "--quiet") == (0, out, "")


def test_a_run_writes_a_log_and_gradients(command: Command, tmp_path: Path) -> None:
    log, folder = tmp_path / "new" / "log.jsonl", tmp_path / "deep" / "gradients"
    assert command("reference", *SMALL, "--quiet", "--log", str(log), "--dump_gradients", str(folder), "--clip", "0.1").code == 0
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [sorted(line) for line in lines] == [["grad_norm", "loss", "seconds", "step", "tokens_per_s"]] * 2
    assert [line["step"] for line in lines] == [0, 1]
    assert all(line["tokens_per_s"] == pytest.approx(16 / line["seconds"], rel=0.01) for line in lines)
    names = [*list_dump(folder)]
    assert len(names) == 17
    assert {"lm_head.weight", "transformer.wte.weight", "transformer.h.0.attn.c_attn.weight"} < {*names}


@pytest.mark.parametrize("microbatches", ["2", "1"])
def test_a_batch_in_parts_is_the_same(command: Command, tmp_path: Path, microbatches: str) -> None:
    for folder, count in (("one", "1"), ("parts", microbatches)):
        there = str(tmp_path / folder)
        assert command("reference", *SMALL, "--microbatches", count, "--log", f"{there}/log.jsonl", "--dump-gradients", there).code == 0
    assert compare_runs(tmp_path / "one", tmp_path / "parts").within(1e-6, 0)


def test_a_seed_changes_weights_and_dropout(command: Command, tmp_path: Path) -> None:
    losses = []
    for number, options in enumerate(((), ("--seed", "1"), ("--dropout", "0.5"), ("--dropout", "0.5", "--seed", "1"), ("--dropout", "0"))):
        log = tmp_path / f"{number}.jsonl"
        assert command("reference", *SMALL, *options, "--log", str(log)).code == 0
        losses.append(read_losses(log)[0])
    assert len({*losses[:4]}) == 4
    assert losses[4] == losses[0]


@pytest.mark.parametrize(
    "options",
    [
        ("--dtype", "bf16", "--fp32-grads"),
        ("--dtype", "fp64"),
        ("--dtype", "fp16"),
        ("--autocast", "bf16"),
        ("--autocast", "fp16"),
        ("--dtype", "bf16", "--autocast", "bf16"),
    ],
)
def test_element_types_give_nearly_the_same_loss(command: Command, tmp_path: Path, options: tuple[str, ...]) -> None:
    for name, more in (("a", ()), ("b", options)):
        assert command("reference", *SMALL, *more, "--log", str(tmp_path / f"{name}.jsonl")).code == 0
    assert compare_runs(tmp_path / "a.jsonl", tmp_path / "b.jsonl").within(0.01, 0)


def test_names_of_other_frameworks_are_accepted(command: Command) -> None:
    usual = command("reference", *SMALL, "--quiet")
    assert command("reference", "--model=gpt2-tiny,layers=1", "--seq_length=8", "--global_batch_size=2", "--steps=2", "--quiet") == usual


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("--model", "nope"), f"there is no model 'nope'; there are {', '.join(PRESETS)}"),
        (("--model", ""), f"there is no model ''; there are {', '.join(PRESETS)}"),
        (("--model", "gpt2-tiny,layers=-1"), "layers is -1, not an integer from 0"),
        (("--model", "gpt2-tiny,layers=x"), "layers is 'x', not a number, true, false or null"),
        (("--model", "gpt2-tiny,layers"), f"'layers' is not of the form field=value, with one of {FIELDS}"),
        (("--model", "gpt2-tiny,ffn=" + "[" * 100_000), f"ffn is '{'[' * 40}', not a number, true, false or null"),
        (("--model", '{"family": "gpt2"}'), "the model lacks layers, hidden, heads, vocab"),
        (("--model", '{"a":' * 100_000), "the model is no JSON: nested too deep"),
        (("--seq", "129"), "--seq is 129, the model has 128 positions"),
        (("--dropout", "1"), "dropout is 1.0, not a number from 0 to below 1"),
        (("--dropout", "nan"), "dropout is nan, not a number from 0 to below 1"),
        (("--lr", "0"), "--lr is 0, not a number above 0"),
        (("--lr", "nan"), "--lr is nan, not a number above 0"),
        (("--lr", "1e400"), "--lr is inf, not a number above 0"),
        (("--weight-decay", "-0.1"), "--weight-decay is -0.1, not a number from 0"),
        (("--clip", "0"), "--clip is 0, not a number above 0"),
        (("--autocast", "bf16", "--dtype", "fp16"), "--autocast is bf16, which goes with --dtype fp32, not fp16"),
        (("--microbatches", "9"), "9 microbatches cannot be made of 8 sequences (--global-batch-size)"),
        (
            ("--global-batch-size", "9" * 20),
            f"the default text has {{tokens}} tokens, a batch of {'9' * 20} x 64 needs {64 * int('9' * 20) + 1}",
        ),
    ],
)
def test_what_makes_no_run_is_refused(command: Command, options: tuple[str, ...], text: str) -> None:
    from ppdsl_runtime.data import load_tokens  # noqa: PLC0415 -- half a megabyte of text

    assert command("reference", *options) == refused(text.replace("{tokens}", str(len(load_tokens().tokens))))


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device, so this is not known to be refused")
def test_a_device_that_is_not_there_is_refused(command: Command) -> None:
    assert command("reference", "--device", "cuda") == refused("local rank 0 needs a CUDA device of its own, this host has 0")


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("--seq", "0"), "invalid value for '--seq': 0 is not in the range x>=1"),
        (("--steps", "0"), "invalid value for '--steps': 0 is not in the range x>=1"),
        (("--seed", str(2**63)), f"invalid value for '--seed': {2**63} is not in the range 0<=x<={2**63 - 1}"),
        (("--lr", "fast"), "invalid value for '--lr': 'fast' is not a number"),
        (("--dtype", "int"), "invalid value for '--dtype': 'int' is not one of 'fp32', 'bf16', 'fp16', 'fp64'"),
        (("--data", ""), "invalid value for '--data': the path is empty"),
        (("--weights", ""), "invalid value for '--weights': the path is empty"),
        (("--log", ""), "invalid value for '--jsonl' / '--log': the path is empty"),
        (("--dump-gradients", ""), "invalid value for '--dump-gradients': the path is empty"),
        (("--log",), "option '--log' requires an argument"),
        (("EtL",), "got unexpected extra argument (EtL)"),
        (("--stepz", "1"), "no such option --stepz, did you mean --steps?"),
    ],
)
def test_wrong_usage_is_refused(command: Command, options: tuple[str, ...], text: str) -> None:
    assert command("reference", *options) == misused("reference", text)


def test_files_that_cannot_be_read_are_refused(command: Command, tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    (tmp_path / "short").write_text("abc")
    (tmp_path / "x.bin").write_bytes(bytes(2000))
    (tmp_path / "high").write_bytes(bytes([*range(256)] * 8))
    (tmp_path / "x.txt").write_text("text " * 1000)
    deep = tmp_path / "model"
    deep.mkdir()
    (deep / "config.json").write_text("[" * 100_000)
    for option, name, more, text in (
        ("--data", "none", (), "{} cannot be read: no such file or directory"),
        ("--data", "", (), "{} cannot be read: is a directory"),
        ("--data", "a\nb", (), "{} cannot be read: no such file or directory"),
        ("--data", "empty", (), "{} is empty"),
        ("--data", "short", (), "{} has 3 tokens, a batch of 8 x 64 needs 513"),
        ("--data", "high", ("--model", "gpt2-tiny,vocab=128"), "{} has token 128 at 128, the model's vocabulary has 128"),
        ("--data", "x.bin", (), "{} begins with 0 version 0, not with 20240520 version 1 or 20240801 version 7"),
        ("--weights", "none", (), "{} cannot be read: no such file or directory"),
        ("--weights", "short", (), "{} has 3 bytes, less than a header of 1024"),
        ("--weights", "x.bin", (), "{} begins with 0, not with 20240326 (GPT-2) or 20240803 (LLaMA 3)"),
        ("--weights", "", (), "{}/config.json cannot be read: no such file or directory"),
        ("--weights", "model", (), "{}/config.json cannot be read: nested too deep"),
    ):
        path = str(tmp_path / name)
        assert command("reference", option, path, *more) == refused(text.format(path.replace("\n", "\\u{a}")))


def test_files_that_cannot_be_written_are_refused(command: Command, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    for option in ("--log", "--dump-gradients"):
        assert command("reference", *SMALL, option, f"{file}/x" if option == "--log" else str(file)) == refused(f"{file}: file exists")
    assert command("reference", *SMALL, "--log", str(tmp_path)) == refused(f"{tmp_path}: is a directory")


@pytest.mark.skipif(not FULL.exists(), reason="the system has no full device, so this is not known to end well")
def test_a_log_that_cannot_be_written_after_all_ends_the_run_in_a_line(command: Command) -> None:
    assert command("reference", *SMALL, "--quiet", "--log", str(FULL)) == refused(f"{FULL}: no space left on device")


def test_a_log_is_not_written_over_what_is_read(command: Command, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("text " * 100)
    for option in ("--data", "--weights"):
        text = f"{option} and --jsonl name the same file"
        assert command("reference", *SMALL, option, str(file), "--log", str(file)) == misused("reference", text)
    assert file.read_text() == "text " * 100
    text = "--jsonl takes a file, and - is none; one of that name is ./-"
    assert command("reference", *SMALL, "--log", "-") == misused("reference", text)


def test_a_folder_that_cannot_be_written_to_is_refused(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "log.jsonl").touch()
    monkeypatch.setattr("os.access", lambda path, _: Path(path) != tmp_path)  # whoever runs the tests may write anywhere
    assert command("reference", *SMALL, "--dump-gradients", str(tmp_path)) == refused(f"{tmp_path}: permission denied")
    assert command("reference", *SMALL, "--log", str(tmp_path / "new")) == refused(f"{tmp_path / 'new'}: permission denied")
    assert command("reference", *SMALL, "--quiet", "--log", str(tmp_path / "log.jsonl")).code == 0  # that one is there
    trace = str(tmp_path / "log.jsonl")
    assert command("train", "EtL", *SMALL, "--trace", trace) == refused(f"{trace}: permission denied")  # it is put in its place


def test_a_log_is_left_alone_by_what_is_refused(command: Command, tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text("old")
    assert command("reference", *SMALL, "--log", str(log), "--microbatches", "3").code == 2
    assert log.read_text() == "old"


def test_the_reference_is_one_process(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("RANK", "0"), ("WORLD_SIZE", "2"), ("MASTER_ADDR", "nowhere"), ("MASTER_PORT", "1")):
        monkeypatch.setenv(name, value)
    assert command("reference", *SMALL) == refused("the reference is one process, but 2 were started")
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert command("reference", *SMALL) == (2, "", "")


@pytest.mark.parametrize("name", ["reference", "train EtNL"])
def test_a_run_that_goes_wrong_says_so_once_and_ends_with_1(command: Command, tmp_path: Path, name: str) -> None:
    log = tmp_path / "log.jsonl"
    wrong = ("--steps", "4", "--optimizer", "sgd", "--lr", "1e30", "--quiet", "--clip", "1", "--log", str(log))
    code, out, err = command(*name.split(), *SMALL, *wrong)
    assert (code, err) == (1, "warning: the loss is nan at step 2; the run goes on, and this is said once\n")
    assert " nan at step 4\n" in out
    lines = [json.loads(line, parse_constant=lambda name: pytest.fail(f"{name} is no JSON")) for line in log.read_text().splitlines()]
    assert [line["loss"] is None for line in lines] == [False, True, True, True]
    assert [line["grad_norm"] is None for line in lines] == [False, True, True, True]
    assert command("compare", str(log), str(log)).code == 0


@pytest.mark.parametrize("name", ["reference", "train EtNL"])
def test_gradients_of_an_earlier_run_are_removed(command: Command, tmp_path: Path, name: str) -> None:
    folder = str(tmp_path)
    assert command("reference", *SMALL, "--model", "gpt2-tiny", "--quiet", "--dump-gradients", folder).code == 0
    assert command(*name.split(), *SMALL, "--quiet", "--microbatches", "9", "--dump-gradients", folder).code == 2
    assert len(list_dump(folder)) == 53  # what is refused leaves them
    assert command(*name.split(), *SMALL, "--quiet", "--dump-gradients", folder).code == 0
    assert len(list_dump(folder)) == 17
