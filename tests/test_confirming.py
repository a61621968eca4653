from __future__ import annotations

from typing import TYPE_CHECKING

from ppdsl.confirming import MOST_SHOWN, MOST_TRIED, confirm_remedies
from ppdsl.diagnostics import Diagnostic, Proposal

if TYPE_CHECKING:
    from collections.abc import Callable


def fault(code: str, *proposals: tuple[str, str], severity: str = "error", help_text: str | None = None) -> Diagnostic:
    remedies = tuple(Proposal(what, fix) for what, fix in proposals)
    return Diagnostic(code, severity, "wrong", help=help_text, proposals=remedies)  # type: ignore[arg-type]  # a severity


def answers(known: dict[str, list[Diagnostic]], asked: list[str]) -> Callable[[str], tuple[Diagnostic, ...]]:
    """Answer as known, and note what was asked; what is not known is valid."""

    def recheck(text: str) -> tuple[Diagnostic, ...]:
        asked.append(text)
        return tuple(known.get(text, []))

    return recheck


def test_what_has_no_proposal_stays_as_it_is() -> None:
    asked: list[str] = []
    found = [fault("PP1", help_text="think"), fault("PP2")]
    assert confirm_remedies(found, answers({}, asked)) == tuple(found)
    assert asked == []


def test_the_first_proposal_that_leaves_no_error_becomes_the_fix() -> None:
    asked: list[str] = []
    known = {"a": [fault("PP9")], "b": [fault("PP8", severity="warning"), fault("PP7", severity="info")]}
    (done,) = confirm_remedies([fault("PP1", ("try a", "a"), ("try b", "b"), ("try c", "c"), help_text="think")], answers(known, asked))
    assert done == Diagnostic("PP1", "error", "wrong", help="try b: b", fix="b")
    assert asked == ["a", "b"]


def test_a_proposal_that_holds_for_none_leaves_its_words() -> None:
    known = {"a": [fault("PP9")], "b": [fault("PP9")]}
    (done,) = confirm_remedies([fault("PP1", ("try a", "a"), ("try b", "b"))], answers(known, []))
    assert done == Diagnostic("PP1", "error", "wrong", help="try a")
    (done,) = confirm_remedies([fault("PP1", ("try a", "a"), help_text="think")], answers(known, []))
    assert done == Diagnostic("PP1", "error", "wrong", help="think")


def test_two_faults_are_mended_one_after_the_other() -> None:
    known = {"a": [fault("PP2", ("mend b", "ab"))], "b": [fault("PP1", ("mend a", "ab"))]}
    one, two = confirm_remedies([fault("PP1", ("mend a", "a")), fault("PP2", ("mend b", "b"))], answers(known, []))
    assert (one.help, one.fix, one.proposals) == ("mend a; with every fault mended: ab", "ab", ())
    assert (two.help, two.fix, two.proposals) == ("mend b; with every fault mended: ab", "ab", ())


def test_mending_takes_the_best_remedy_of_each_fault() -> None:
    known = {"a": [fault("PP2", ("mend b", "ab"), ("or so", "?"))], "x": [fault("PP9")], "?": [fault("PP9")]}
    one, _ = confirm_remedies([fault("PP1", ("mend a", "a"), ("or so", "x")), fault("PP2")], answers(known, []))
    assert (one.help, one.fix) == ("mend a; with every fault mended: ab", "ab")


def test_each_text_is_checked_once() -> None:
    asked: list[str] = []
    known = {"a": [fault("PP2", ("mend b", "ab"))], "b": [fault("PP1", ("mend a", "ab"))]}
    confirm_remedies([fault("PP1", ("mend a", "a"), ("or b", "b")), fault("PP2", ("mend b", "b"))], answers(known, asked))
    assert asked == ["a", "b", "ab"]


def test_mending_passes_over_faults_without_a_remedy_and_ends_with_them() -> None:
    known = {"a": [fault("PP2"), fault("PP1", ("more", "aa"))], "aa": [fault("PP2")]}
    first, second = confirm_remedies([fault("PP1", ("mend a", "a")), fault("PP2")], answers(known, []))
    assert (first.help, first.fix) == ("mend a", None)
    assert (second.help, second.fix) == (None, None)
    known["aa"] = []
    first, _ = confirm_remedies([fault("PP1", ("mend a", "a")), fault("PP2")], answers(known, []))
    assert (first.help, first.fix) == ("mend a; with every fault mended: aa", "aa")


def test_mending_that_brings_a_new_kind_of_fault_is_not_offered() -> None:
    known = {"a": [fault("PP3", ("mend c", "b"))]}
    (done,) = confirm_remedies([fault("PP1", ("mend a", "a"))], answers(known, []))
    assert (done.help, done.fix) == ("mend a", None)


def test_mending_that_runs_in_a_circle_ends() -> None:
    asked: list[str] = []
    known = {"a": [fault("PP1", ("back", "b"))], "b": [fault("PP1", ("forth", "a"))]}
    (done,) = confirm_remedies([fault("PP1", ("mend a", "a"))], answers(known, asked))
    assert (done.help, done.fix) == ("mend a", None)
    assert asked == ["a", "b"]


def test_only_so_many_characters_are_tried() -> None:
    asked: list[str] = []
    half = MOST_TRIED // 2
    texts = ["a" * half, "b" * half, "c"]
    known = {text: [fault("PP1", ("more", "c"))] for text in texts[:2]}
    (done,) = confirm_remedies([fault("PP1", *((f"try {text[0]}", text) for text in texts))], answers(known, asked))
    assert asked == texts[:2]
    assert (done.help, done.fix) == ("try a", None)
    asked.clear()
    (done,) = confirm_remedies([fault("PP1", ("try a", texts[0][1:]), ("try b", texts[1]), ("try c", "c"))], answers(known, asked))
    assert (done.help, done.fix) == ("try a", texts[0][1:])


def test_the_limit_is_reached_to_the_character() -> None:
    known = {"a" * (MOST_TRIED - 1): [fault("PP1")]}
    (done,) = confirm_remedies([fault("PP1", ("try a", "a" * (MOST_TRIED - 1)), ("try b", "b"))], answers(known, []))
    assert done.fix == "b"
    (done,) = confirm_remedies([fault("PP1", ("try a", "a" * (MOST_TRIED - 1)), ("try b", "bb"))], answers(known, []))
    assert done.fix is None


def test_a_long_fix_is_for_programs_alone() -> None:
    longest = "a" * 400
    assert len(longest) == MOST_SHOWN
    (done,) = confirm_remedies([fault("PP1", ("try a", longest))], answers({}, []))
    assert (done.help, done.fix) == (f"try a: {longest}", longest)
    (done,) = confirm_remedies([fault("PP1", ("try a", longest + "a"))], answers({}, []))
    assert (done.help, done.fix) == ("try a", longest + "a")


def test_a_warning_takes_a_fix_too() -> None:
    (done,) = confirm_remedies([fault("PP1", ("try a", "a"), severity="warning")], answers({}, []))
    assert (done.severity, done.fix) == ("warning", "a")
