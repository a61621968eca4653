from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, Any

import pytest

torch = pytest.importorskip("torch")  # the runtime is tested where torch is among the tests' requirements

import numpy as np  # noqa: E402 -- it comes with torch

from ppdsl_runtime.comparing import Difference, compare_runs, read_losses  # noqa: E402
from ppdsl_runtime.dumps import clear_dump, dump_gradients, dump_tensors, list_dump, read_dump  # noqa: E402
from ppdsl_runtime.models import ChunkBuilder, build_reference, named_global_parameters, read_shape  # noqa: E402

if TYPE_CHECKING:
    from pathlib import Path


def write_log(path: Path, losses: dict[int, float]) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps({"step": step, "loss": loss, "time": 0.1}) + "\n" for step, loss in losses.items()))


def test_what_is_dumped_is_read_back(tmp_path: Path) -> None:
    tensors = {
        "transformer.h.5.ln_1.weight": torch.arange(6.0).reshape(2, 3),
        "half": torch.tensor([1.5, -2.0], dtype=torch.bfloat16),
        "scalar": torch.tensor(3),
    }
    assert dump_tensors(tmp_path / "a" / "b", tensors) == [*tensors]
    back = read_dump(tmp_path / "a" / "b")
    assert [*back] == sorted(tensors)
    assert {name: value.tolist() for name, value in back.items()} == {name: value.tolist() for name, value in tensors.items()}
    assert back["half"].dtype == np.float32
    assert sorted(file.name for file in (tmp_path / "a" / "b").iterdir()) == sorted(f"{name}.npy" for name in tensors)


def test_gradients_are_dumped_where_there_are_any(tmp_path: Path) -> None:
    with_grad, without = (torch.nn.Parameter(torch.zeros(2)) for _ in range(2))
    with_grad.grad = torch.tensor([1.0, 2.0])
    assert dump_gradients(tmp_path, {"a": with_grad, "b": without}) == ["a"]
    assert {name: value.tolist() for name, value in read_dump(tmp_path).items()} == {"a": [1.0, 2.0]}


@pytest.mark.parametrize("name", ["", "../x", "a/b", ".x"])
def test_a_name_that_leaves_the_folder_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="^" + re.escape(f"{name!a} cannot be the name of a file") + "$"):
        dump_tensors(tmp_path / "d", {"fine": torch.zeros(1), name: torch.zeros(1)})
    assert not (tmp_path / "d").exists()


def test_a_dump_that_fails_leaves_the_old_file(tmp_path: Path) -> None:
    dump_tensors(tmp_path, {"a": torch.ones(1)})
    with pytest.raises(NotImplementedError):
        dump_tensors(tmp_path, {"a": torch.ones(1, device="meta")})
    assert [file.name for file in tmp_path.iterdir()] == ["a.npy"]
    assert read_dump(tmp_path)["a"].tolist() == [1.0]


def test_a_damaged_dump_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"none is no folder$"):
        list_dump(tmp_path / "none")
    (tmp_path / "a.npy").write_bytes(b"")
    with pytest.raises(ValueError, match=r"a\.npy cannot be read: "):
        read_dump(tmp_path)


def test_runs_are_compared(tmp_path: Path) -> None:
    first, second = tmp_path / "one", tmp_path / "two"
    dump_tensors(first, {"a": torch.tensor([1.0, 4.0]), "b": torch.zeros(2), "only": torch.zeros(1)})
    dump_tensors(second, {"a": torch.tensor([1.0, 5.0]), "b": torch.zeros(2), "other": torch.zeros(1)})
    write_log(first / "log.jsonl", {0: 2.0, 1: 1.5, 2: 1.0})
    write_log(second / "log.jsonl", {0: 2.0, 1: 1.5 + 2**-20})
    comparison = compare_runs(first, second)
    assert comparison.tensors == (Difference("a", 1.0, 5.0), Difference("b", 0.0, 0.0))
    assert comparison.losses == (Difference("step 0", 0.0, 2.0), Difference("step 1", 2**-20, 1.5 + 2**-20))
    assert (comparison.only_first, comparison.only_second) == (("step 2", "only"), ("other",))
    assert not comparison.within(10, 10)
    assert comparison.to_json() == {
        "losses": [
            {"name": "step 0", "max_abs": 0.0, "max_rel": 0.0},
            {"name": "step 1", "max_abs": 2**-20, "max_rel": 2**-20 / (1.5 + 2**-20)},
        ],
        "tensors": [{"name": "a", "max_abs": 1.0, "max_rel": 0.2}, {"name": "b", "max_abs": 0.0, "max_rel": 0.0}],
        "only_first": ["step 2", "only"],
        "only_second": ["other"],
    }
    assert comparison.to_text(1e-5, 0).splitlines() == [
        "losses: 2 of 2 near enough, largest difference 9.54e-07 absolute (step 1), 6.36e-07 relative (step 1)",
        "tensors: 1 of 2 near enough, largest difference 1 absolute (a), 0.2 relative (a)",
        "  a: 1 absolute, 0.2 relative",
        "missing in the second run: step 2, only",
        "missing in the first run: other",
        "different within atol 1e-05, rtol 0",
    ]


