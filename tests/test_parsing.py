from __future__ import annotations

import pytest

from ppdsl import check_layout
from ppdsl.diagnostics import Diagnostic, Proposal
from ppdsl.nodes import Group, Item, Owner, Run
from ppdsl.options import Limits
from ppdsl.parsing import RULES, Parsed, parse
from ppdsl.parsing.edits import MOST_FAULTS, MOST_WRITTEN
from ppdsl.parsing.wrapping import is_wrapped
from ppdsl.source import Span

LIMITS = Limits()


def items_of(text: str) -> tuple[Item, ...]:
    items = parse(text, LIMITS).items
    assert items is not None
    return items


def codes(text: str, limits: Limits = LIMITS) -> list[str]:
    return [diagnostic.code for diagnostic in parse(text, limits).diagnostics]


def only(text: str) -> Diagnostic:
    (diagnostic,) = parse(text, LIMITS).diagnostics
    return diagnostic


# What is read


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ("EtL", [Run("E", 1, 0, 1), Run("t", 1, 1, 2), Run("L", 1, 2, 3)]),
        ("Ett*3", [Run("E", 1, 0, 1), Run("t", 4, 1, 5, 3)]),
        ("t,*,3", [Run("t", 3, 0, 5, 3)]),
        ("t \n* 03 t", [Run("t", 3, 0, 7, 3), Run("t", 1, 8, 9)]),
        ("tt*0", [Run("t", 1, 0, 4, 0)]),
        ("||*3", [Run("|", 4, 0, 4, 3)]),
        (r"E\|\|L", [Run("E", 1, 0, 1), Run("|", 2, 1, 5), Run("L", 1, 5, 6)]),
        (r"t\*3", [Run("t", 3, 0, 4, 3)]),
        ("t@3|@ 04", [Run("t", 1, 0, 1), Owner(3, 1, 3), Run("|", 1, 3, 4), Owner(4, 4, 8)]),
        ("  t", [Run("t", 1, 2, 3)]),
        ("'t'", [Run("t", 1, 1, 2)]),
        ('"\'t"', []),
        ("\" 't' \"", [Run("t", 1, 3, 4)]),
        ("t*999999999999", [Run("t", 999_999_999_999, 0, 14, 999_999_999_999)]),
    ],
)
def test_runs_and_owners_know_their_places(text: str, items: list[Item]) -> None:
    assert [*(parse(text, LIMITS).items or ())] == items


def test_groups_hold_their_items_and_reach_to_their_repeats() -> None:
    group, single = items_of(r"(t(m|)*2)*3 \(L\)")
    assert isinstance(group, Group)
    assert isinstance(single, Group)
    assert (group.repeat, group.count, group.span) == (3, 3, Span(0, 11))
    first, inner = group.items
    assert isinstance(inner, Group)
    assert (first, inner.items, inner.repeat, inner.span) == (Run("t", 1, 1, 2), (Run("m", 1, 3, 4), Run("|", 1, 4, 5)), 2, Span(2, 8))
    assert (single.repeat, single.count, single.span) == (None, 1, Span(12, 17))


def test_deep_groups_are_read_without_recursion() -> None:
    (item,) = items_of("(" * 200 + "t" + ")" * 200)
    depth = 0
    while isinstance(item, Group):
        (item,) = item.items
        depth += 1
    assert (depth, item) == (200, Run("t", 1, 200, 201))
    limits = Limits(depth=10_000)
    assert parse("(" * 10_000 + "t" + ")" * 10_000, limits).items is not None


@pytest.mark.parametrize(("text", "wrapped"), [("'EL'", True), ('"EL"', True), (r"E\|L", True), ("E | L", False)])
def test_quotes_and_backslashes_are_known_for_a_note(text: str, wrapped: bool) -> None:  # noqa: FBT001 -- a parameter of the table
    assert is_wrapped(text) is wrapped
    assert codes(text) == []


# What is refused: the whole texts are in tests/corpus/invalid


