"""What ``train`` refuses of a layout, or of a compiled plan, before any of the model's memory is taken."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("torch")  # the runtime is tested where torch is among the tests' requirements

from ppdsl import compile_layout
from ppdsl.lowering import lower, program_to_json
from ppdsl.schedules import make_schedule
from ppdsl_runtime.models import ChunkBuilder
from tests.runtime.command_runs import Answer, command, misused, refused

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.runtime.command_runs import Command

__all__ = ["command"]

RUN = ("--seq", "8", "--global-batch-size", "8", "--steps", "1", "--quiet")
Document = dict[str, Any]


@pytest.fixture
def unbuilt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no model be built."""
    monkeypatch.setattr(ChunkBuilder, "__call__", lambda *_: pytest.fail("the model was built"))


early = pytest.mark.usefixtures("unbuilt")


def compiled(layout: str = "Et*2|t*2NL", schedule: str | None = "interleaved_1f1b", pp: int = 1) -> Document:
    """Give what ``ppdsl compile`` writes: a plan, and a program of four microbatches where a schedule is named."""
    plan = compile_layout(layout, pp=pp)
    document: Document = plan.to_json()
    if schedule is not None:
        document["schedule"] = program_to_json(lower(make_schedule(plan, schedule, 4), 1))
    return document


@pytest.fixture
def save(tmp_path: Path) -> Callable[[Document | str], str]:
    """Give what writes a plan's file, and gives its path."""

    def write(document: Document | str) -> str:
        file = tmp_path / "plan.json"
        file.write_text(document if isinstance(document, str) else json.dumps(document))
        return str(file)

    return write


@early
def test_a_layout_of_another_model_is_shown(command: Command) -> None:
    assert command("train", "Et*5NL", *RUN, "--color", "never") == Answer(
        1,
        "",
        "error[PP302]: layout has 5 decoder layers, --num-layers says 4\n"
        "  --> <layout>:1:2\n"
        "   |\n"
        " 1 | Et*5NL\n"
        "   |  ^^^ 5 layers\n"
        "   = help: `t*4` in stage 0 gives 4: Et*4NL\n"
        "\n"
        "invalid: 1 error\n",
    )


@early
@pytest.mark.parametrize(
    ("arguments", "code", "first"),
    [
        (("Et*4NmL",), 1, "error[PP308]: layout has 1 MTP layer, --mtp-num-layers says 0"),
        (("Et*4NL", "--model", "gpt2-tiny,mtp_layers=1"), 1, "error[PP308]: layout has 0 MTP layers, --mtp-num-layers says 1"),
        (("Et*4N",), 1, "error[PP304]: layout has no loss"),
        (("Et*",), 1, "error[PP106]: repeat count missing after `*`"),
        (("Et*4NL", "--pp", "2"), 1, "error[PP301]: 1 stage cannot be dealt to 2 ranks: not a multiple"),
        (("Et*4NL@1",), 1, "error[PP314]: owner 1 is outside 0..0"),
        (("Ett|ttNL", "--vpp", "1"), 1, "error[PP311]: vpp is 2 for 2 stages over 1 rank, --vpp says 1"),
        (("--partition", "2,2"), 1, "error[PP208]: partition has 2 entries, --pp says 1"),
        (("Et*4NL", "--microbatches", "0"), 2, "error[PP203]: --microbatches is 0, the range is 1 to 1,000,000,000"),
        (("--from", "nowhere.sh"), 2, "error[PP206]: cannot read nowhere.sh: no such file or directory"),
    ],
)
def test_an_invalid_layout_is_refused_as_ppdsl_check_does(command: Command, arguments: tuple[str, ...], code: int, first: str) -> None:
    answer = command("train", *arguments, *RUN)
    assert (answer.code, answer.out, answer.err.splitlines()[0]) == (code, "", first)
    assert answer.err.endswith("\n\ninvalid: 1 error\n")


NO_LAYOUT = "no layout is given: write LAYOUT, - for standard input, --from FILE, or a form such as --uniform"


