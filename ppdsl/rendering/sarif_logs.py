"""Diagnostics as a SARIF 2.1.0 log, for code scanning services and editors."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ppdsl.rendering.characters import visible
from ppdsl.rendering.pages import is_file, open_page
from ppdsl.source import Span

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ppdsl.diagnostics import Diagnostic, Rule
    from ppdsl.rendering.pages import Page
    from ppdsl.source import Source

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
LEVELS = {"error": "error", "warning": "warning", "info": "note"}

Json = dict[str, object]


def sarif(results: Iterable[tuple[Source | None, Sequence[Diagnostic]]], rules: Iterable[Rule], version: str) -> Json:
    """Give a log of one run, as JSON's own types; every string in it can be encoded.

    Args:
        results: Each source with what was found in it.
        rules: All that ppdsl may report.
        version: The version of ppdsl.
    """
    rules = tuple(rules)
    places = {rule.code: i for i, rule in enumerate(rules)}
    found = []
    for source, diagnostics in results:
        page = None if source is None else open_page(source)
        found += [_result(each, page, places) for each in diagnostics]
    run = {
        "tool": {"driver": {"name": "ppdsl", "version": version, "rules": [_rule(rule) for rule in rules]}},
        "columnKind": "unicodeCodePoints",
        "newlineSequences": ["\r\n", "\n", "\r"],
        "results": found,
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _rule(rule: Rule) -> Json:
    return {
        "id": rule.code,
        "shortDescription": {"text": rule.title},
        "fullDescription": {"text": rule.text},
        "help": {"text": f"{rule.text}\n\nwrong: ppdsl {rule.wrong}\nright: ppdsl {rule.right}"},
        "defaultConfiguration": {"level": LEVELS[rule.severity]},
    }


def _result(diagnostic: Diagnostic, page: Page | None, places: Mapping[str, int]) -> Json:
    result: Json = {"ruleId": diagnostic.code}
    if diagnostic.code in places:
        result["ruleIndex"] = places[diagnostic.code]
    result |= {"level": LEVELS[diagnostic.severity], "message": {"text": visible(diagnostic.message)}}
    if page is None:
        return result
    result["locations"] = [{"physicalLocation": _location(page, diagnostic.span)}]
    if diagnostic.labels:
        result["relatedLocations"] = [
            {"physicalLocation": _location(page, label.span)} | ({"message": {"text": visible(label.text)}} if label.text else {})
            for label in dict.fromkeys(diagnostic.labels)  # the standard allows no two equal ones
        ]
    if diagnostic.fix is not None and _is_linear(page.source):
        whole = _location(page, Span(0, len(page.source.text)))
        replacement = {"deletedRegion": whole["region"], "insertedContent": {"text": diagnostic.fix}}
        change = {"artifactLocation": whole["artifactLocation"], "replacements": [replacement]}
        result["fixes"] = [{"description": {"text": visible(diagnostic.help or diagnostic.message)}, "artifactChanges": [change]}]
    return result


def _location(page: Page, span: Span | None) -> Json:
    """Give the place of a span, or of the whole source. A text that is no file has a description instead of an address."""
    artifact = {"uri": _address(page.source.name)} if is_file(page.source) else {"description": {"text": visible(page.source.name)}}
    if span is None:
        return {"artifactLocation": artifact}
    (line, column), (end_line, end_column) = (page.place(at) for at in page.bounds(span))
    region = {"startLine": line, "startColumn": column, "endLine": end_line, "endColumn": end_column}
    return {"artifactLocation": artifact, "region": region}


def _is_linear(source: Source) -> bool:
    """Tell whether the text stands in a file character by character, so that it can be replaced there."""
    straight = source.positions is None or (isinstance(source.positions, range) and source.positions.step == 1)
    return straight and is_file(source)


def _address(path: str) -> str:
    """Give a path as a URI: relative if it is, and whatever its characters are."""
    from urllib.parse import quote  # noqa: PLC0415 -- one format alone needs it

    quoted = quote(path.replace(os.sep, "/").removeprefix("./"), errors="surrogatepass")
    return f"file://{quoted}" if quoted.startswith("/") else quoted
