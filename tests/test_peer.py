"""The promises of the language against Megatron-LM's own class: the same meaning where both accept a text, and no nasty surprise."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ppdsl import check_layout
from ppdsl.normal_form import normalize
from ppdsl.options import Limits
from ppdsl.parsing import parse
from ppdsl.strategies import alphabet_texts, layouts
from ppdsl.targets import lower_to_megatron
from tests.corpora import cases

if TYPE_CHECKING:
    from megatron.core.transformer.pipeline_parallel_layer_layout import PipelineParallelLayerLayout

    from ppdsl.strategies import LayoutCase

pytestmark = pytest.mark.peer

EXAMPLES = max(1_000, settings().max_examples)
"""How many random texts each promise is tried on: 20,000 under the nightly profile."""

LIMITS = Limits()
LARGEST = 50_000
"""How many characters the peer may be made to write out for one text."""


class Peer:
    """Megatron-LM's class, asked."""

    def __init__(self, layout: type[PipelineParallelLayerLayout]) -> None:
        self._layout = layout

    def stages(self, text: str) -> tuple[str, ...] | None:
        """Give the stages that the peer reads, a letter a layer; None where its parser refuses the text."""
        try:
            stages = self._layout.parse_str_to_list(text)
        except AssertionError:
            return None
        letters = {"embedding": "E", "decoder": "t", "mtp": "m", "loss": "L"}
        return tuple("".join(letters[layer.name] for layer in stage) for stage in stages)

    def accepts(self, text: str, pp: int, num_layers: int, mtp_num_layers: int | None) -> bool:
        """Whether the peer builds the layout and finds it valid."""
        try:
            self._layout(text, pp).validate_layer_layout(num_layers, mtp_num_layers)
        except (AssertionError, IndexError):
            return False
        return True


@pytest.fixture(scope="module")
def peer() -> Peer:
    if sys.version_info < (3, 11):
        pytest.skip("megatron-core needs Python 3.11: nothing is known of the promises here")
    from megatron.core.transformer.pipeline_parallel_layer_layout import PipelineParallelLayerLayout  # noqa: PLC0415 -- it takes seconds to load

    return Peer(PipelineParallelLayerLayout)


def our_stages(text: str) -> tuple[str, ...] | None:
    """Give the stages that ppdsl reads, a letter a layer; None where its parser refuses the text."""
    items = parse(text, LIMITS).items
    if items is None:
        return None
    runs = normalize(items, LIMITS).runs()
    return tuple("".join(kind * count for kind, count in stage.runs) for _, stage, times in runs for _ in range(times))


# What the peer does to a text, as far as it has to be known here.

GROUP = re.compile(r"\(([^)]+)\)\*(\d+)")
SYMBOL = re.compile(r"(.)\*(\d+)")
EMPTIED = re.compile(r"\(\)\*\d+")


def is_small(text: str) -> bool:
    """Whether the peer may be given a text: it writes repeats out, and its groups may put long numbers together."""
    bare = text.replace(",", "")
    if any(int(number) > 99 for number in re.findall(r"\d+", bare)):
        return False
    unrolled = GROUP.sub(lambda group: group[1] * int(group[2]), bare)
    counts = re.findall(r"\*(\d+)", unrolled)
    return all(len(count) < 6 for count in counts) and len(unrolled) + sum(map(int, counts)) <= LARGEST


def without_removed(text: str) -> str:
    """Leave out what the peer removes without looking at it, because ``*0`` stands behind."""

    def kept(found: re.Match[str]) -> str:
        return "" if int(found[2]) == 0 else found[0]

    bare = SYMBOL.sub(kept, GROUP.sub(kept, text.replace(",", "")))
    return EMPTIED.sub("", bare)


class Row(NamedTuple):
    """A row of the table in which ppdsl is stricter than Megatron-LM, and how a text of it is told by its looks."""

    name: str
    pattern: str


ROWS = (
    Row("a comma inside a number", r"\d,+\d"),
    Row("a repeat of a repeat", r"\*,*\d+,*\*"),
    Row("a number or a `*` where text is substituted", r"\(,*[\d*]|\*,*[()]"),
    Row("digits of other scripts", r"\*,*[0-9]*[^\W0-9a-zA-Z_]"),
    Row("a count of over 12 digits", r"\*,*\d{13}"),
    Row("a removed group that holds a group", r"\([^)]*\(.*\),*\*,*0"),
    Row("nothing is written", r"^,*$"),
)


def rows_of(text: str, stages: tuple[str, ...]) -> set[str]:
    """Tell in which rows of the table a text falls that the peer reads as ``stages`` and ppdsl refuses."""
    rows = {row.name for row in ROWS if re.search(row.pattern, text)}
    rest = without_removed(text)
    if rest != text.replace(",", "") and (our_stages(rest) == stages or rows_of(rest, stages)):
        rows.add("removed unread")
    return rows


@st.composite
def edited(draw: st.DrawFn) -> str:
    """Draw text that both grammars could have produced, with a few characters of it changed."""
    text = draw(layouts(dialect="megatron", removals=draw(st.booleans()), max_pp=3, max_vpp=2)).text
    usual = ["", *"EtmL|()*,0123", "*0", "*2", "(t", ")*0", ")*2"]
    strange = ["x", "N", "@", "-", "'", " ", "\\", "()", " *0", "\\*0", "\u0663", "*00000000000001"]
    pieces = st.sampled_from(usual + strange)
    for _ in range(draw(st.integers(0, 3))):
        start = draw(st.integers(0, len(text)))
        text = text[:start] + draw(pieces) + text[start + draw(st.integers(0, 2)) :]
    return text


