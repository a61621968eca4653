"""The other ways to say a layout, where they are at fault: whole messages."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ppdsl import sizes
from ppdsl.forms import (
    RULES,
    CostList,
    FirstLast,
    Form,
    LayerLists,
    OwnedChunks,
    Partition,
    RankMajor,
    Uniform,
    lower,
)
from ppdsl.options import Options
from ppdsl.rendering import render_text

BOTH = FirstLast(3, 4)


@pytest.mark.parametrize(
    ("form", "options", "text"),
    [
        (Uniform(), Options(), "error[PP202]: an even split needs --pp and --num-layers\n   = help: give --pp and --num-layers"),
        (Uniform(), Options(pp=2), "error[PP202]: an even split needs --num-layers\n   = help: give --num-layers"),
        (FirstLast(), Options(num_layers=2), "error[PP202]: an uneven pipeline needs --pp\n   = help: give --pp"),
        (RankMajor((1, 2)), Options(vpp=2), "error[PP202]: a rank-major list needs --pp\n   = help: give --pp"),
        (Uniform(), Options(pp=0, num_layers=2), "error[PP203]: --pp is 0, the range is 1 to 1,048,576"),
        (Partition(()), Options(), "error[PP208]: the partition has no entries"),
        (RankMajor(()), Options(pp=1), "error[PP208]: the rank-major list has no entries"),
        (OwnedChunks(()), Options(), "error[PP208]: the chunk list has no entries"),
        (
            Partition((4, 0, 6)),
            Options(num_layers=99),
            "error[PP208]: entry 2 of the partition is 0, the range is 1 to 999,999,999,999",
        ),
        (
            Partition((-4, 10**5000)),
            Options(),
            """\
error[PP208]: entry 1 of the partition is -4, the range is 1 to 999,999,999,999

error[PP208]: entry 2 of the partition is over 10^15, the range is 1 to 999,999,999,999""",
        ),
        (
            Partition((4, 8)),
            Options(pp=1, vpp=2, num_layers=13),
            """\
error[PP208]: partition has 12 decoder layers, --num-layers says 13
   = help: make the two agree

error[PP208]: a partition has one stage on each rank, --vpp says 2
   = help: use a rank-major list, or owned chunks, for more

error[PP208]: partition has 2 entries, --pp says 1
   = help: write one count for each rank""",
        ),
        (
            Partition((1,)),
            Options(pp=2, num_layers=0),
            """\
error[PP208]: partition has 1 decoder layer, --num-layers says 0
   = help: make the two agree

error[PP208]: partition has 1 entry, --pp says 2
   = help: write one count for each rank""",
        ),
        (
            RankMajor((1, 2, 3)),
            Options(pp=2),
            "error[PP208]: rank-major list has 3 entries, not a multiple of --pp 2\n   = help: write as many for each rank",
        ),
        (
            RankMajor((1, -(10**5000), 3, 4)),
            Options(pp=2, vpp=3, num_layers=10),
            """\
error[PP208]: entry 2 of the rank-major list is below -10^15, the range is 0 to 999,999,999,999

error[PP208]: rank-major list has 4 entries, --pp 2 and --vpp 3 make 6 chunks
   = help: write one count for each chunk""",
        ),
        (
            RankMajor((1, 2)),
            Options(pp=2, num_layers=4),
            "error[PP208]: rank-major list has 3 decoder layers, --num-layers says 4\n   = help: make the two agree",
        ),
        (
            OwnedChunks(((0, 1), (-1, 2), (1_048_576, 2), (1, -2), (1, 10**12))),
            Options(),
            """\
error[PP208]: entry 2 of the chunk list is -1:2, the range of ranks is 0 to 1,048,575

error[PP208]: entry 3 of the chunk list is 1,048,576:2, the range of ranks is 0 to 1,048,575

error[PP208]: entry 4 of the chunk list is 1:-2, the range of layers is 0 to 999,999,999,999

error[PP208]: entry 5 of the chunk list is 1:1,000,000,000,000, the range of layers is 0 to 999,999,999,999""",
        ),
        (
            OwnedChunks(((0, 1),)),
            Options(placement="v"),
            """\
error[PP201]: the form with owned chunks and --placement both say which rank a stage is on
   = help: leave out --placement""",
        ),
        (
            FirstLast(0, 10**13),
            Options(pp=1, num_layers=3),
            """\
error[PP203]: --first-stage-layers is 0, the range is 1 to 999,999,999,999

error[PP203]: --last-stage-layers is 10,000,000,000,000, the range is 1 to 999,999,999,999""",
        ),
        (
            FirstLast(1, None, account_for_embedding=True, account_for_loss=True),
            Options(pp=2, num_layers=3),
            """\
error[PP201]: two forms of the layout at once: --first-stage-layers, --account-for-embedding and --account-for-loss
   = help: give layer counts or account-for options, not both""",
        ),
        (
            BOTH,
            Options(pp=1, num_layers=12),
            """\
error[PP207]: --first-stage-layers 3 and --last-stage-layers 4 differ, and with --pp 1 one rank is both the first and the last
   = help: give one of them""",
        ),
        (
            BOTH,
            Options(pp=2, num_layers=6),
            """\