def test_equal_runs_are_equal(tmp_path: Path) -> None:
    for name in ("one", "two"):
        dump_tensors(tmp_path / name / "gradients", {"a": torch.tensor([1.0, math.inf, math.nan]), "none": torch.zeros(0)})
    comparison = compare_runs(tmp_path / "one", tmp_path / "two")
    assert comparison.within(0, 0)
    assert [each.name for each in comparison.tensors] == ["gradients/a", "gradients/none"]
    assert comparison.to_text(0, 0).endswith("\nequal within atol 0, rtol 0")


@pytest.mark.parametrize(
    ("atol", "rtol", "near"),
    [(1.0, 0.0, True), (0.99, 0.0, False), (0.0, 0.2, True), (0.0, 0.19, False), (0.5, 0.1, True), (0.4, 0.1, False)],
)
def test_a_difference_is_measured_against_the_largest_element(tmp_path: Path, atol: float, rtol: float, near: bool) -> None:  # noqa: FBT001 -- a table's column
    dump_tensors(tmp_path / "one", {"a": torch.tensor([0.0, -5.0])})
    dump_tensors(tmp_path / "two", {"a": torch.tensor([1.0, -5.0])})
    assert compare_runs(tmp_path / "one", tmp_path / "two").within(atol, rtol) is near


@pytest.mark.parametrize(
    ("other", "note"),
    [
        ([1.0, math.nan], "not finite in one of them"),
        ([1.0, -math.inf], "not finite in one of them"),
        ([1.0], "shapes [2] and [1]"),
        ([[1.0, 2.0]], "shapes [2] and [1, 2]"),
    ],
)
def test_what_cannot_be_compared_is_never_near(tmp_path: Path, other: list[float], note: str) -> None:
    dump_tensors(tmp_path / "one", {"a": torch.tensor([1.0, 2.0])})
    dump_tensors(tmp_path / "two", {"a": torch.tensor(other)})
    comparison = compare_runs(tmp_path / "one", tmp_path / "two")
    assert not comparison.within(math.inf, math.inf)
    assert comparison.to_json()["tensors"] == [{"name": "a", "max_abs": None, "max_rel": None, "note": note}]
    assert f"  a: {note}" in comparison.to_text(1, 1).splitlines()


def test_logs_alone_are_compared(tmp_path: Path) -> None:
    write_log(tmp_path / "a.jsonl", {0: 1.0, 1: math.nan})
    write_log(tmp_path / "b.jsonl", {0: 1.0, 1: 0.5})
    assert compare_runs(tmp_path / "a.jsonl", tmp_path / "a.jsonl").within(0, 0)
    assert not compare_runs(tmp_path / "a.jsonl", tmp_path / "b.jsonl").within(10, 10)


def test_many_names_are_shortened(tmp_path: Path) -> None:
    dump_tensors(tmp_path / "one", {f"p{number:02}": torch.zeros(1) for number in range(14)})
    dump_tensors(tmp_path / "two", {f"p{number:02}": torch.ones(1) for number in range(12)})
    lines = compare_runs(tmp_path / "one", tmp_path / "two").to_text(0, 0).splitlines()
    assert lines[10:] == [
        "  p09: 1 absolute, 1 relative",
        "  and 2 more",
        "missing in the second run: p12, p13",
        "different within atol 0, rtol 0",
    ]


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("{", "line 2: no JSON: "),
        ("[1]", "line 2: no JSON object"),
        ('{"step": 0, "loss": 2}', "line 2: step 0 comes twice"),
        ('{"step": 1, "loss": "x"}', "line 2: step is 1 and loss 'x', not two numbers"),
    ],
)
def test_a_damaged_log_is_refused(tmp_path: Path, line: str, text: str) -> None:
    (tmp_path / "a.jsonl").write_text('{"step": 0, "loss": 1.0}\n' + line + "\n")
    with pytest.raises(ValueError, match=re.escape(f"{tmp_path / 'a.jsonl'}, {text}")):
        compare_runs(tmp_path / "a.jsonl", tmp_path / "a.jsonl")