@early
@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((), NO_LAYOUT),
        (("EtL", "EtL"), "one LAYOUT is taken, 2 are given; put a layout that has spaces in quotes"),
        (("--files", "--allow-none"), "one layout is taken, the input holds 0"),
        (("Et*4NL", "--schedule", "zb_v"), "zb_v needs the placement v with two chunks on each rank"),
        (("Et*4NL", "--batch", "0"), "--batch is 0, not an integer from 1"),
        (("Et*4NL", "--batch", "3"), "--global-batch-size is 8, which is not --microbatches times --batch = 3"),
        (("Et*4NL", "--batch", "2", "--microbatches", "2"), "--global-batch-size is 8, which is not --microbatches times --batch = 2"),
        (("Et*4NL", "--depth", "-1"), "invalid value for '--depth': -1 is not in the range x>=0"),
        (("Et*4NL", "--tied-embeddings"), "no such option --tied-embeddings, did you mean --account-for-embedding?"),
    ],
)
def test_wrong_usage_is_refused(command: Command, arguments: tuple[str, ...], text: str) -> None:
    assert command("train", *arguments, *RUN) == misused("train", text)


@early
def test_more_microbatches_than_sequences_are_refused_before_a_program_is_made(command: Command) -> None:
    for count in ("9", "1000000000"):
        text = f"{count} microbatches cannot be made of 8 sequences (--global-batch-size)"
        assert command("train", "Et*4NL", *RUN, "--microbatches", count) == refused(text)


def test_a_compiled_program_is_run(command: Command, save: Callable[[Document], str]) -> None:
    file = save(compiled())
    same = ("--microbatches", "4", "--schedule", "interleaved_1f1b", "--depth", "1", "--pp", "1", "--vpp", "2", "--num-layers", "4")
    for options in ((), same, ("--batch", "2")):
        answer = command("train", "--plan", file, *RUN, *options)
        assert answer.code == 0, answer.err
        assert answer.out.startswith("Ett|ttNL\n")
        assert " 1F3" not in answer.err


def test_a_compiled_plan_gets_a_program(command: Command, save: Callable[[Document], str]) -> None:
    file = save(compiled(schedule=None))
    for options in ((), ("--microbatches", "8", "--microbatch-group-size", "2"), ("--schedule", "gpipe", "--batch", "1")):
        answer = command("train", "--plan", file, *RUN, *options)
        assert answer.code == 0, answer.err


@early
@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("--pp", "2"), "--pp is 2, the plan {} has 1"),
        (("--vpp", "1"), "--vpp is 1, the plan {} has 2"),
        (("--num-layers", "5"), "--num-layers is 5, the plan {} has 4"),
        (("--mtp-num-layers", "1"), "--mtp-num-layers is 1, the plan {} has 0"),
        (("--placement", "v"), "--placement is v, the plan {} has loop"),
        (("--microbatches", "2"), "--microbatches is 2, the program of {} has 4"),
        (("--schedule", "gpipe"), "--schedule is gpipe, the program of {} has interleaved_1f1b"),
        (("--depth", "3"), "--depth is 3, the program of {} has 1"),
        (("--microbatch-group-size", "1"), "--microbatch-group-size is given, but {} has a program"),
        (("--batch", "1"), "8 sequences by 1 (--batch) are not the 4 microbatches that the program of {} has"),
        (("--global-batch-size", "3"), "4 microbatches cannot be made of 3 sequences (--global-batch-size)"),
        (("--model", "gpt2-tiny,layers=6"), "the layout 'Ett|ttNL' has 4 decoder layers, the model has 6"),
    ],
)
def test_what_is_typed_beside_a_plan_has_to_agree(
    command: Command, save: Callable[[Document], str], options: tuple[str, ...], text: str
) -> None:
    file = save(compiled())
    assert command("train", "--plan", file, *RUN, *options) == refused(text.format(file))