TEXTS = st.one_of(edited(), edited(), edited(), alphabet_texts(max_size=24, max_digits=2))


def test_a_text_that_both_accept_means_the_same_stages(peer: Peer) -> None:
    accepted = refused = 0

    @settings(max_examples=EXAMPLES)
    @given(TEXTS)
    def promise(text: str) -> None:
        nonlocal accepted, refused
        assume(is_small(text))
        ours, theirs = our_stages(text), peer.stages(text)
        if ours is not None and theirs is not None:
            accepted += 1
            assert ours == theirs
        elif theirs is not None:
            refused += 1
            assert rows_of(text, theirs), "the peer accepts it, ppdsl refuses it, and no row of the table says so"

    promise()
    assert accepted > EXAMPLES // 10
    assert refused > EXAMPLES // 100


def test_a_layout_valid_for_megatron_is_valid_there(peer: Peer) -> None:
    valid = 0

    @settings(max_examples=EXAMPLES)
    @given(TEXTS, st.integers(1, 4), st.sampled_from((0, 0, 0, 0, 1, -1)), st.sampled_from((None, 0, 0, 0, 1)))
    def promise(text: str, pp: int, more_layers: int, more_mtp: int | None) -> None:
        nonlocal valid
        assume(is_small(text))
        written = "".join(our_stages(text) or ())
        num_layers = max(0, written.count("t") + more_layers)
        mtp_num_layers = None if more_mtp is None else written.count("m") + more_mtp
        if check_layout(text, pp=pp, num_layers=num_layers, mtp_num_layers=mtp_num_layers, target="megatron").valid:
            valid += 1
            assert peer.accepts(text, pp, num_layers, mtp_num_layers)

    promise()
    assert valid > EXAMPLES // 20


def test_a_layout_valid_there_is_valid_here_unless_an_outer_stage_is_empty(peer: Peer) -> None:
    valid = 0

    @settings(max_examples=EXAMPLES)
    @given(TEXTS, st.integers(1, 4))
    def law(text: str, pp: int) -> None:
        nonlocal valid
        assume(is_small(text))
        stages = our_stages(text)
        assume(stages is not None)
        num_layers, mtp_num_layers = "".join(stages or ()).count("t"), "".join(stages or ()).count("m")
        if peer.accepts(text, pp, num_layers, mtp_num_layers):
            valid += 1
            result = check_layout(text, pp=pp, num_layers=num_layers, mtp_num_layers=mtp_num_layers)
            errors = {diagnostic.code for diagnostic in result.diagnostics if diagnostic.severity == "error"}
            assert errors == (set() if stages and stages[0] and stages[-1] else {"PP313"})

    law()
    assert valid > EXAMPLES // 20


def implied_norm(stages: tuple[str, ...]) -> int:
    """Give the stage where Megatron-LM builds the final norm."""
    wanted = "t" if "m" in "".join(stages) and "t" in "".join(stages) else "L"
    return max(number for number, stage in enumerate(stages) if wanted in stage)


def test_a_layout_lowered_to_megatron_means_the_same_there(peer: Peer) -> None:
    lowered = 0

    @settings(max_examples=EXAMPLES)
    @given(layouts(removals=True))
    def law(case: LayoutCase) -> None:
        nonlocal lowered
        subject = check_layout(case.text, **case.sizes).subject
        assert subject is not None
        text = lower_to_megatron(subject)
        looped = len(case.stages) % case.pp == 0 and all(owner == number % case.pp for number, owner in enumerate(case.owners))
        norms = [number for number, stage in enumerate(case.stages) if "N" in stage]
        if not isinstance(text, str):
            assert text.code == ("PP502" if norms not in ([], [implied_norm(case.stages)]) else "PP505")
            assert text.code == "PP502" or not looped
            return
        lowered += 1
        assert looped
        assert norms in ([], [implied_norm(case.stages)])
        assert peer.stages(text) == tuple(stage.replace("N", "") for stage in case.stages)
        assert peer.accepts(text, case.pp, case.num_layers, case.mtp_num_layers)

    law()
    assert lowered > EXAMPLES // 10


TABLE = cases("peers.json")


@pytest.mark.parametrize("row", TABLE, ids=[row["text"] for row in TABLE])
def test_a_row_of_the_table_is_read_by_both_as_it_says(peer: Peer, row: dict[str, Any]) -> None:
    theirs = peer.stages(row["text"])
    assert (None if theirs is None else "|".join(theirs)) == row["megatron"]
    if "accepted" in row:
        written = "".join(theirs or ())
        assert peer.accepts(row["text"], row["pp"], written.count("t"), written.count("m")) is row["accepted"]
    ours = our_stages(row["text"])
    assert (None if ours is None else "|".join(ours)) == row["ppdsl"]
    found = check_layout(row["text"], pp=row.get("pp")).diagnostics
    assert [diagnostic.code for diagnostic in found if diagnostic.severity == "error"] == row["codes"]
    assert set(row.get("also", [])) <= {diagnostic.code for diagnostic in found}
    if theirs is not None and ours is None:
        assert rows_of(row["text"], theirs)


def test_every_row_has_a_text_in_the_table() -> None:
    texts = [row["text"] for row in TABLE]
    assert all(any(re.search(row.pattern, text) for text in texts) for row in ROWS)