def test_a_faulty_text_has_no_items() -> None:
    assert parse("Et*L", LIMITS) == Parsed(None, (only("Et*L"),))


def test_a_fault_proposes_its_own_remedy_then_all_of_them() -> None:
    first, second = parse("E3*tl", LIMITS).diagnostics
    assert (first.code, first.span, first.fix) == ("PP102", Span(1, 3), None)
    assert first.proposals == (Proposal("write `t*3`", "Et*3l"), Proposal("write `t*3`", "Et*3L"))
    assert second.proposals == (Proposal("write `L` for `l`", "E3*tL"), Proposal("write `L` for `l`", "Et*3L"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # one fault, one diagnostic: the repeat behind a faulty unit is swallowed with it
        ("E\u00d73L", ["PP101"]),
        ("Ex*3L", ["PP101"]),
        ("E?*3*4L", ["PP101"]),
        ("E()*2*3L", ["PP108", "PP105"]),
        ("Ett)*2*3L", ["PP104"]),
        ("Et**3L", ["PP106"]),
        ("Et***L", ["PP106"]),
        ("E3*tL", ["PP102"]),
        ("Et3L", ["PP102"]),
        ("Et*3*4*5L", ["PP105"]),
        ("Et@1*3|L@0", ["PP102"]),
        # a stand-in for what is at fault makes no fault of its own
        ("Et@0?|tL@1", ["PP101"]),
        ("E@0(?)|L@1", ["PP101"]),
        ("E(foo)L", ["PP101"]),
        ("E(*3)L", ["PP102"]),
        ("E(5)L", ["PP102"]),
        ("E(", ["PP103"]),
        ("E@0()|L@1", ["PP108"]),
        ("E@|L@1", ["PP106"]),
        ("E@\u0663|L@1", ["PP106"]),
        # faults that have nothing to do with one another are all reported, in the order of the text
        ("Et*3||x*3|t*6Nl", ["PP101", "PP101"]),
        ("l3*t)()t*t*2*2(", ["PP101", "PP102", "PP104", "PP108", "PP106", "PP105", "PP103"]),
        ("(Et*1,0 x", ["PP103", "PP107", "PP101"]),
        ("E@0t|x@1", ["PP109", "PP101"]),
        ("E((t)*0)*0((t))*0L", ["PP112", "PP112"]),
        ("(x(y(z", ["PP103", "PP101", "PP103", "PP101", "PP103", "PP101"]),
        ("Et*1\u0663,5L", ["PP106"]),
        ("Et*2 \u0663L", ["PP102"]),
        ("E?*1234567890123L", ["PP101"]),
        ("Et*1,0\u0663L", ["PP107"]),
    ],
)
def test_every_fault_is_reported_once(text: str, expected: list[str]) -> None:
    assert codes(text) == expected


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("etL", "EtL"), ("Etl", "EtL"), ("ETL", "EtL"), ("EdL", "EtL"), ("EDL", "EtL"), ("EtML", "EtmL"), ("EtnL", "EtNL"),
        ("EtFL", "EtNL"), ("EtH", "EtL"), ("EttdL", "Et*3L"), ("EddL", "EttL"),
        ("\u0415tl", "EtL"), ("\uff25|\uff2c", "E|L"), ("E\u0442L", "EtL"), ("Et\u043cL", "EtmL"), ("Et\u039dL", "EtNL"),
        ("Et\u00d73L", "Et*3L"), ("Etx3L", "Et*3L"), ("EtX3L", "Et*3L"), ("Et^3L", "Et*3L"), ("Et·3L", "Et*3L"), ("Et\uff0a3L", "Et*3L"),
        ("E(t|)x3L", "E(t|)*3L"), ("Et/tL", "Et|tL"), ("E¦tL", "E|tL"), ("E│tL", "E|tL"), ("E\uff5ctL", "E|tL"), ("E//tL", "E||tL"),
        ("E[tt|]*3L", "E(tt|)*3L"), ("E{tt|}*3L", "E(tt|)*3L"), ("E<tt|>*3L", "E(tt|)*3L"), ("E\uff08tt|\uff09*3L", "E(tt|)*3L"),
        ("E\uff0ctL", "EtL"), ("E\u00a0tL", "EtL"), ("E\u200btL", "EtL"), ("\ufeffEtL", "EtL"), ("E\\tL", "EtL"), ("E'tL", "EtL"),
        ("EtL;", "EtL"), ("`EtL`", "EtL"), ("'EtL", "EtL"),
        ("E3*tL", "Et*3L"), ("E3tL", "Et*3L"), ("Et3L", "Et*3L"), ("E3*(t|)L", "E(t|)*3L"), ("E3(t|)L", "E(t|)*3L"),
        ("E(tt|)29L", "E(tt|)*29L"),
         ("Et**3L", "Et*3L"), ("Et*\uff13L", "Et*3L"), ("Et*1\u0663L", "Et*13L"), ("Et*0000000000003L", "Et*3L"),
        ("Et*1,0L", "Et*10L"), ("Et*1 0L", "Et*10L"), ("E(t)*2*3L", "Et*6L"), ("E()*3tL", "EtL"), ("E(t))L", "EtL"), ("E(t))*3L", "Et*3L"),
        ("E(tt|*3L", "E(tt|)*3L"), ("E(tt|L", "Ett|L"), ("E((t|)*3L", "E(t|)*3L"), ("E*|L", None), ("E(*2t)*2L", "Et*4L"),
        ("E((t)*0|)*0tL", "EtL"), ("Et *0L", "EL"), ("E*3*tL", None), ("*EtL", "EtL"),
    ],
)  # fmt: skip
def test_what_was_meant_is_offered(wrong: str, right: str | None) -> None:
    first = check_layout(wrong).diagnostics[0]
    if right is None:
        assert first.fix is None
        return
    assert first.fix is not None
    assert check_layout(first.fix).valid
    assert check_layout(first.fix).canonical == check_layout(right).canonical
    assert first.help is not None
    assert first.help.endswith(f": {first.fix}")