@early
@pytest.mark.parametrize("form", [("Et*4NL",), ("--uniform",), ("--first-stage-layers", "2"), ("--layer-costs", "1,1"), ("--files", "x")])
def test_a_plan_and_a_layout_are_refused(command: Command, save: Callable[[Document], str], form: tuple[str, ...]) -> None:
    assert command("train", "--plan", save(compiled()), *form, *RUN) == misused(
        "train", "--plan and a layout are given; one of them is enough"
    )


def swap(document: Document) -> Document:
    """Let the last stage do the first two backwards in the other order, both where the actions stand and in the program."""
    for name in ("actions", "program"):
        row = document["schedule"][name][0]
        one, other = row.index("1F0"), row.index("0F0")
        row[one], row[other] = row[other], row[one]
    return document


@early
@pytest.mark.parametrize(
    ("document", "text"),
    [
        (swap(compiled()), "error: the program of {} is not proved: "),
        (
            {**compiled("Et*4NL"), "schedule": compiled()["schedule"]},
            "error: cannot read the plan {}: schedule.owners are not those of the plan\n",
        ),
        ({**compiled(), "schedule": None}, "error: cannot read the plan {}: schedule is null, not an object\n"),
        (
            {**compiled(), "schema_version": "9.0"},
            "error: cannot read the plan {}: schema_version is '9.0', this version of ppdsl reads 1.x\n",
        ),
        ({**compiled(), "fingerprint": "sha256:0"}, "error: cannot read the plan {}: fingerprint is 'sha256:0', where 'sha256:"),
        ("[]", "error: cannot read the plan {}: the plan is a list, not an object\n"),
        ("{", "error: cannot read the plan {}: the plan is not JSON: "),
        ("[" * 100_000, "error: cannot read the plan {}: the plan is nested too deep\n"),
        (compiled("Et*2|t*2NL", None, pp=2), "error: the layout has 2 pipeline ranks, the run has 1 (torchrun --nproc-per-node)\n"),
    ],
    ids=["unproved", "stages", "null", "version", "fingerprint", "list", "cut", "deep", "ranks"],
)
def test_a_plan_that_is_damaged_is_refused(
    command: Command, save: Callable[[Document | str], str], document: Document | str, text: str
) -> None:
    file = save(document)
    code, out, err = command("train", "--plan", file, *RUN)
    assert (code, out) == (2, "")
    assert err.startswith(text.format(file))
    assert err.count("\n") == 1


@early
def test_a_plan_that_cannot_be_read_is_refused(command: Command, tmp_path: Path) -> None:
    nowhere = str(tmp_path / "none")
    (tmp_path / "bytes").write_bytes(b'{"a": "\xff"}')
    assert command("train", "--plan", nowhere, *RUN) == refused(f"cannot read the plan {nowhere}: no such file or directory")
    assert command("train", "--plan", str(tmp_path), *RUN) == refused(f"cannot read the plan {tmp_path}: is a directory")
    assert command("train", "--plan", str(tmp_path / "bytes"), *RUN) == refused(
        f"cannot read the plan {tmp_path / 'bytes'}: not valid UTF-8 at byte 7"
    )
    assert command("train", "--plan", "", *RUN) == misused("train", "invalid value for '--plan': the path is empty")


@early
def test_what_all_ranks_find_is_said_by_one(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("RANK", "0"), ("WORLD_SIZE", "2"), ("LOCAL_RANK", "0"), ("MASTER_ADDR", "nowhere"), ("MASTER_PORT", "1")):
        monkeypatch.setenv(name, value)
    shared = "standard input is shared by all ranks, so the layout cannot come from it"
    for arguments in (("-",), ("--from", "-"), ("--files", "-")):
        monkeypatch.setenv("LOCAL_RANK", "0")
        assert command("train", *arguments, *RUN) == misused("train", shared)
        monkeypatch.setenv("LOCAL_RANK", "1")
        assert command("train", *arguments, *RUN) == (2, "", "")
    assert command("train", "Et*4NL", *RUN) == (1, "", "")
