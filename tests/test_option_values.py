"""Values that no command line would let through, given from Python: they are diagnostics, and nothing is raised."""

from __future__ import annotations

from typing import Any

import pytest

from ppdsl import LayoutError, OwnedChunks, Partition, RankMajor, check_layout, compile_layout


class Whole:
    """A whole number of another library."""

    def __index__(self) -> int:
        return 2


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"pp": "2"}, "--pp is '2', not a whole number"),
        ({"pp": 2.0}, "--pp is 2.0, not a whole number"),
        ({"pp": True}, "--pp is True, not a whole number"),
        ({"microbatches": []}, "--microbatches is [], not a whole number"),
        ({"limits": 5}, "limits is 5, not a Limits"),
        ({"placement": "V"}, "--placement is 'V', which does not exist"),
        ({"target": "megatorn"}, "--target is 'megatorn', which does not exist"),
        ({"schedule": "zz"}, "--schedule is 'zz', which does not exist"),
        ({"features": [("x", None)]}, "--with is 'x', which does not exist"),
        ({"features": ["moe-fb-overlap"]}, "feature 'moe-fb-overlap' is not a name and a text or None"),
        ({"features": "noop-layers"}, "feature 'noop-layers' is not a name and a text or None"),
    ],
)
def test_a_value_of_the_wrong_kind_is_a_diagnostic(sizes: dict[str, Any], message: str) -> None:
    result = check_layout("Et|tL", **sizes)
    assert [(fault.code, fault.message) for fault in result.diagnostics] == [("PP203", message)]
    with pytest.raises(LayoutError, match="PP203"):
        compile_layout("Et|tL", **sizes)


ODD_ENTRIES: list[tuple[Any, Any]] = [
    (Partition, (True, 2)),
    (Partition, (1.5, 2)),
    (Partition, ("a", 2)),
    (RankMajor, (None, 1)),
    (OwnedChunks, (("0", 1),)),
]


@pytest.mark.parametrize(("form", "entries"), ODD_ENTRIES)
def test_an_entry_of_the_wrong_kind_is_a_diagnostic(form: type[Partition], entries: tuple[int, ...]) -> None:
    assert {fault.code for fault in check_layout(form(entries), pp=2).diagnostics} == {"PP208"}


def test_a_whole_number_of_another_library_becomes_an_int() -> None:
    plan = compile_layout("Et|tL", pp=Whole())  # type: ignore[arg-type]  # what is tried
    assert type(plan.pp) is int
    assert plan.to_json()["pp"] == 2


def test_features_may_be_a_mapping() -> None:
    result = check_layout("Et|tL", pp=2, target="mindspeed", features={"noop-layers": "1"})
    assert [fault.code for fault in result.diagnostics if fault.severity == "error"] == ["PP520"]


def test_what_cannot_be_remembered_is_compiled_all_the_same() -> None:
    assert compile_layout(Partition([1, 2])).layout == "Et|ttNL"  # type: ignore[arg-type]  # a list, where a tuple is asked for


@pytest.mark.parametrize("index", [1.5, "0", None])
def test_a_query_by_what_is_no_number_names_the_argument(index: object) -> None:
    plan: Any = compile_layout("Et|tL", pp=2)
    with pytest.raises(TypeError, match="pp_rank must be a whole number, not"):
        plan.chunks_of(index)
    with pytest.raises(TypeError, match="layer must be a whole number, not"):
        plan.rank_for_layer(index)
