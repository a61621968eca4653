"""What checking found, as JSON and as a SARIF log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ppdsl._version import __version__
from ppdsl.planning.tables import table_as_json
from ppdsl.rendering import diagnostic_as_json, sarif

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ppdsl.cli.inputs import Entry
    from ppdsl.cli.reports import Report
    from ppdsl.compiling import CheckResult

SCHEMA_VERSION = "1.0"

_MOST_ON_A_LINE, _WIDTH = 12, 160
Json = dict[str, object]


def dump(document: object) -> str:
    """Write a document as JSON, what is short on one line, in ASCII, so that no text in it can fail to be encoded."""
    from json import dumps  # noqa: PLC0415 -- the module takes a while to load

    def write(value: object, indent: str) -> str:
        if not isinstance(value, dict | list | tuple):
            return dumps(value)
        if len(value) <= _MOST_ON_A_LINE:
            line = dumps(value)
            if len(line) <= _WIDTH:
                return line
        inner = f"{indent}  "
        if isinstance(value, dict):
            return "{\n" + ",\n".join(f"{inner}{dumps(key)}: {write(each, inner)}" for key, each in value.items()) + f"\n{indent}}}"
        if any(isinstance(each, dict | list | tuple) for each in value):
            return "[\n" + ",\n".join(f"{inner}{write(each, inner)}" for each in value) + f"\n{indent}]"
        return "[\n" + "".join(f"{inner}{line}\n" for line in _fill(map(dumps, value))) + f"{indent}]"

    return write(document, "") + "\n"


def _fill(words: Iterable[str]) -> Iterator[str]:
    """Write words with commas between them, as many on a line as fit."""
    line: list[str] = []
    width = 0
    for word in words:
        if line and width + len(word) > _WIDTH:
            yield ", ".join(line) + ","
            line, width = [], 0
        line.append(word)
        width += len(word) + 2
    yield ", ".join(line)


def document_of(reports: Sequence[Report], *, many: bool) -> Json:
    """Give the document of one result, or of a list of them."""
    if not many:
        return _result(reports[0])
    return {
        "schema_version": SCHEMA_VERSION,
        "ppdsl_version": __version__,
        "valid": all(report.valid for report in reports),
        "results": [_result(report) for report in reports],
    }


def usage_document(message: str) -> Json:
    """Give the document of a command that could not be understood."""
    return _head(valid=False) | _body(None, []) | {"usage_error": message}


def log_of(reports: Sequence[Report]) -> Json:
    """Give the SARIF log of all that was found."""
    from ppdsl.catalog import all_rules  # noqa: PLC0415 -- the log alone has the texts of all rules

    return sarif([group for report in reports for group in report.groups], all_rules().values(), __version__)


def usage_log(message: str) -> Json:
    """Give the SARIF log of a command that could not be understood."""
    notice: Json = {"level": "error", "message": {"text": message}}
    tool: Json = {"driver": {"name": "ppdsl", "version": __version__}}
    invocation: Json = {"executionSuccessful": False, "toolConfigurationNotifications": [notice]}
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{"tool": tool, "invocations": [invocation], "results": []}],
    }


def _head(*, valid: bool) -> Json:
    return {"schema_version": SCHEMA_VERSION, "ppdsl_version": __version__, "valid": valid}


def _result(report: Report) -> Json:
    found = [diagnostic_as_json(each, source) for source, diagnostics in report.groups for each in diagnostics]
    document = _head(valid=report.valid) | _body(report.result, found)
    document["place"] = _place(report.entry)
    document["provenance"] = [{"name": each.name, "value": each.value, "from": each.place} for each in report.entry.origins]
    return document


def _body(result: CheckResult | None, found: list[Json]) -> Json:
    severities = [each["severity"] for each in found]
    table = None if result is None else result.table
    return {
        "layout": None if result is None else _layout(result),
        "table": None if table is None else table_as_json(table),
        "fitting_sizes": [] if result is None or table is not None else result.fitting_sizes(),
        "counts": {severity: severities.count(severity) for severity in ("error", "warning", "info")},
        "diagnostics": found,
    }


def _layout(result: CheckResult) -> Json:
    source = None if result.source is None else result.source.text
    subject, options = result.subject, result.options
    sizes: Json = dict.fromkeys(("stages", "pp", "vpp", "num_layers", "mtp_num_layers", "placement"))
    if subject is None:
        sizes |= {"pp": options.pp, "vpp": options.vpp, "placement": options.placement}
    else:
        tally = subject.form.tally
        sizes = {
            "stages": subject.stages,
            "pp": subject.pp,
            "vpp": subject.vpp,
            "num_layers": tally.count("t"),
            "mtp_num_layers": tally.count("m"),
            "placement": subject.placement or "owners",
        }
    document: Json = {"source": source, "canonical": result.canonical, **sizes}
    if options.tied_embeddings is not None:
        document["embedding_ranks"] = None if result.plan is None else result.plan.embedding_ranks(tied=options.tied_embeddings)
    return document


def _place(entry: Entry) -> Json | None:
    """Say where in the input a layout stands, or which file it is that has none."""
    if entry.written is None:
        return None if entry.page is None else {"name": entry.page.name, "line": None, "column": None}
    line, column = entry.written.line_column(0)
    return {"name": entry.written.name, "line": line, "column": column}
