from __future__ import annotations

import pytest

from ppdsl.nodes import Run
from ppdsl.normal_form import NormalForm, normalize
from ppdsl.normal_form.listing import MOST_PIECES
from ppdsl.options import Limits
from ppdsl.parsing import parse
from ppdsl.source import Span

LIMITS = Limits()


def form_of(text: str, limits: Limits = LIMITS) -> NormalForm:
    items = parse(text, limits).items
    assert items is not None
    return normalize(items, limits)


def stages(text: str) -> list[tuple[str, int]]:
    """Give the runs of equal stages: layers, and how many."""
    return [("".join(f"{kind}{count}" for kind, count in stage.runs), times) for _, stage, times in form_of(text).runs()]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("EL", [("E1L1", 1)]),
        ("Et*3|(tt|)*29,m|L", [("E1t3", 1), ("t2", 29), ("m1", 1), ("L1", 1)]),
        ("E|(t|)*1998L", [("E1", 1), ("t1", 1998), ("L1", 1)]),
        ("E|||L", [("E1", 1), ("", 2), ("L1", 1)]),
        ("E|*1000000L", [("E1", 1), ("", 999_999), ("L1", 1)]),
        ("t|(t|)*3t|L", [("t1", 5), ("L1", 1)]),
        ("((t|)*3)*3L", [("t1", 9), ("L1", 1)]),
        ("(t|m|t|)*3L", [("t1", 1), ("m1", 1), ("t1", 2), ("m1", 1), ("t1", 2), ("m1", 1), ("t1", 1), ("L1", 1)]),
        ("(t|m|)*2t|L", [("t1", 1), ("m1", 1), ("t1", 1), ("m1", 1), ("t1", 1), ("L1", 1)]),
        ("(t|t)*3", [("t1", 1), ("t2", 2), ("t1", 1)]),
        ("(|t|)*3", [("", 1), ("t1", 1), ("", 1), ("t1", 1), ("", 1), ("t1", 1), ("", 1)]),
        ("(t(m)*2)*2", [("t1m2t1m2", 1)]),
        ("(t*2)*3t", [("t7", 1)]),
        ("E(t|m)*0L", [("E1L1", 1)]),
        ("E(t*0|)*3L", [("E1", 1), ("", 2), ("L1", 1)]),
        ("(tm*0)*40000", [("t40000", 1)]),
        ("t*0", [("", 1)]),
        ("(t*0)*3", [("", 1)]),
    ],
)
def test_stages_are_listed_in_runs_of_equal_ones(text: str, expected: list[tuple[str, int]]) -> None:
    assert stages(text) == expected


def test_a_stage_knows_its_owner_its_pieces_and_its_place() -> None:
    form = form_of("Et*2 t@3|(m@1|)*2L@0")
    (_, first, once), (_, second, twice), (_, third, _) = form.runs()
    assert (first.runs, first.owner, first.span, once) == ((("E", 1), ("t", 3)), 3, Span(0, 8), 1)
    assert first.pieces == (Run("E", 1, 0, 1), Run("t", 2, 1, 4, 2), Run("t", 1, 5, 6))
    assert (second.runs, second.owner, second.span, twice) == ((("m", 1),), 1, Span(10, 13), 2)
    assert (third.runs, third.owner, third.span) == ((("L", 1),), 0, Span(17, 20))
    assert (first.count("t"), first.count("L")) == (3, 0)


@pytest.mark.parametrize(
    ("text", "number", "span"),
    [
        ("E||L", 1, Span(1, 3)),  # an empty stage is shown by the bars around it
        ("|EL", 0, Span(0, 1)),
        ("EL|", 1, Span(2, 3)),
        ("E|*5L", 1, Span(1, 4)),
        ("E(|)*5L", 1, Span(2, 3)),
        ("E|t*0|L", 1, Span(2, 5)),  # or by what is removed from it
        ("t*0", 0, Span(0, 3)),
        ("(t|m)*2", 1, Span(3, 4)),  # of a stage that goes on at the group's beginning, the part behind is shown
        ("E*0ttt|L", 0, Span(3, 6)),
        ("E(tm)*2|L", 0, Span(0, 4)),
        ("E (t)*2 t|L", 0, Span(0, 9)),
    ],
)
def test_the_place_of_a_stage(text: str, number: int, span: Span) -> None:
    assert next(stage.span for first, stage, count in form_of(text).runs() if first <= number < first + count) == span