def test_at_most_twenty_faults_are_reported() -> None:
    assert codes("?t" * MOST_FAULTS) == ["PP101"] * MOST_FAULTS
    assert codes("?t" * 1_000) == ["PP101"] * MOST_FAULTS
    assert codes("t@1" * 1_000) == ["PP109"] * MOST_FAULTS
    assert codes("((t))*0" * 1_000) == ["PP112"] * MOST_FAULTS
    assert codes("(t" * 100) == ["PP103"] * MOST_FAULTS
    assert codes("?t" * 15 + "((t))*0" * 15) == ["PP101"] * 15 + ["PP112"] * 5


def test_a_long_word_is_quoted_in_part() -> None:
    assert only("E" + "?" * 1_000 + "L").message == "unknown symbol `" + "?" * 23 + "…`"
    assert only("Et*" + "\u0663" * 1_000 + "L").message == "repeat count `" + "\u0663" * 23 + "…` is not a number in ASCII digits"


def test_corrected_layouts_are_written_out_up_to_a_limit() -> None:
    diagnostics = parse("E" + "t" * 9_000 + "lll/l/l/l/l/l/l/l", LIMITS).diagnostics
    texts = {proposal.fix for diagnostic in diagnostics for proposal in diagnostic.proposals}
    assert 0 < sum(map(len, texts)) <= MOST_WRITTEN


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_a_rule_shows_a_text_that_breaks_it_and_one_that_does_not(rule: object) -> None:
    wrong, right = (str(getattr(rule, name)) for name in ("wrong", "right"))
    code = str(getattr(rule, "code"))  # noqa: B009 -- a rule is taken as any object here
    limits = Limits(text=10) if "--max-text" in wrong else LIMITS
    assert code in codes(wrong.split("'")[1], limits)
    assert codes(right.split("'")[1], limits) == []
