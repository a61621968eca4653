"""Reading the other forms as they are typed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ppdsl.diagnostics import Diagnostic
from ppdsl.forms import (
    LayerLists,
    OwnedChunks,
    Partition,
    RankMajor,
    convert_layer_lists,
    read_layer_lists,
    read_owned_chunks,
    read_partition,
    read_rank_major,
)
from ppdsl.rendering import render_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from ppdsl.forms import Form

PARTITION_HELP = "\n   = help: write one count for each rank, with commas between: 4,8,6,6"
RANK_MAJOR_HELP = "\n   = help: write one count for each chunk, with commas between: 3,4,4,5"
CHUNKS_HELP = "\n   = help: write rank:layers for each stage, with commas between: 0:3,1:3,0:3"
LIST_HELP = '\n   = help: write it as [["embedding", "decoder"], ["decoder", "loss"]]'
NAMES_HELP = "\n   = help: the names are embedding, decoder, mtp and loss"
MISFIT = "error[PP209]: the list form is not a list of lists of quoted names: {}, does not fit" + LIST_HELP


@pytest.mark.parametrize(
    ("read", "text", "form"),
    [
        (read_partition, "4,8,6,6", Partition((4, 8, 6, 6))),
        (read_partition, " 4,\t008 ,0\r\n", Partition((4, 8, 0))),
        (read_partition, "999999999999", Partition((999_999_999_999,))),
        (read_rank_major, "3,4,4,4", RankMajor((3, 4, 4, 4))),
        (read_owned_chunks, "0:3,1:3,1:3,0:3", OwnedChunks(((0, 3), (1, 3), (1, 3), (0, 3)))),
        (read_owned_chunks, " 0 : 3 , 1:0", OwnedChunks(((0, 3), (1, 0)))),
        (read_layer_lists, '[["embedding","decoder"],["decoder","loss"]]', LayerLists((("embedding", "decoder"), ("decoder", "loss")))),
        (read_layer_lists, "[['embedding', 'decoder',], [], ['loss'],]\n", LayerLists((("embedding", "decoder"), (), ("loss",)))),
        (read_layer_lists, ' [ [ " Embedding" ] ,\n\t["LOSS"] ] ', LayerLists(((" Embedding",), ("LOSS",)))),
        (read_layer_lists, "[[]]", LayerLists(((),))),
    ],
)
def test_a_form_is_read(read: Callable[[str], Form], text: str, form: Form) -> None:
    assert read(text) == form


@pytest.mark.parametrize(
    ("read", "text", "message"),
    [
        (read_partition, " ", "error[PP208]: the partition is empty" + PARTITION_HELP),
        (read_partition, "4,,6", "error[PP208]: entry 2 of the partition is empty" + PARTITION_HELP),
        (read_partition, "4,8,", "error[PP208]: entry 3 of the partition is empty" + PARTITION_HELP),
        (
            read_partition,
            "4,-8",
            "error[PP208]: entry 2 of the partition, `-8`, is not a whole number of 1 to 12 digits" + PARTITION_HELP,
        ),
        (
            read_partition,
            "4,\u0663,x",
            "error[PP208]: entry 2 of the partition, `\u0663`, is not a whole number of 1 to 12 digits" + PARTITION_HELP,
        ),
        (
            read_partition,
            "1000000000000",
            "error[PP208]: entry 1 of the partition, `1000000000000`, is not a whole number of 1 to 12 digits" + PARTITION_HELP,
        ),
        (
            read_rank_major,
            "3 4",
            "error[PP208]: entry 1 of the rank-major list, `3 4`, is not a whole number of 1 to 12 digits" + RANK_MAJOR_HELP,
        ),
        (read_owned_chunks, "", "error[PP208]: the chunk list is empty" + CHUNKS_HELP),
        (
            read_owned_chunks,
            "0:3,1-3",
            "error[PP208]: entry 2 of the chunk list, `1-3`, is not rank:layers, two whole numbers of 1 to 12 digits" + CHUNKS_HELP,
        ),
        (
            read_owned_chunks,
            "0:3:1",
            "error[PP208]: entry 1 of the chunk list, `0:3:1`, is not rank:layers, two whole numbers of 1 to 12 digits" + CHUNKS_HELP,
        ),
        (
            read_owned_chunks,
            ":" * 99,
            f"error[PP208]: entry 1 of the chunk list, `{':' * 40}...`, is not rank:layers, two whole numbers of 1 to 12 digits"
            + CHUNKS_HELP,
        ),
        (read_layer_lists, "\t", "error[PP209]: the list form is empty" + LIST_HELP),
        (read_layer_lists, "[]", "error[PP209]: the list form has no stage" + LIST_HELP),
        (read_layer_lists, '[["decoder", 3]]', MISFIT.format("`3`, at character 14")),
        (read_layer_lists, '["decoder"]', MISFIT.format('`"decoder"`, at character 2')),
        (read_layer_lists, "decoder", MISFIT.format("`decoder`, at character 1")),
        (read_layer_lists, "{'a': [1]}", MISFIT.format("`{'a':`, at character 1")),
        (read_layer_lists, '[["mtp" "loss"]]', MISFIT.format('`"loss"`, at character 9')),
        (read_layer_lists, '[["mtp",,"loss"]]', MISFIT.format("`,`, at character 9")),
        (read_layer_lists, '[[,"mtp"]]', MISFIT.format("`,`, at character 3")),
        (read_layer_lists, '[["mtp"]] []', MISFIT.format("`[`, at character 11")),
        (read_layer_lists, '[["mtp"]],', MISFIT.format("`,`, at character 10")),
        (read_layer_lists, '[["mtp"]]]', MISFIT.format("`]`, at character 10")),
        (read_layer_lists, '[[["mtp"]]]', MISFIT.format("`[`, at character 3")),
        (read_layer_lists, '[["mtp', MISFIT.format('`"mtp`, at character 3')),
        (read_layer_lists, '[["mt\np"]]', MISFIT.format('`"mt`, at character 3')),
        (read_layer_lists, r'[["\u006dtp"]]', MISFIT.format(r'`"\u006dtp"`, at character 3')),
        (read_layer_lists, '[["mtp"]', MISFIT.format("its end, at character 9")),
        (read_layer_lists, '[["mtp"],["L"]]', "error[PP209]: entry 1 of stage 1, `L`, is not a layer name\n   = help: write `loss`"),
        (read_layer_lists, '[["mpt"]]', "error[PP209]: entry 1 of stage 0, `mpt`, is not a layer name\n   = help: write `mtp`"),
        (read_layer_lists, '[["mtp", ""]]', "error[PP209]: entry 2 of stage 0, ``, is not a layer name" + NAMES_HELP),
        (
            read_layer_lists,
            f'[["{"x" * 99}"]]',
            f"error[PP209]: entry 1 of stage 0, `{'x' * 40}...`, is not a layer name" + NAMES_HELP,
        ),
        (
            read_layer_lists,
            '[["Encoder"]]',
            "error[PP209]: entry 1 of stage 0, `Encoder`, is not a layer name\n"
            "   = note: Megatron-LM knows the name, but supports no encoder in a layout" + NAMES_HELP,
        ),
        (
            read_layer_lists,
            '[["N"]]',
            "error[PP209]: entry 1 of stage 0, `N`, is not a layer name\n"
            "   = note: the final norm is implied in the list form" + NAMES_HELP,
        ),
    ],
)
def test_what_cannot_be_read_is_quoted(read: Callable[[str], object], text: str, message: str) -> None:
    fault = read(text)
    assert isinstance(fault, Diagnostic)
    assert render_text([fault], None) == message
    assert fault.span is None


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (None, "the list form is a value of type NoneType, not a list of lists of layer names"),
        ("Et|tL", "the list form is `Et|tL`, not a list of lists of layer names"),
        ({"embedding": 1}, "the list form is a value of type dict, not a list of lists of layer names"),
        (["embedding"], "stage 0 of the list form is `embedding`, not a list of layer names"),
        ([["embedding"], 10**5000], "stage 1 of the list form is a value of type int, not a list of layer names"),
        ([["embedding", True]], "entry 2 of stage 0 is a value of type bool, not a layer name"),
    ],
)
def test_a_value_that_is_no_list_of_lists_of_names_is_described(value: object, message: str) -> None:
    fault = convert_layer_lists(value)
    assert isinstance(fault, Diagnostic)
    assert (fault.code, fault.message) == ("PP209", message)


def test_a_value_may_have_tuples() -> None:
    assert convert_layer_lists((["embedding"], ("loss",))) == LayerLists((("embedding",), ("loss",)))


@pytest.mark.parametrize(
    ("read", "what"),
    [
        (read_partition, "partition"),
        (read_rank_major, "rank-major list"),
        (read_owned_chunks, "chunk list"),
        (read_layer_lists, "list form"),
    ],
)
def test_a_text_of_over_1_mib_is_not_read(read: Callable[[str], object], what: str) -> None:
    fault = read("1" * 1_048_577)
    assert isinstance(fault, Diagnostic)
    assert fault.message == f"the {what} has 1,048,577 characters, the limit is 1,048,576"


@pytest.mark.parametrize(
    "piece", ["[", "[[", "]", ",", "'", '"', "-", "1+", "()", "[0]", "''", "\\", "\x00", "\ud800", "1,", "0:1,", "{1:"]
)
def test_a_mib_of_anything_is_answered(piece: str) -> None:
    text = piece * (1_048_576 // len(piece))
    for read in (read_partition, read_rank_major, read_owned_chunks, read_layer_lists):
        found = read(text)
        assert not isinstance(found, Diagnostic) or len(found.message) < 200


names = st.sampled_from(["embedding", "decoder", "mtp", "loss", " Decoder", "LOSS\t"])


@given(st.lists(st.lists(names), min_size=1), st.booleans(), st.sampled_from([None, 1, "\t"]))
def test_a_list_that_python_or_json_writes_is_read_back(rows: list[list[str]], as_json: bool, indent: int | str | None) -> None:  # noqa: FBT001 -- drawn
    rows = [[name.strip("\t") for name in row] for row in rows]
    text = json.dumps(rows, indent=indent) if as_json else repr(rows)
    assert read_layer_lists(text) == LayerLists(tuple(map(tuple, rows)))


@given(st.lists(st.tuples(st.integers(0, 10**12 - 1), st.integers(0, 10**12 - 1)), min_size=1))
def test_numbers_that_are_written_are_read_back(chunks: list[tuple[int, int]]) -> None:
    layers = tuple(count for _, count in chunks)
    assert read_partition(",".join(map(str, layers))) == Partition(layers)
    assert read_rank_major(" , ".join(map(str, layers))) == RankMajor(layers)
    assert read_owned_chunks(",".join(f"{rank}:{count}" for rank, count in chunks)) == OwnedChunks(tuple(chunks))


@given(st.text() | st.text(alphabet="[]'\", \n\\edcormtpls01:"))
def test_reading_is_total(text: str) -> None:
    for read, form in (
        (read_partition, Partition),
        (read_rank_major, RankMajor),
        (read_owned_chunks, OwnedChunks),
        (read_layer_lists, LayerLists),
    ):
        found = read(text)
        assert isinstance(found, form) or (isinstance(found, Diagnostic) and found.severity == "error")