def test_counts_are_exact_however_large() -> None:
    tally = form_of("E" + "(" * 60 + "t" + "*9)" * 60 + "L").tally
    assert tally.count("t") == 9**60
    assert (tally.count("E"), tally.count("m"), tally.stages) == (1, 0, 1)
    assert form_of("E((t|)*999999999999)*999999999999L").tally.stages == 999_999_999_999**2 + 1


def test_the_first_and_last_of_each_symbol_are_kept() -> None:
    tally = form_of("Et*2|(tm)*5|mNt|L").tally
    assert [(run.kind, run.start) for run in tally.marks][:2] == [("E", 0), ("t", 1)]
    assert tally.first("t") == Run("t", 2, 1, 4, 2)
    assert tally.last("t") == Run("t", 1, 14, 15)
    assert (tally.first("m"), tally.last("m")) == (Run("m", 1, 7, 8), Run("m", 1, 12, 13))
    assert tally.first("|") is None
    assert form_of("EL").tally.last("N") is None


@pytest.mark.parametrize(
    ("text", "kind", "others", "found"),
    [
        ("Emt", "m", "t", (2, 1)),
        ("Etm", "m", "t", None),
        ("(tm)*2", "m", "t", (1, 2)),
        ("(tm)*1", "m", "t", None),
        ("N|m|L", "N", "mL", (2, 0)),
        ("Et", "m", "t", None),
        ("m*0tm", "m", "t", None),
    ],
)
def test_what_stands_before_what(text: str, kind: str, others: str, found: tuple[int, int] | None) -> None:
    before = form_of(text).tally.before(kind, others)
    assert (None if before is None else (before[0].start, before[1].start)) == found


def test_what_is_removed_is_remembered() -> None:
    removed = form_of("Et*0(m|)*0(tt*0)*2|*0L").tally.removed
    assert [item.span for item in removed] == [Span(1, 4), Span(4, 10), Span(11, 15), Span(18, 21)]


@pytest.mark.parametrize(
    ("text", "norm", "implied"),
    [("Et|t|L", 2, 2), ("Et|tN|L", 1, 2), ("Et|t|mL", 1, 1), ("E|t|N|mL", 2, 1), ("E|m|L", 2, 2), ("E(t|)*5mL", 4, 4), ("Et|t", 1, 1)],
)
def test_the_stage_of_the_final_norm(text: str, norm: int, implied: int) -> None:
    assert (form_of(text).norm_stage(), form_of(text).implied_norm_stage()) == (norm, implied)


def test_stages_at_the_limit_are_listed_and_over_it_counted() -> None:
    assert form_of("(t|m|)*2", Limits(stages=5)).order is not None
    assert form_of("(t|m|)*2L", Limits(stages=5)).order is not None
    over = form_of("(t|m|)*2t|L", Limits(stages=5))
    assert (over.order, over.stages, over.tally.stages) == (None, (), 6)
    assert form_of("t|m|t|m|t", Limits(stages=4)).order is None
    assert form_of("(t|m|)*9", Limits(stages=5)).order is None
    assert [*over.runs()] == []


def test_equal_stages_are_listed_over_any_limit() -> None:
    assert form_of("E|(t|)*999999999L", Limits(stages=3)).order is not None


def test_alternating_symbols_in_one_stage_are_counted_when_they_are_too_many_to_list() -> None:
    listed = form_of(f"E(tm)*{MOST_PIECES // 2}L")
    assert listed.order is not None
    counted = form_of(f"E(tm)*{MOST_PIECES // 2 + 1}L")
    assert counted.order is None
    assert counted.tally.count("t") == MOST_PIECES // 2 + 1