def test_lines_without_a_loss_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"layout": "EtL"}\n\n{"step": 3, "loss": 1}\n{"step": 4}\n')
    assert read_losses(tmp_path / "a.jsonl") == {3: 1.0}


def test_a_loss_that_is_null_is_not_finite(tmp_path: Path) -> None:
    for name, loss in (("a", "null"), ("b", "1.5")):
        (tmp_path / f"{name}.jsonl").write_text(f'{{"step": 0, "loss": {loss}}}\n')
    one, other = (tmp_path / f"{name}.jsonl" for name in "ab")
    assert compare_runs(one, one).within(0, 0)
    assert compare_runs(one, other).to_text(1, 0) == (
        "losses: 0 of 1 near enough, largest difference inf absolute (step 0), inf relative (step 0)\n"
        "  step 0: not finite in one of them\n"
        "different within atol 1, rtol 0"
    )


def test_two_logs_of_one_folder_that_have_the_same_step_are_refused(tmp_path: Path) -> None:
    write_log(tmp_path / "run" / "a.jsonl", {0: 1.0, 1: 0.5})
    write_log(tmp_path / "run" / "b.jsonl", {1: 0.25})
    with pytest.raises(ValueError, match=re.escape(f"{tmp_path / 'run'} has step 1 in both a.jsonl and b.jsonl") + "$"):
        compare_runs(tmp_path / "run", tmp_path / "run")
    write_log(tmp_path / "run" / "b.jsonl", {2: 0.25})
    assert len(compare_runs(tmp_path / "run", tmp_path / "run").losses) == 3


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (np.array(["a"]), "<U1"),
        (np.array([1 + 2j]), "complex128"),
        (np.zeros(2, dtype=[("a", "f4")]), "[('a', '<f4')]"),
        (np.array(["2020-01-01"], dtype="datetime64[D]"), "datetime64[D]"),
    ],
)
def test_elements_that_are_no_real_numbers_are_refused(tmp_path: Path, value: np.ndarray[Any, Any], kind: str) -> None:
    np.save(tmp_path / "a.npy", value)
    with pytest.raises(ValueError, match=re.escape(f"{tmp_path / 'a.npy'} has elements of the type {kind}, not real numbers") + "$"):
        compare_runs(tmp_path, tmp_path)


def test_numbers_too_far_apart_for_a_float_differ(tmp_path: Path) -> None:
    for name, value in (("one", 1e308), ("two", -1e308)):
        dump_tensors(tmp_path / name, {"a": torch.tensor([value], dtype=torch.float64)})
    assert compare_runs(tmp_path / "one", tmp_path / "two").tensors == (Difference("a", math.inf, 1e308),)


def test_what_an_earlier_run_dumped_is_removed_and_nothing_else(tmp_path: Path) -> None:
    dump_tensors(tmp_path, {"transformer.h.5.ln_1.weight": torch.zeros(1), "transformer.h.5.ln_1.bias": torch.zeros(1)})
    (tmp_path / "inside").mkdir()
    kept = {"tokens.npy", "a.weight.txt", ".b.weight.npy", "weight.npy", "inside"}
    for name in kept - {"inside"}:
        (tmp_path / name).touch()
    clear_dump(tmp_path)
    assert {file.name for file in tmp_path.iterdir()} == kept
    clear_dump(tmp_path / "none")


@pytest.mark.parametrize("model", ["gpt2-tiny,tied=true", "gpt2-tiny", "llama-tiny,mtp_layers=1"])
def test_all_parameters_of_a_model_are_removed(tmp_path: Path, model: str) -> None:
    named = named_global_parameters([build_reference(ChunkBuilder(read_shape(model)))])
    dump_tensors(tmp_path, named)
    clear_dump(tmp_path)
    assert not [*tmp_path.iterdir()]


def test_a_dump_that_cannot_be_written_names_its_file(tmp_path: Path) -> None:
    (tmp_path / "a.npy").mkdir()
    with pytest.raises(IsADirectoryError) as error:
        dump_tensors(tmp_path, {"a": torch.zeros(1)})
    assert error.value.filename == str(tmp_path / "a.npy")
    assert [file.name for file in tmp_path.iterdir()] == ["a.npy"]


def test_runs_with_nothing_to_compare_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"none is not there$"):
        compare_runs(tmp_path / "none", tmp_path)
    with pytest.raises(ValueError, match=r"has a log or a tensor$"):
        compare_runs(tmp_path, tmp_path)
