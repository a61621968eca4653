"""What is checked before any layout: the range of each size, and that there is one form only."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ppdsl.forms import check_sizes, conflicting_forms, missing_sizes
from ppdsl.options import Limits, Options
from ppdsl.rendering import render_text


@pytest.mark.parametrize(
    ("field", "flag", "least", "most"),
    [
        ("pp", "--pp", 1, 1_048_576),
        ("vpp", "--vpp", 1, 1_048_576),
        ("num_layers", "--num-layers", 0, 999_999_999_999),
        ("mtp_num_layers", "--mtp-num-layers", 0, 999_999_999_999),
        ("microbatches", "--microbatches", 1, 10**9),
        ("microbatch_group_size", "--microbatch-group-size", 1, 10**9),
        ("stages", "--max-stages", 1, 16_777_216),
        ("text", "--max-text", 1, 2**28),
    ],
)
def test_each_size_has_a_range(field: str, flag: str, least: int, most: int) -> None:
    def check(value: int) -> list[tuple[str, str]]:
        limit = field in {"stages", "text"}
        options = Options(limits=replace(Limits(), **{field: value})) if limit else replace(Options(), **{field: value})  # type: ignore[arg-type]  # a field that is an int
        return [(fault.code, fault.message) for fault in check_sizes(options)]

    assert check(least) == check(most) == []
    assert check(least - 1) == [("PP203", f"{flag} is {least - 1}, the range is {least} to {most:,}")]
    assert check(most + 1) == [("PP203", f"{flag} is {most + 1:,}, the range is {least} to {most:,}")]


def test_all_sizes_out_of_range_are_reported() -> None:
    faults = check_sizes(Options(pp=-(10**5000), microbatches=0, limits=Limits(stages=0)))
    assert [fault.message.partition(",")[0] for fault in faults] == ["--pp is below -10^15", "--microbatches is 0", "--max-stages is 0"]
    assert check_sizes(Options()) == []


@pytest.mark.parametrize(
    ("names", "placement", "text"),
    [
        (
            ["--partition", "--chunks"],
            False,
            "error[PP201]: 2 forms of the layout at once: --partition and --chunks\n   = help: give one of them",
        ),
        (
            ["LAYOUT", "--uniform", "--list"],
            True,
            "error[PP201]: 3 forms of the layout at once: LAYOUT, --uniform and --list\n   = help: give one of them",
        ),
        (
            ["--pipeline_chunk_layout"],
            True,
            """\
error[PP201]: --pipeline_chunk_layout and --placement both say which rank a stage is on
   = help: leave out --placement""",
        ),
        (["@"], True, "error[PP201]: @ and --placement both say which rank a stage is on\n   = help: leave out --placement"),
    ],
)
def test_a_layout_is_said_once(names: list[str], placement: bool, text: str) -> None:  # noqa: FBT001 -- a column of the table
    fault = conflicting_forms(names, placement=placement)
    assert fault is not None
    assert render_text([fault], None) == text


def test_forms_that_go_with_what_is_given() -> None:
    assert conflicting_forms([], placement=True) is None
    assert conflicting_forms(["--chunks"], placement=False) is None
    assert conflicting_forms(["--uniform"], placement=True) is None


def test_what_is_missing_is_named_by_its_option() -> None:
    fault = missing_sizes("a plan", pp=None, mtp_num_layers=None, vpp=3)
    assert fault.message == "a plan needs --pp and --mtp-num-layers"