error[PP207]: --first-stage-layers 3 and --last-stage-layers 4 take 7 layers, --num-layers says 6
   = help: lower the counts to 6 in all""",
        ),
        (
            FirstLast(last=4),
            Options(pp=3, num_layers=3),
            "error[PP207]: --last-stage-layers 4 takes 4 layers, --num-layers says 3\n   = help: lower the counts",
        ),
        (
            BOTH,
            Options(pp=2, num_layers=12),
            """\
error[PP207]: --first-stage-layers 3 and --last-stage-layers 4 take 7 of 12 layers, and no rank is there for the other 5
   = help: raise the counts to 12 in all""",
        ),
        (
            BOTH,
            Options(pp=3, num_layers=7),
            """\
error[PP207]: --first-stage-layers 3 and --last-stage-layers 4 take all 7 layers, and 1 other rank would have none
   = help: lower the counts, or --pp""",
        ),
        (
            BOTH,
            Options(pp=5, num_layers=12),
            """\
error[PP207]: --first-stage-layers 3 and --last-stage-layers 4 take 7 of 12 layers, and 5 for 3 other ranks leave 2 in no stage
   = help: leave a multiple of 3""",
        ),
        (
            BOTH,
            Options(pp=4, vpp=2, num_layers=17),
            """\
error[PP207]: rank 0 has 3 layers, not a multiple of --vpp 2: 1 would be in no stage
   = help: give each rank a multiple of 2

error[PP207]: each other rank has 5 layers, not a multiple of --vpp 2: 1 would be in no stage
   = help: give each rank a multiple of 2""",
        ),
        (
            FirstLast(account_for_embedding=True, account_for_loss=True),
            Options(pp=4, vpp=2, num_layers=12),
            """\
error[PP207]: 12 layers, the embedding and the loss make 14, not a multiple of --pp 4 x --vpp 2: 6 would be in no stage
   = help: the nearest --num-layers that fit: 6 and 14""",
        ),
        (
            FirstLast(account_for_loss=True),
            Options(pp=4, num_layers=0),
            """\
error[PP207]: 0 layers and the loss make 1, not a multiple of --pp 4: 1 would be in no stage
   = help: the nearest --num-layers that fit: 3""",
        ),
        (
            FirstLast(),
            Options(pp=2, num_layers=1),
            """\
error[PP207]: --num-layers 1 is not a multiple of --pp 2: 1 would be in no stage
   = help: the nearest --num-layers that fit: 0 and 2""",
        ),
        (
            LayerLists((("embedding", "decodr"), ("loss",))),
            Options(),
            "error[PP209]: entry 2 of stage 0, `decodr`, is not a layer name\n   = help: write `decoder`",
        ),
        (
            LayerLists(((),)),
            Options(),
            'error[PP209]: the list form has no layer\n   = help: write it as [["embedding", "decoder"], ["decoder", "loss"]]',
        ),
    ],
)
def test_a_form_at_fault_says_all_that_is_wrong(form: Form, options: Options, text: str) -> None:
    lowered = lower(form, options)
    assert render_text(lowered.diagnostics, None) == text
    assert lowered.text is None
    assert lowered.options in {options, replace(options, vpp=1)}


def test_a_thousand_bad_entries_are_not_all_told() -> None:
    for form in (Partition((0,) * 1000), OwnedChunks(((-1, 1),) * 1000)):
        assert len(lower(form, Options()).diagnostics) == 20


def test_each_rule_has_a_code_of_its_own_and_two_examples() -> None:
    rules = (*sizes.RULES, *RULES)
    assert [rule.code for rule in rules] == ["PP201", "PP202", "PP203", "PP207", "PP208", "PP209"]
    assert all(rule.wrong.startswith("check ") and rule.right.startswith("check ") for rule in rules)


integers = st.none() | st.integers(-1, 9)
counts = st.lists(st.integers(-1, 9)).map(tuple)
forms = st.one_of(
    st.just(Uniform()),
    st.builds(Partition, counts),
    st.builds(RankMajor, counts),
    st.builds(OwnedChunks, st.lists(st.tuples(st.integers(-1, 9), st.integers(-1, 9))).map(tuple)),
    st.builds(LayerLists, st.lists(st.lists(st.sampled_from(["embedding", "loss", "E", ""])).map(tuple)).map(tuple)),
    st.builds(CostList, counts, st.integers(-1, 9), integers, st.integers(-1, 9), st.integers(-1, 9)),
    st.builds(FirstLast, integers, integers, st.booleans(), st.booleans()),
)
options = st.builds(
    Options,
    pp=integers,
    vpp=integers,
    num_layers=integers,
    mtp_num_layers=integers,
    placement=st.sampled_from([None, "loop", "v"]),
)


@given(forms, options)
def test_lowering_gives_a_text_or_says_why_not_and_overrides_no_size(form: Form, given_options: Options) -> None:
    lowered = lower(form, given_options)
    assert (lowered.text is None) == any(fault.severity == "error" for fault in lowered.diagnostics)
    for field in ("pp", "vpp", "num_layers", "mtp_num_layers", "placement"):
        assert getattr(given_options, field) in {None, getattr(lowered.options, field)}
