"""The other ways to say a layout: what each comes to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ppdsl.formatting import format_canonical, format_expanded
from ppdsl.forms import CostList, FirstLast, Form, LayerLists, OwnedChunks, Partition, RankMajor, Uniform, lower
from ppdsl.forms.writing import write_stages
from ppdsl.normal_form import NormalForm, normalize
from ppdsl.options import Limits, Options
from ppdsl.parsing import parse

if TYPE_CHECKING:
    from collections.abc import Callable

    from ppdsl.options import Placement

NAMES = {"embedding": "E", "decoder": "t", "mtp": "m", "loss": "L"}


def read(text: str | None, limits: Limits) -> NormalForm:
    assert text is not None
    items = parse(text, limits).items
    assert items is not None
    return normalize(items, limits)


def stages(form: Form, options: Options) -> list[str]:
    """Write out every stage that a form comes to."""
    lowered = lower(form, options)
    assert lowered.diagnostics == ()
    text = format_expanded(read(lowered.text, lowered.options.limits), 1_000_000)
    assert text is not None
    return text.split("|")


def counts(form: Form, options: Options) -> list[int]:
    return [stage.count("t") for stage in stages(form, options)]


@pytest.mark.parametrize(
    ("form", "options", "text"),
    [
        (Uniform(), Options(pp=4, num_layers=30), "Et*8|t*8|t*7|t*7NL"),
        (Uniform(), Options(pp=2, vpp=2, num_layers=12), "Et*3|t*3|t*3|t*3NL"),
        (Uniform(), Options(pp=1, num_layers=0), "ENL"),
        (Uniform(), Options(pp=5, num_layers=2), "Et|t|||NL"),
        (Uniform(), Options(pp=7, num_layers=1), "Et|(|)*5NL"),
        (Uniform(), Options(pp=2, num_layers=4, mtp_num_layers=2), "Ett|ttNmmL"),
        (Uniform(), Options(pp=2, num_layers=4, mtp_num_layers=0), "Ett|ttNL"),
        (Uniform(), Options(pp=2, num_layers=4, mtp_num_layers=3, target="megatron"), "Ett|ttm*3L"),
        (Uniform(), Options(pp=2, num_layers=4, target="mindspeed"), "Ett|ttL"),
        (Uniform(), Options(pp=2, num_layers=4, target="infinitrain"), "Ett|ttNL"),
        (Partition((4, 8, 6, 6)), Options(), "Et*4|t*8|t*6|t*6NL"),
        (Partition((4, 8, 6, 6)), Options(pp=4, vpp=1, num_layers=24), "Et*4|t*8|t*6|t*6NL"),
        (Partition((1,)), Options(), "EtNL"),
        (OwnedChunks(((0, 3), (1, 3), (1, 3), (0, 3))), Options(), "Et*3@0|t*3@1|t*3@1|t*3NL@0"),
        (OwnedChunks(((0, 0), *((1, 0),) * 3, (1, 0))), Options(), "E@0|(@1|)*3NL@1"),
        (FirstLast(11, 13), Options(pp=8, num_layers=96), "Et*11|(t*12|)*6t*13NL"),
        (FirstLast(first=6), Options(pp=3, vpp=2, num_layers=14), "Et*3|tt|tt|t*3|tt|ttNL"),
        (FirstLast(last=2), Options(pp=2, vpp=2, num_layers=6), "Ett|t|tt|tNL"),
        (FirstLast(last=2), Options(pp=2, vpp=2, num_layers=6, placement="v"), "Ett|t|t|ttNL"),
        (FirstLast(5, 5), Options(pp=1, num_layers=5), "Et*5NL"),
        (FirstLast(account_for_embedding=True, account_for_loss=True), Options(pp=4, vpp=2, num_layers=14), "Et|(tt|)*6tNL"),
        (FirstLast(account_for_embedding=True), Options(pp=2, num_layers=5), "Ett|t*3NL"),
        (FirstLast(account_for_loss=True), Options(pp=1, num_layers=5), "Et*5NL"),
        (FirstLast(), Options(pp=3, num_layers=9), "Et*3|t*3|t*3NL"),
        (LayerLists((("embedding", "decoder"), ("decoder", "loss"))), Options(), "Et|tL"),
        (LayerLists(((" Embedding", "DECODER\n"), (), (), (), ("mtp", "loss", "loss"))), Options(pp=9), "Et|(|)*3mLL"),
        (LayerLists(((), ())), Options(), "|"),
        (RankMajor((3, 4, 4, 4, 5, 4, 4, 4)), Options(pp=4, vpp=2), "Et*3|t*4|t*5|(t*4|)*4t*4NL"),
        (RankMajor((1, 2, 3, 4)), Options(pp=2), "Et|t*3|tt|t*4NL"),
        (RankMajor((1, 2, 3, 4)), Options(pp=2, placement="v"), "Et|t*3|t*4|ttNL"),
        (RankMajor((0, 2)), Options(pp=1), "E|ttNL"),
    ],
)
def test_a_form_comes_to_a_text(form: Form, options: Options, text: str) -> None:
    lowered = lower(form, options)
    assert (lowered.text, lowered.diagnostics) == (text, ())


@pytest.mark.parametrize(
    ("form", "options", "sizes"),
    [
        (Uniform(), Options(pp=2, num_layers=3), (2, 1, 3)),
        (Uniform(), Options(pp=2, vpp=3, num_layers=3), (2, 3, 3)),
        (Partition((4, 2)), Options(), (2, 1, 6)),
        (OwnedChunks(((1, 3), (0, 3))), Options(), (2, None, 6)),
        (OwnedChunks(((1, 3), (0, 3))), Options(pp=5, vpp=7, num_layers=9), (5, 7, 9)),
        (FirstLast(2, 4), Options(pp=2, num_layers=6), (2, 1, 6)),
        (FirstLast(), Options(pp=2, vpp=3, num_layers=6), (2, 3, 6)),
        (LayerLists((("embedding",), ("loss",))), Options(), (None, None, None)),
        (LayerLists((("embedding",), ("loss",))), Options(pp=5, vpp=7, num_layers=9), (5, 7, 9)),
        (RankMajor((1, 2, 3, 4)), Options(pp=2), (2, 2, 10)),
    ],
)
def test_a_form_fills_in_the_sizes_that_it_implies(form: Form, options: Options, sizes: tuple[int | None, ...]) -> None:
    filled = lower(form, options).options
    assert (filled.pp, filled.vpp, filled.num_layers) == sizes
    assert (filled.placement, filled.limits) == (None, Limits())


def test_equal_stages_are_never_listed() -> None:
    billion = lower(Uniform(), Options(pp=1_000_000, num_layers=10**9))
    assert billion.text == "Et*1000|(t*1000|)*999998t*1000NL"
    uneven = lower(FirstLast(5, 7), Options(pp=1_000_000, num_layers=999_998 * 3 + 12))
    assert uneven.text == "Et*5|(t*3|)*999998t*7NL"


def test_more_stages_than_the_limit_are_refused_unwritten() -> None:
    for form in (Uniform(), FirstLast(1_048_576, 2_097_152), FirstLast()):
        lowered = lower(form, Options(pp=2, vpp=1_048_576, num_layers=3_145_728 if form != FirstLast() else 0))
        assert lowered.text is None
        assert [(fault.code, fault.message) for fault in lowered.diagnostics] == [
            ("PP401", "layout has 2,097,152 stages, the limit is 1,048,576")
        ]
    assert lower(Uniform(), Options(pp=5, num_layers=5, limits=Limits(stages=5))).text == "Et|(t|)*3tNL"


def test_a_text_that_nobody_typed_may_be_longer_than_the_limit() -> None:
    form = Partition(tuple(range(1, 1001)))
    lowered = lower(form, Options(limits=Limits(text=100)))
    assert lowered.text is not None
    assert lowered.options.limits == Limits(text=len(lowered.text))
    assert counts(form, Options(limits=Limits(text=100))) == [*range(1, 1001)]
    assert lower(Partition((1, 2)), Options(limits=Limits(text=100))).options.limits == Limits(text=100)


def test_a_text_of_over_64_mib_is_left_to_the_limit() -> None:
    kept, left = (write_stages([("E", 1), ("t" * length, 1), ("L", 1)], Options()) for length in (2**26 - 4, 2**26 - 3))
    assert (kept.options.limits.text, left.options.limits.text) == (2**26, 65_536)


small = st.integers(0, 6)
sizes = st.tuples(st.integers(1, 6), st.integers(1, 4))
placements: st.SearchStrategy[Placement | None] = st.sampled_from([None, "loop", "v"])
targets = st.sampled_from(["ppdsl", "megatron", "mindspeed", "infinitrain"])
names = st.sampled_from([*NAMES]).flatmap(lambda name: st.sampled_from([name, name.upper(), f" {name}\t"]))


@st.composite
def uneven_requests(draw: Callable[[st.SearchStrategy[Any]], Any]) -> tuple[FirstLast, Options]:
    """Settings that fit."""
    pp, vpp = draw(sizes)
    first, last, share = (vpp * draw(st.integers(1, 4)) for _ in range(3))
    embedding, loss = draw(st.booleans()), draw(st.booleans())
    options = {"vpp": vpp, "placement": draw(placements), "mtp_num_layers": draw(small)}
    kind = draw(st.sampled_from(["first", "last", "both", "account"]))
    if kind == "account":
        return FirstLast(None, None, embedding, loss), Options(pp=pp, num_layers=max(0, pp * share - embedding - loss), **options)
    if kind == "both":
        total = first + last + (pp - 2) * share if pp > 1 else first
        return FirstLast(first, last if pp > 1 else first), Options(pp=pp, num_layers=total, **options)
    form = FirstLast(first=first) if kind == "first" else FirstLast(last=first)
    return form, Options(pp=pp, num_layers=first + (pp - 1) * share, **options)


@st.composite
def requests(draw: Callable[[st.SearchStrategy[Any]], Any]) -> tuple[Form, Options]:
    """Any form with sizes that fit it."""
    pp, vpp = draw(sizes)
    options = {"placement": draw(placements), "mtp_num_layers": draw(small), "target": draw(targets)}
    kind = draw(st.sampled_from([Uniform, Partition, OwnedChunks, FirstLast, LayerLists, RankMajor, CostList]))
    if kind is Uniform:
        return Uniform(), Options(pp=pp, vpp=vpp, num_layers=draw(st.integers(0, 60)), **options)
    if kind is Partition:
        return Partition(tuple(draw(st.lists(st.integers(1, 6), min_size=1)))), Options(**options)
    if kind is OwnedChunks:
        chunks = draw(st.lists(st.tuples(small, small), min_size=1))
        return OwnedChunks(tuple(chunks)), Options(**(options | {"placement": None}))
    if kind is LayerLists:
        rows = draw(st.lists(st.lists(names, max_size=4).map(tuple), min_size=2))
        return LayerLists(tuple(rows)), Options(**options)
    if kind is not FirstLast:
        layers = draw(st.lists(small, min_size=pp * vpp, max_size=pp * vpp))
        costs = CostList((draw(st.integers(1, 9)),) * (pp * vpp), mtp=0.0)
        return RankMajor(tuple(layers)) if kind is RankMajor else costs, Options(pp=pp, **options)
    return draw(uneven_requests())  # type: ignore[no-any-return]


@given(requests())
def test_every_text_is_its_own_canonical_form(request: tuple[Form, Options]) -> None:
    lowered = lower(*request)
    assert format_canonical(read(lowered.text, Limits()), 1_000_000) == lowered.text


@given(requests().filter(lambda request: not isinstance(request[0], LayerLists)))
def test_the_special_layers_stand_at_the_ends(request: tuple[Form, Options]) -> None:
    options = request[1]
    found = stages(*request)
    norm = "" if options.target in {"megatron", "mindspeed"} else "N"
    assert found[0].startswith("E")
    assert found[-1].partition("@")[0].endswith(norm + "m" * (options.mtp_num_layers or 0) + "L")
    assert all(set(stage.partition("@")[0]) <= {"t"} for stage in found[1:-1])
    assert [sum(stage.count(kind) for stage in found) for kind in "ENmL"] == [1, len(norm), options.mtp_num_layers or 0, 1]


@given(sizes, st.integers(0, 200))
def test_an_even_split_deals_one_layer_at_a_time(size: tuple[int, int], num_layers: int) -> None:
    pp, vpp = size
    dealt = [0] * (pp * vpp)
    for layer in range(num_layers):
        dealt[layer % len(dealt)] += 1
    assert counts(Uniform(), Options(pp=pp, vpp=vpp, num_layers=num_layers)) == dealt


@given(st.lists(st.integers(1, 9), min_size=1))
@example([3] * 9)
def test_a_partition_is_read_back_from_its_text(layers: list[int]) -> None:
    assert counts(Partition(tuple(layers)), Options()) == layers


@given(st.lists(st.tuples(st.integers(0, 3), small), min_size=1))
@example([(1, 2)] * 9)
def test_owned_chunks_are_read_back_from_their_text(chunks: list[tuple[int, int]]) -> None:
    found = stages(OwnedChunks(tuple(chunks)), Options())
    assert [(int(stage.partition("@")[2]), stage.count("t")) for stage in found] == chunks


@given(sizes, placements, st.data())
def test_a_rank_major_list_is_read_back_from_its_text(size: tuple[int, int], placement: Placement | None, data: st.DataObject) -> None:
    pp, vpp = size
    layers = data.draw(st.lists(small, min_size=pp * vpp, max_size=pp * vpp))
    found = counts(RankMajor(tuple(layers)), Options(pp=pp, vpp=vpp, placement=placement))
    chunks: list[list[int]] = [[] for _ in range(pp)]
    for number, layers_here in enumerate(found):
        lap, step = divmod(number, pp)
        chunks[pp - 1 - step if placement == "v" and lap % 2 else step].append(layers_here)
    assert [count for rank in chunks for count in rank] == layers


@given(uneven_requests())
def test_an_uneven_pipeline_keeps_every_layer_and_what_was_asked(request: tuple[FirstLast, Options]) -> None:
    form, options = request
    found = counts(form, options)
    pp, vpp = options.pp or 0, options.vpp or 0
    assert sum(found) == options.num_layers
    assert len(found) == pp * vpp
    by_rank = [0] * pp
    for number, layers in enumerate(found):
        lap, step = divmod(number, pp)
        by_rank[pp - 1 - step if options.placement == "v" and lap % 2 else step] += layers
    assert form.first in {None, by_rank[0]}
    assert form.last in {None, by_rank[-1]}
    assert len({*by_rank[1:-1]}) <= 1


@given(st.lists(st.lists(names, max_size=5), min_size=2))
def test_layer_lists_are_read_back_from_their_text(rows: list[list[str]]) -> None:
    written = ["".join(NAMES[name.strip().lower()] for name in row) for row in rows]
    assert stages(LayerLists(tuple(map(tuple, rows))), Options()) == written
