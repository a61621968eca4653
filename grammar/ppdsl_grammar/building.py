"""The parser of ``layout.lark``: made from the grammar, or, which takes a tenth of the time, from tables that were made from it before.

``python -m ppdsl_grammar.building`` writes the tables anew; this is needed after every change of the grammar, and a test says so. Tables
of another version of Lark than the installed one are not used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lark import Lark

_PACKAGE, _FILE = "ppdsl_grammar", "layout.lark"


def open_parser(transformer: object) -> Lark:
    """Give the LALR parser of layouts.

    Args:
        transformer: An object with a method for each rule, which is called with the rule's children as it is reduced.
    """
    import lark  # noqa: PLC0415 -- reading the grammar's package must not load lark

    from ppdsl_grammar import layout_tables  # noqa: PLC0415 -- the same

    if lark.__version__ == layout_tables.LARK:
        # what Lark's own standalone parsers do; the underscore is why the version has to be the very same
        return lark.Lark._load_from_dict(layout_tables.DATA, layout_tables.MEMO, transformer=transformer)  # type: ignore[no-any-return,no-untyped-call]  # noqa: SLF001
    return build_parser(transformer)


def build_parser(transformer: object | None = None) -> Lark:
    """Build the parser from the grammar file; about 20 ms."""
    from lark import Lark  # noqa: PLC0415 -- reading the grammar's package must not load lark

    options: Any = {"transformer": transformer} if transformer is not None else {}
    return Lark.open_from_package(
        _PACKAGE,
        _FILE,
        start=["layout", "pieces"],
        parser="lalr",
        lexer="basic",
        propagate_positions=False,
        maybe_placeholders=False,
        **options,
    )


def grammar_digest() -> str:
    """Give the SHA-256 of the grammar file's text, in hex."""
    from hashlib import sha256  # noqa: PLC0415 -- for the tables' maker and their test
    from pkgutil import get_data  # noqa: PLC0415 -- the same

    return sha256(get_data(_PACKAGE, _FILE) or b"").hexdigest()


def write_tables() -> str:
    """Write the module ``layout_tables``: the parser's tables as plain data."""
    import lark  # noqa: PLC0415 -- for the tables' maker and their test

    data, memo = build_parser().memo_serialize([lark.lexer.TerminalDef, lark.grammar.Rule])
    data["options"]["import_paths"] = []
    data["options"]["source_path"] = None
    return "\n".join(
        (
            '"""Tables of the parser of layout.lark, written by ppdsl_grammar.building; not to be edited."""',
            "",
            "from typing import Any",
            "",
            f"LARK = {lark.__version__!r}",
            f"GRAMMAR = {grammar_digest()!r}",
            f"DATA: dict[str, Any] = {data!r}",
            f"MEMO: dict[int, Any] = {memo!r}",
            "",
        )
    )


if __name__ == "__main__":
    from pathlib import Path

    (Path(__file__).parent / "layout_tables.py").write_text(write_tables(), encoding="utf-8")
