"""InfiniTrain's record logs."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ppdsl.costs import LayerCosts, is_record_log, read_record_logs

FOLDER = Path(__file__).parent / "corpus" / "costs"
WIDTHS = (8, 24, 40, 10, 12, 12, 16)
BROKEN = "the record of a layer does not have the columns Idx, Timestamp, Name, Device, Host(us), Device(us) and Peak Mem(MB)"
HEADER = ("Idx", "Timestamp", "Name", "Device", "Host(us)", "Device(us)", "Peak Mem(MB)")


def corpus(*names: str) -> dict[str, str]:
    return {name: (FOLDER / name).read_text(encoding="utf-8") for name in names}


def line(*cells: object) -> str:
    return "".join(str(cell).ljust(width) for cell, width in zip(cells, WIDTHS, strict=True))


def record(layer: object, host: int, device: int, *, second: int = 0, on: str = "Device(CUDA, 0)") -> str:
    return line(0, f"2026-08-21 10:00:{second:02d}", f"TransformerLayer.{layer}", on, host, device, 2048)


def log(*lines: str, rank: int = 0) -> str:
    return "\n".join(["", f"=== Kernel Call Log for Rank {rank} ===", "", "Tag: Step_0", line(*HEADER), *lines, ""])


def forwards(logs: dict[str, str], warmup_samples: int = 1) -> list[float]:
    costs = read_record_logs(logs, warmup_samples)
    assert costs.num_layers is not None
    return [costs.layers.get(layer, costs.kinds["t"]).forward for layer in range(costs.num_layers)]


def test_the_ranks_of_a_run_are_read_together() -> None:
    logs = corpus("gpt2.records.log.rank0", "gpt2.records.log.rank1")
    # steps 0 to 2 and 10 gave 600, 601, 601, 602, 602, 610 and 610 us once the first 8000 is dropped
    assert forwards(logs) == [0.602, 0.302, 1.202, 0.302]
    costs = read_record_logs(logs)
    assert costs.layers[2] == LayerCosts.of(1.202, 1.202, 1.202)
    assert costs.kinds["m"] == costs.layers[3]
    assert not {"E", "N", "L"} & {*costs.kinds}
    assert not costs.split


def test_a_device_that_is_wider_than_its_column_runs_into_the_number() -> None:
    text = corpus("gpt2.records.log.rank1")["gpt2.records.log.rank1"]
    assert "Device(CUDA, 11)7000        6000        " in text
    assert is_record_log(text)


def test_the_host_counts_where_the_device_takes_no_time() -> None:
    assert forwards(corpus("host.records.log.rank0")) == [0.102, 0.25]
    assert forwards({"x": log(record(0, 7, 0), record(0, 8, 5))}, 0) == [0.006]


def test_no_sample_is_dropped_where_none_is_to_be() -> None:
    assert forwards(corpus("host.records.log.rank0"), 0) == [0.104, 0.25]
    assert forwards(corpus("host.records.log.rank0"), 2) == [0.104, 0.25]


def test_steps_are_put_in_their_order_and_not_that_of_the_alphabet() -> None:
    logs = corpus("gpt2.records.log.rank0")
    text = logs["gpt2.records.log.rank0"]
    assert text.index("Tag: Step_10") < text.index("Tag: Step_2")
    assert forwards(logs, 6) == [0.61, 0.31]  # steps 0 to 2 are gone


def test_each_rank_drops_its_own_first_samples() -> None:
    twice = {"a": log(record(0, 9, 90), record(0, 9, 2)), "b": log(record(0, 9, 80), record(0, 9, 4), rank=1)}
    assert forwards(twice) == [0.003]
    assert forwards({"both": "".join(twice.values())}) == [0.003]


def test_other_records_and_lines_count_for_nothing() -> None:
    others = line(0, "2026-08-21 10:00:00", "TransformerLayer.0.Attention", "cpu", 5, 5, 0), "W0821 a warning", "Tag: Untagged"
    assert forwards({"x": log(record(0, 1, 1), *others, record(0, 3, 3, second=1))}) == [0.003]


@pytest.mark.parametrize(
    ("logs", "message"),
    [
        ({"a": "no log"}, "a: it is no record log: it has no line for its rank"),
        ({"a": "=== Profiler Report for Rank 0 ===\n"}, "a: it is a report of sums, not a log of records"),
        ({"a": log()}, "a: no record is named TransformerLayer.N"),
        ({"a": log(), "b": log()}, "a and 1 more: no record is named TransformerLayer.N"),
        ({"a": log(record(0, 1, 1), record(0, 1, 1), record(2, 1, 1))}, "a: TransformerLayer.1 has no record, TransformerLayer.2 has"),
        ({"a": log(record(0, 1, 1))}, "a: TransformerLayer.0 has no sample left once 1 of each rank are dropped"),
        ({"a": log(record(0, 1, 1), record(0, 0, 0))}, "a: TransformerLayer.0 takes no time at all"),
        *(
            (
                {"a": log(record(0, 1, 1)), "b.rank1": log(record(0, 1, 1), broken)},
                f"b.rank1, line 7: {BROKEN}",
            )
            for broken in (
                record(0, 1, 1)[:100],
                record(0, 1, -1),
                record(0, 1, 1).replace("2026-", "26-"),
                record(0, 1, 1).replace("2048", "2048 9"),
                record(0, 1, 10**16),
                record(10**13, 1, 1),
            )
        ),
    ],
)
def test_what_cannot_be_read_names_the_file_and_the_line(logs: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 -- the whole text is compared
        read_record_logs(logs)
    assert str(caught.value) == message


def test_a_negative_number_of_samples_cannot_be_dropped() -> None:
    with pytest.raises(ValueError, match=r"^warmup_samples is -1, not a number from 0$"):
        read_record_logs({"a": log(record(0, 1, 1))}, -1)


@given(
    st.lists(st.tuples(st.integers(0, 10**9), st.integers(1, 10**9)), min_size=1, max_size=9),
    st.sampled_from(["cpu", "Device(CUDA, 0)", "Device(MACA, 127)", "0", "cuda:0"]),
)
def test_what_the_columns_hold_is_read_back(samples: list[tuple[int, int]], device: str) -> None:
    for layer, (host, taken) in enumerate(samples):
        text = log(*(record(other, 1, 1, on=device) for other in range(layer)), record(layer, host, taken, on=device))
        assert forwards({"x": text}, 0)[layer] == taken / 1000


@given(st.text() | st.text(alphabet="=TransformerLayer.0123 ()\n:-").map(log))
def test_reading_is_total(text: str) -> None:
    try:
        read_record_logs({"x": text})
    except ValueError as error:
        assert str(error).startswith("x")  # noqa: PT017 -- either way is right
