"""The tables that the parser is loaded from are those of the grammar."""

from __future__ import annotations

import lark
import pytest

from ppdsl.options import Limits
from ppdsl.parsing import parse, reading
from ppdsl_grammar import building, layout_tables

TEXTS = [
    "Et*3||t*3|t*6NL",
    "Et*3|(tt|)*29,m|L",
    "E((t|)*2tt|)*3NL",
    "'Et\\|\\(tt\\|\\)*30L'",
    "Et@0|tL@1",
    "t(*2t)*2",
    "E(tt|*3L",
    "Et٣",
    "x",
]


class _Children:
    """A transformer that keeps what it is given, so that two parsers can be compared."""

    def __getattr__(self, name: str) -> object:
        if name.startswith("_"):
            raise AttributeError(name)
        return lambda children: (str(name), *map(repr, children))


def test_the_tables_were_made_from_this_grammar() -> None:
    assert building.grammar_digest() == layout_tables.GRAMMAR, "run python -m ppdsl_grammar.building"


def test_the_tables_are_of_the_tested_version_of_lark() -> None:
    assert lark.__version__ == layout_tables.LARK


@pytest.mark.parametrize("text", TEXTS)
def test_a_parser_from_the_tables_reads_as_one_from_the_grammar(text: str) -> None:
    def outcome(parser: lark.Lark) -> str:
        try:
            return repr(parser.parse(text, start="layout"))
        except lark.UnexpectedInput as fault:
            return f"{type(fault).__name__} at {fault.pos_in_stream}"

    assert outcome(building.open_parser(_Children())) == outcome(building.build_parser(_Children()))


def test_another_version_of_lark_builds_from_the_grammar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout_tables, "LARK", "0")
    monkeypatch.setattr(layout_tables, "DATA", {})
    reading.layout_parser.cache_clear()
    try:
        parsed = parse("Et*3||t*3|t*6NL", Limits())
    finally:
        reading.layout_parser.cache_clear()
    assert parsed.items is not None


def test_the_writer_gives_tables_that_work() -> None:
    written: dict[str, object] = {}
    exec(building.write_tables(), written)  # noqa: S102 -- the module that was just written
    assert (written["LARK"], written["GRAMMAR"]) == (layout_tables.LARK, layout_tables.GRAMMAR)
    parser = lark.Lark._load_from_dict(written["DATA"], written["MEMO"], transformer=_Children())  # type: ignore[no-untyped-call]  # noqa: SLF001
    assert repr(parser.parse(TEXTS[0], start="layout")) == repr(building.build_parser(_Children()).parse(TEXTS[0], start="layout"))
